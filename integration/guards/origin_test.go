package guards

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestRebindingIsRefused sends requests that a page of another site can make a
// browser send: nothing is served to it, and nothing reaches the upstream.
func TestRebindingIsRefused(t *testing.T) {
	w := caddytest.NewWorld(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		for name, header := range map[string]http.Header{
			"foreign origin":       {"Origin": {"http://evil.example"}},
			"null origin":          {"Origin": {"null"}},
			"another port":         {"Origin": {"http://127.0.0.1:1"}},
			"two origins":          {"Origin": {"http://" + w.Proxy.Addr, "http://evil.example"}},
			"foreign host":         {"Host": {"evil.example"}},
			"foreign host, origin": {"Host": {"evil.example"}, "Origin": {"http://evil.example"}},
			"another site":         {"Sec-Fetch-Site": {"cross-site"}},
			"another host":         {"Sec-Fetch-Site": {"same-site"}, "Sec-Fetch-Mode": {"no-cors"}},
			"host with our port":   {"Host": {"evil.example:" + w.Proxy.Addr[len("127.0.0.1:"):]}},
		} {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				w.Host.Forget()
				a, err := c.Try(t.Context(), method, fixture.Message("1", scripted.ToolsList, c.Params("")), with(header, "Mcp-Method", scripted.ToolsList))
				if err != nil {
					t.Fatal(err)
				}
				if a.Status != http.StatusForbidden || a.Part("result") != nil {
					t.Errorf("%s, %s: got %s", name, method, a)
				}
				if r, ok := w.Host.Last(); ok {
					t.Errorf("%s, %s: %s %s reached the upstream", name, method, r.HTTPMethod, r.Body)
				}
			}
		}
		for name, header := range map[string]http.Header{
			"same origin": {"Origin": {"http://" + w.Proxy.Addr}},
			"its page":    {"Sec-Fetch-Site": {"same-origin"}},
			"localhost":   {"Host": {"localhost:" + w.Proxy.Addr[len("127.0.0.1:"):]}},
		} {
			if a := c.Post(fixture.Message("1", scripted.ToolsList, c.Params("")), with(header, "Mcp-Method", scripted.ToolsList)); !caddytest.IsHit(a, scripted.ToolsList, "v1") {
				t.Errorf("%s: got %s", name, a)
			}
		}
		w.Host.Forget()
		link := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}, "Accept": {"text/html"}}
		res, err := c.Open(t.Context(), http.MethodGet, http.NoBody, link)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if r, ok := w.Host.Last(); !ok || r.HTTPMethod != http.MethodGet {
			t.Errorf("somebody followed a link, and %v reached the upstream", r)
		}
	})
}

func with(header http.Header, name, value string) http.Header {
	h := header.Clone()
	h.Set(name, value)
	return h
}

// TestOriginsAreLetIn names the origin of a web application in the
// configuration: its pages are served, others still are not.
func TestOriginsAreLetIn(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.Start("origins https://app.example app://bundle null")
	c := w.Warm(scripted.Modern)
	for origin, status := range map[string]int{
		"https://app.example": http.StatusOK, "http://app.example": http.StatusForbidden,
		"https://app.example:8443": http.StatusForbidden, "https://app.example.evil.example": http.StatusForbidden,
		"https://evil.example": http.StatusForbidden, "app://bundle": http.StatusOK, "null": http.StatusOK,
		"app://other": http.StatusForbidden, "chrome-extension://abc": http.StatusForbidden,
	} {
		a := c.Post(fixture.Message("1", scripted.ToolsList, c.Params("")), http.Header{"Mcp-Method": {scripted.ToolsList}, "Origin": {origin}})
		if a.Status != status {
			t.Errorf("origin %s got %s", origin, a)
		}
	}
	a := c.Post(fixture.Message("1", scripted.ToolsList, c.Params("")), http.Header{"Mcp-Method": {scripted.ToolsList}, "Host": {"app.example"}})
	if a.Status != http.StatusOK {
		t.Errorf("named host got %s", a)
	}
}

// TestOriginThatTheServerRefuses names an origin whose pages the server refuses:
// they get its 403, and nothing that lets them read a hit.
func TestOriginThatTheServerRefuses(t *testing.T) {
	const app = "https://app.example"
	w := caddytest.NewUpstream(t)
	w.Start("origins " + app)
	w.SetDoor(func(r *http.Request) int {
		if r.Header.Get("Origin") == app {
			return http.StatusForbidden
		}
		return http.StatusOK
	})
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		for range 3 {
			a := c.Post(fixture.Message("1", scripted.ToolsList, c.Params("")), http.Header{"Mcp-Method": {scripted.ToolsList}, "Origin": {app}})
			if a.Status != http.StatusForbidden || a.CacheStatus().Hit || a.Header["Access-Control-Allow-Origin"] != nil {
				t.Errorf("a page that the server refuses got %s, %v", a, a.Header)
			}
			c.AwaitList(scripted.ToolsList, "a hit for others", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v1") })
		}
	})
}

