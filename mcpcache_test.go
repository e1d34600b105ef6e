package mcpcache_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	_ "github.com/caddy-mcp/mcp-cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
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

// TestGuards has Caddy load each guard from JSON, without its files and servers being
// there, twice side by side, and refuses unknown options.
func TestGuards(t *testing.T) {
	for name, config := range map[string]string{
		"bearer":   `{"file":"/nowhere/token"}`,
		"oauth2":   `{"client_id":"a","client_secret":"b","token_endpoint":"https://does-not-exist.invalid/token"}`,
		"exchange": `{"subject_token_file":"/nowhere/token","issuer":"https://does-not-exist.invalid"}`,
		"jwt":      `{"key":"/nowhere/key"}`,
	} {
		ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
		var identities []string
		for range 2 {
			module, err := ctx.LoadModuleByID(guards.Namespace+"."+name, json.RawMessage(config))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if _, ok := module.(guards.Renewer); !ok {
				t.Errorf("%s is no Renewer", name)
			}
			identities = append(identities, module.(guards.Guard).Identity())
		}
		if len(identities) != 2 || identities[0] != identities[1] || !strings.HasPrefix(identities[0], name+"-") {
			t.Errorf("%s: identities %q", name, identities)
		}
		wrong := strings.Replace(config, "{", `{"colour":"blue",`, 1)
		if _, err := ctx.LoadModuleByID(guards.Namespace+"."+name, json.RawMessage(wrong)); err == nil {
			t.Errorf("%s: an unknown option was accepted", name)
		}
		if _, err := ctx.LoadModuleByID(guards.Namespace+"."+name, json.RawMessage(`{}`)); err == nil {
			t.Errorf("%s: an empty configuration was accepted", name)
		}
		cancel()
	}
}
