package mcpcache

import "runtime/debug"

// ownVersion returns the version of this module in the program, "devel" if that is not
// known.
func ownVersion() string {
	const path = "github.com/caddy-mcp/mcp-cache"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "devel"
}
