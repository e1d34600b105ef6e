package mcpcache

import "runtime/debug"

// modulePath is that of this Go module.
const modulePath = "github.com/caddy-mcp/mcp-cache"

// ownVersion returns the version of this module in the program, "devel" if that is not
// known.
func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "devel"
}