// TestAnyPage lets in pages of every origin, for one server and in front of several.
func TestAnyPage(t *testing.T) {
	for name, config := range map[string]func(url string) string{
		"one server": func(url string) string { return block("mcp_cache "+url, "origins *") },
		"toolkit":    func(url string) string { return block("mcp_cache", "origins *", "server a "+url) },
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.Host.Start()
			w.Proxy = caddytest.StartProxy(t, config(w.Host.URL))
			c := w.Client(scripted.Modern)
			c.Settle(scripted.ToolsList)
			for _, header := range []http.Header{
				{"Origin": {"https://any.example"}}, {"Origin": {"null"}}, {"Host": {"any.example"}, "Origin": {"http://any.example"}},
				{"Sec-Fetch-Site": {"cross-site"}},
			} {
				a := c.Post(fixture.Message("1", scripted.ToolsList, c.Params("")), with(header, "Mcp-Method", scripted.ToolsList))
				if a.Status != http.StatusOK {
					t.Errorf("%v got %s", header, a)
				}
			}
		})
	}
}

// TestNamedSite has a site that a tunnel on the same machine leads to: its own name is let in
// wherever it is named, and no other.
func TestNamedSite(t *testing.T) {
	const public = "mcp.public.example"
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	cache := block("mcp_cache "+w.Host.URL, "name tunnel")
	for name, c := range map[string]struct{ site, body string }{
		"its address": {public, cache},
		"a matcher":   {"", "@public host " + public + " second.example\nhandle @public {\n" + cache + "\n}"},
		"a route":     {"", "@public host " + public + "\nroute {\nroute @public {\n" + cache + "\n}\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			w.Proxy = caddytest.StartProxyCalled(t, c.site, c.body)
			caller := w.Client(scripted.Modern)
			caller.Header = http.Header{"Host": {public}}
			caddytest.WantHit(t, caller.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
			page := http.Header{"Mcp-Method": {scripted.ToolsList}, "Host": {public}, "Origin": {"https://" + public}}
			if a := caller.Post(fixture.Message("1", scripted.ToolsList, caller.Params("")), page); a.Status != http.StatusOK {
				t.Errorf("a page of the site got %s", a)
			}
		})
	}
	t.Run("no name", func(t *testing.T) {
		w.Proxy = caddytest.StartProxy(t, cache)
		caller := w.Client(scripted.Modern)
		for range 3 {
			caller.Post(fixture.Message("1", scripted.ToolsList, caller.Params("")), http.Header{"Mcp-Method": {scripted.ToolsList}, "Host": {public}})
		}
		wantRemark(t, w.Proxy, "tunnel", "name it in the option origins, with https:// in front", "host", public, 3)
	})
	t.Run("not that name", func(t *testing.T) {
		w.Proxy = caddytest.StartProxy(t, "@others not host "+public+"\nhandle @others {\n"+cache+"\n}\nhandle {\n"+cache+"\n}")
		caller := w.Client(scripted.Modern)
		a := caller.Post(fixture.Message("1", scripted.ToolsList, caller.Params("")), http.Header{"Mcp-Method": {scripted.ToolsList}, "Host": {public}})
		if a.Status != http.StatusForbidden {
			t.Errorf("a name that is excluded got %s", a)
		}
	})
}

// wantRemark fails unless the status of a cache has a warning that ends with that text and what
// it is about, so many times, and the log has it once.
func wantRemark(t testing.TB, p *caddytest.Proxy, name, text, field, value string, times int) {
	t.Helper()
	all := caddytest.Warnings(t, name)
	want := fmt.Sprintf("%s (%s: %s, %d times)", text, field, value, times)
	if !slices.ContainsFunc(all, func(w string) bool { return strings.HasSuffix(w, want) }) {
		t.Errorf("warnings are %q, want one with %q", all, want)
	}
	logged := 0
	for line := range strings.Lines(p.Log()) {
		if strings.Contains(line, text) && strings.Contains(line, fmt.Sprintf("%q:%q", field, value)) {
			logged++
		}
	}
	if logged != 1 {
		t.Errorf("the log has %q of %s %d times", text, value, logged)
	}
}

// TestRewrittenHost has a handler in front change the Host: pages of the site are let in, others
// are not, and the log tells which, for one server and in front of several.
func TestRewrittenHost(t *testing.T) {
	for name, config := range map[string]func(url string) string{
		"one server": func(url string) string { return "mcp_cache " + url },
		"toolkit":    func(url string) string { return block("mcp_cache", "server a "+url) },
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.Host.Start()
			w.Proxy = caddytest.StartProxy(t, "request_header Host 127.0.0.1:3001\n"+config(w.Host.URL))
			c := w.Client(scripted.Modern)
			c.Settle(scripted.ToolsList)
			ask := func(site, origin string) int {
				h := http.Header{"Mcp-Method": {scripted.ToolsList}, "Origin": {origin}, "Sec-Fetch-Site": {site}}
				return c.Post(fixture.Message("1", scripted.ToolsList, c.Params("")), h).Status
			}
			if status := ask("same-origin", "http://"+w.Proxy.Addr); status != http.StatusOK {
				t.Errorf("a page of the site got %d", status)
			}
			for range 2 {
				if status := ask("cross-site", "http://other.example"); status != http.StatusForbidden {
					t.Errorf("a page of another got %d", status)
				}
			}
			if status := ask("same-origin", "http://rebound.example"); status != http.StatusForbidden {
				t.Errorf("a page of a name that leads to this machine got %d", status)
			}
			wantRemark(t, w.Proxy, "mcp_cache", "name it in the option origins", "origin", "http://other.example", 2)
		})
	}
}
