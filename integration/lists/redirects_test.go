package lists

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// slashed has the server at /mcp/ alone. Everybody else is sent there by that status, with a
// URL made of the Host that came, as Starlette and FastMCP do; at to instead, if that is not "".
// A request with X-Refuse is asked for a token, by the same address.
func slashed(status int, to string) func(*scripted.Server) http.Handler {
	return func(s *scripted.Server) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Header.Get("X-Refuse") != "":
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://`+r.Host+`/.well-known/oauth-protected-resource/mcp"`)
				w.WriteHeader(http.StatusUnauthorized)
			case r.URL.Path == "/mcp/":
				s.ServeHTTP(w, r)
			default:
				location := "http://" + r.Host + r.URL.Path + "/"
				if to != "" {
					location = to
				}
				w.Header().Set("Location", location)
				w.WriteHeader(status)
			}
		})
	}
}

// TestRedirectedEndpoint has a server redirect its endpoint to the same path with a slash:
// the feed follows, clients are sent to where they came from, and lists are hits at both.
func TestRedirectedEndpoint(t *testing.T) {
	for name, c := range map[string]struct{ site, before string }{
		"plain":    {"DIRECTIVE", ""},
		"stripped": {"handle_path /api/* {\nDIRECTIVE\n}", "/api"},
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstreamBehind(t, slashed(http.StatusTemporaryRedirect, ""))
			w.Host.Start()
			w.Proxy = caddytest.StartProxy(t, strings.Replace(c.site, "DIRECTIVE", caddytest.Directive(w.Host.URL), 1))
			caddytest.AwaitReady(t, "mcp_cache")
			if got := legacyStates(t); len(got) == 0 || got[0] != "ready" {
				t.Errorf("the feed is %q", got)
			}
			site := "http://" + w.Proxy.Addr
			for _, revision := range caddytest.Revisions {
				there := fixture.New(t, site+c.before+"/mcp/", revision, "")
				for _, method := range scripted.ListMethods() {
					caddytest.WantHit(t, there.Settle(method), method, "v1")
				}
			}
			here := fixture.NewModern(t, site+c.before+"/mcp", "")
			caddytest.WantHit(t, here.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
			a := here.Call("tools/call", here.Params(`"name":"item-0000"`))
			if a.Status != http.StatusTemporaryRedirect || a.Header.Get("Location") != c.before+"/mcp/" {
				t.Errorf("a call gave %s, Location %q", a, a.Header.Get("Location"))
			}
			a = here.Post(fixture.Message("1", scripted.ToolsList, here.Params("")), http.Header{"X-Refuse": {"1"}, "Mcp-Method": {scripted.ToolsList}, "Authorization": {"Bearer x"}})
			if got, want := a.Header.Get("WWW-Authenticate"), `Bearer resource_metadata="`+site+c.before+`/.well-known/oauth-protected-resource/mcp"`; a.Status != http.StatusUnauthorized || got != want {
				t.Errorf("a refusal is %s, WWW-Authenticate %s", a, got)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site+c.before+"/mcp", strings.NewReader(fixture.Message("1", "tools/call", here.Params(`"name":"item-0000"`))))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{
				"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
				"Mcp-Protocol-Version": {scripted.Modern}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"item-0000"},
			}
			follows := fixture.HTTPClient(t, "follows", "")
			follows.CheckRedirect = nil
			res, err := follows.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK || res.Request.URL.String() != site+c.before+"/mcp/" {
				t.Errorf("who follows gets %d from %s", res.StatusCode, res.Request.URL)
			}
		})
	}
}

// TestChangesBehindARedirect has what the server announces be seen, on a stream to which
// the feed was redirected.
func TestChangesBehindARedirect(t *testing.T) {
	w := caddytest.NewUpstreamBehind(t, slashed(http.StatusPermanentRedirect, ""))
	w.Start("refresh 10ms")
	c := fixture.New(t, w.Proxy.URL+"/", scripted.LatestLegacy, "")
	c.Settle(scripted.ToolsList)
	fixture.Await(t, "the feed's stream", func() bool {
		return w.Streams(func(s scripted.StreamInfo) bool { return s.Feed && !s.Modern }) > 0
	})
	w.Mark(scripted.ToolsList, "v2")
	w.Changed(scripted.Feeds, scripted.ToolsList)
	c.AwaitList(scripted.ToolsList, "the change", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v2") })
}

// TestOtherRedirects has a server redirect its endpoint elsewhere: nobody follows, clients
// get the Location as it is, and the failure says where it leads.
func TestOtherRedirects(t *testing.T) {
	for name, c := range map[string]struct {
		status   int
		to, says string
	}{
		"another server":     {307, "https://other.example/mcp/?key=secret", "answered 307 and leads to https://other.example/mcp/: name that URL"},
		"with a 301":         {301, "https://other.example/mcp", "answered 301 and leads to https://other.example/mcp: name that URL"},
		"the twin, by a 301": {301, "", "answered 301 and leads to URL/: name that URL"},
		"a page for users":   {302, "https://login.example/?next=/mcp", "answered 302 and leads to https://login.example/"},
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstreamBehind(t, slashed(c.status, c.to))
			w.Start()
			var s caddytest.Status
			fixture.Await(t, "the feeds' failures", func() bool {
				_, body := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil)
				return json.Unmarshal(body, &s) == nil && len(s.Feeds) > 0 && s.Feeds[0].LastFailure != nil
			})
			says := strings.Replace(c.says, "URL/:", w.Host.URL+"/:", 1)
			if said := s.Feeds[0].LastFailure.Message; said != says {
				t.Errorf("the failure is %q", said)
			}
			if !strings.Contains(w.Proxy.Log(), "upstream "+strings.Replace(says, "answered", "answered HTTP", 1)) {
				t.Error("the log does not say where the redirect leads")
			}
			if a := fixture.NewModern(t, w.Proxy.URL, "").List(scripted.ToolsList); a.Status != c.status || a.Header.Get("Location") != cmp.Or(c.to, "/mcp/") {
				t.Errorf("a list gave %s, Location %q", a, a.Header.Get("Location"))
			}
			there := fixture.NewModern(t, w.Proxy.URL+"/", "")
			for range 2 {
				if a := there.List(scripted.ToolsList); a.Status != http.StatusOK || a.CacheStatus().Raw != "" {
					t.Errorf("a list at the other path gave %s", a)
				}
			}
		})
	}
}
