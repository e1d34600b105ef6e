package options

import (
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func TestNone(t *testing.T) {
	for input, want := range map[string]string{
		"name":            "",
		"name {\n}":       "",
		"name folder":     "name takes no arguments, at Testfile:1",
		"name {\n x y\n}": `unrecognized subdirective "x"; there are none, at Testfile:2`,
	} {
		got := ""
		if err := None(caddyfile.NewTestDispenser(input)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", input, got, want)
		}
	}
}
