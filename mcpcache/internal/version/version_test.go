package version

import (
	"runtime/debug"
	"testing"
)

func TestFind(t *testing.T) {
	dependency := func(version string, replace *debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{
			Main: debug.Module{Path: "caddy", Version: "(devel)"},
			Deps: []*debug.Module{{Path: "other", Version: "v3.0.0"}, {Path: Module, Version: version, Replace: replace}},
		}
	}
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"a release in a build of xcaddy":     {dependency("v0.1.0", nil), "v0.1.0"},
		"a folder in its place":              {dependency("v0.0.0", &debug.Module{Path: "/src"}), "devel"},
		"a fork in its place":                {dependency("v0.1.0", &debug.Module{Path: "example.com/fork", Version: "v0.1.1"}), "v0.1.1"},
		"a checkout":                         {&debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.1.0"}}, "v0.1.0"},
		"a checkout without version control": {&debug.BuildInfo{Main: debug.Module{Path: Module, Version: "(devel)"}}, "devel"},
		"no such module":                     {&debug.BuildInfo{Main: debug.Module{Path: "caddy", Version: "v1.0.0"}}, "devel"},
	} {
		if got := find(c.info, Module); got != c.want {
			t.Errorf("%s: the version is %q instead of %q", name, got, c.want)
		}
	}
}
