package guards

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestReloadKeepsGuardedFeed reloads a configuration with the same credential:
// the snapshot and the feed live on, and the new guard has a token when the old
// one's is over.
func TestReloadKeepsGuardedFeed(t *testing.T) {
	for _, name := range []string{"bearer file", "oauth2 basic", "oauth2 discovery", "exchange", "jwt"} {
		t.Run(name, func(t *testing.T) {
			s := guardedSetups[name](t)
			p := newProtected(t, "go-sdk", s.issuer, s.verify, time.Hour)
			site := startGuarded(t, p, s.auth, s.guard)
			c := site.warm(scripted.Modern)
			caddytest.AwaitState(t, "ready")
			lists, discovers := p.CountFeed(scripted.ToolsList), p.CountFeed("server/discover")
			for range 3 {
				site.proxy.Reload(site.config(s.guard, "max_request 1KiB"))
				if a := c.List(scripted.ToolsList); !isWhole(a) || !a.CacheStatus().Hit {
					t.Errorf("after a reload, a list gave %s", a)
				}
			}
			if n := p.CountFeed(scripted.ToolsList) - lists; n != 0 {
				t.Errorf("the reloads cost %d lists", n)
			}
			if n := p.CountFeed("server/discover") - discovers; n != 0 {
				t.Errorf("the reloads cost %d new conversations", n)
			}
			caddytest.RefreshFeeds(t) // with the newest guard's token
			caddytest.AwaitState(t, "ready")
			if n := p.CountFeed(scripted.ToolsList); n == lists {
				t.Error("the feed has not used the new guard")
			}
			p.wantOwnAccounts(t)
		})
	}
}

// TestReloadWithAnotherCredential reloads with another account: its feed starts
// anew, that of the first account ends, and its list is served to nobody any
// more.
func TestReloadWithAnotherCredential(t *testing.T) {
	t.Setenv("MCP_CACHE_TEST_TOKEN", "first-token-5d1a")
	t.Setenv("MCP_CACHE_TEST_SECRET", "first-secret-77c1")
	auth := authtest.New(t)
	for _, id := range []string{"first", "second"} {
		auth.AddClient(id, authtest.Client{Secret: id + "-secret-77c1"})
	}
	client := func(id, secret string) string {
		return block("oauth2 "+auth.TokenURL(), "client_id "+id, "client_secret "+secret, "scope "+listScope)
	}
	keys := t.TempDir()
	for _, name := range []string{"a", "b"} {
		writeKey(t, filepath.Join(keys, name))
	}
	for name, test := range map[string]struct {
		before, after string
		change        func()
	}{
		"bearer":               {before: "bearer first-token-5d1a", after: "bearer second-token-5d1a"},
		"bearer, other header": {before: "bearer x-5d1a", after: block("bearer x-5d1a", "prefix Token")},
		"placeholder's value": {before: "bearer {env.MCP_CACHE_TEST_TOKEN}", after: "bearer {env.MCP_CACHE_TEST_TOKEN}",
			change: func() { t.Setenv("MCP_CACHE_TEST_TOKEN", "second-token-5d1a") }},
		"oauth2 client": {before: client("first", "first-secret-77c1"), after: client("second", "second-secret-77c1")},
		"jwt key":       {before: "jwt " + filepath.Join(keys, "a"), after: "jwt " + filepath.Join(keys, "b")},
		"no guard":      {before: "bearer first-token-5d1a", after: ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.Host.Start()
			config := func(guard string) string {
				if guard == "" {
					return caddytest.Directive(w.Host.URL)
				}
				return caddytest.Directive(w.Host.URL, "guard "+guard)
			}
			w.Proxy = caddytest.StartProxy(t, config(test.before))
			c := w.Warm(scripted.Modern)
			w.Mark(scripted.ToolsList, "v2")
			if test.change != nil {
				test.change()
			}
			w.Host.Forget()
			w.Proxy.Reload(config(test.after))
			if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != "v2" {
				t.Errorf("after the reload, a list gave %s", a)
			}
			caddytest.WantHit(t, c.Settle(scripted.ToolsList), scripted.ToolsList, "v2")
			fixture.Await(t, "the end of the first feed", func() bool {
				return w.Streams(func(s scripted.StreamInfo) bool { return s.Feed && s.Modern }) == 1
			})
			if n := w.Host.CountFeed("server/discover"); n == 0 {
				t.Error("no new feed has begun")
			}
		})
	}
}

// TestRejectedReloadKeepsTheGuard rejects a configuration after its guard was
// provisioned: the old one goes on, with its own token.
func TestRejectedReloadKeepsTheGuard(t *testing.T) {
	s := setupSecret(t, "basic")
	p := newProtected(t, "go-sdk", s.issuer, s.verify, time.Hour)
	site := startGuarded(t, p, s.auth, s.guard)
	c := site.warm(scripted.Modern)
	wrong := site.config(s.guard) + "\nroute /never {\ntemplates {\nmime\n}\n}"
	for range 3 {
		if err := site.proxy.TryReload(wrong); err == nil {
			t.Fatal("the wrong configuration was loaded")
		}
	}
	caddytest.RefreshFeeds(t)
	caddytest.AwaitState(t, "ready")
	if a := c.List(scripted.ToolsList); !isWhole(a) || !a.CacheStatus().Hit {
		t.Errorf("a list gave %s", a)
	}
	if n := len(s.auth.Requests()); n != 1 {
		t.Errorf("%d token requests, want the first guard's alone", n)
	}
}

// TestGuardsStartWithoutAnything starts and reloads Caddy while neither the
// token's file, nor the authorization server, nor the upstream is there.
func TestGuardsStartWithoutAnything(t *testing.T) {
	gone := fixture.NewDownHost(t, scripted.New())
	dir := t.TempDir()
	for name, guard := range map[string]string{
		"bearer": block("bearer", "file "+dir+"/token"),
		"oauth2": block("oauth2 http://"+gone.Addr+"/token", "client_id a", "client_secret_file "+dir+"/secret"),
		"issuer": block("oauth2", "issuer http://"+gone.Addr, "client_id a", "key "+dir+"/key"),
		"jwt":    "jwt " + dir + "/key",
		"exchange": block("exchange http://"+gone.Addr+"/token", "subject_token_file "+dir+"/subject",
			"client_id a", "tls_client_auth "+dir+"/cert "+dir+"/key"),
	} {
		t.Run(name, func(t *testing.T) {
			caddytest.CheckGoroutines(t)
			p := caddytest.StartProxy(t, caddytest.Directive("http://"+gone.Addr+"/mcp", "guard "+guard))
			for range 3 {
				p.Reload(caddytest.Directive("http://"+gone.Addr+"/mcp", "guard "+guard))
			}
			fixture.Await(t, "a state that says what is missing", func() bool {
				reports := caddytest.Feeds(t)
				for _, f := range reports {
					if f.State != "needs_authorization" && f.State != "down" || f.Failure.Message == "" {
						return false
					}
				}
				return len(reports) > 0
			})
		})
	}
}
