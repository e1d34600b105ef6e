// Package version finds out with which version of this module a program is built.
package version

import (
	"runtime/debug"
	"sync"
)

// Module is the path of this Go module.
const Module = "github.com/caddy-mcp/mcp-cache"

const caddy = "github.com/caddyserver/caddy/v2"

// unknown is the version of a build that does not say which it is, such as one by `go run` or
// one of a folder in the place of a release.
const unknown = "devel"

// Own returns the version of this module in the program, such as "v0.1.0". Of a build from a
// checkout that is no release it is a pseudo-version with the commit (Go Modules Reference,
// "Pseudo-versions"). It is "devel" if the program does not say it.
var Own = sync.OnceValue(func() string { return of(Module) })

// Caddy returns the version of Caddy in the program, in the same way.
var Caddy = sync.OnceValue(func() string { return of(caddy) })

// Agent returns what we call ourselves in the header User-Agent (RFC 9110, section 10.1.5).
func Agent() string { return "mcp_cache/" + Own() }

func of(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return find(info, module)
}

func find(info *debug.BuildInfo, module string) string {
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace // a fork, or a folder, which has no version
		}
		if m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return unknown
}
