package mcpcache_test

import (
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	_ "github.com/caddy-mcp/mcp-cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/caddystore"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/off"
)

// TestStores has each store loaded, and read from a Caddyfile: they have nothing
// to set.
func TestStores(t *testing.T) {
	for name, want := range map[string]caddy.Module{"caddy": new(caddystore.Caddy), "off": new(off.Off)} {
		info, err := caddy.GetModule(stores.Namespace + "." + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.New(); got.CaddyModule().ID != want.CaddyModule().ID {
			t.Errorf("%s is %T", info.ID, got)
		}
		if _, ok := info.New().(stores.Store); !ok {
			t.Errorf("%s is no store", info.ID)
		}
		for input, ok := range map[string]bool{
			name: true, name + " {\n}": true, name + " folder": false, name + " {\n path /tmp\n}": false,
		} {
			// UnmarshalModule expects the dispenser at the module's name.
			d := caddyfile.NewTestDispenser(input)
			d.Next()
			if _, err := caddyfile.UnmarshalModule(d, string(info.ID)); ok != (err == nil) {
				t.Errorf("%q: got %v", input, err)
			}
		}
	}
}
