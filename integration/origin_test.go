package integration

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestRebindingIsRefused sends requests that a page of another site can make a
// browser send: nothing is served to it, and nothing reaches the upstream.
func TestRebindingIsRefused(t *testing.T) {
	w := newWorld(t)
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		c := w.warm(revision)
		for name, header := range map[string]http.Header{
			"foreign origin":       {"Origin": {"http://evil.example"}},
			"null origin":          {"Origin": {"null"}},
			"another port":         {"Origin": {"http://127.0.0.1:1"}},
			"two origins":          {"Origin": {"http://" + w.proxy.Addr, "http://evil.example"}},
			"foreign host":         {"Host": {"evil.example"}},
			"foreign host, origin": {"Host": {"evil.example"}, "Origin": {"http://evil.example"}},
			"another site":         {"Sec-Fetch-Site": {"cross-site"}},
			"another host":         {"Sec-Fetch-Site": {"same-site"}, "Sec-Fetch-Mode": {"no-cors"}},
			"host with our port":   {"Host": {"evil.example:" + w.proxy.Addr[len("127.0.0.1:"):]}},
		} {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				w.host.Forget()
				a, err := c.Try(t.Context(), method, fixture.Message("1", toolsList, c.Params("")), with(header, "Mcp-Method", toolsList))
				if err != nil {
					t.Fatal(err)
				}
				if a.Status != http.StatusForbidden || a.Part("result") != nil {
					t.Errorf("%s, %s: got %s", name, method, describe(a))
				}
				if r, ok := w.host.Last(); ok {
					t.Errorf("%s, %s: %s %s reached the upstream", name, method, r.HTTPMethod, r.Body)
				}
			}
		}
		for name, header := range map[string]http.Header{
			"same origin": {"Origin": {"http://" + w.proxy.Addr}},
			"its page":    {"Sec-Fetch-Site": {"same-origin"}},
			"localhost":   {"Host": {"localhost:" + w.proxy.Addr[len("127.0.0.1:"):]}},
		} {
			if a := c.Post(fixture.Message("1", toolsList, c.Params("")), with(header, "Mcp-Method", toolsList)); !isHit(a, toolsList, "v1") {
				t.Errorf("%s: got %s", name, describe(a))
			}
		}
		w.host.Forget()
		link := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}, "Accept": {"text/html"}}
		res, err := c.Open(t.Context(), http.MethodGet, http.NoBody, link)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if r, ok := w.host.Last(); !ok || r.HTTPMethod != http.MethodGet {
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
	w := newUpstream(t)
	w.start("origins https://app.example")
	c := w.warm(scripted.Modern)
	for origin, status := range map[string]int{
		"https://app.example": http.StatusOK, "http://app.example": http.StatusForbidden,
		"https://app.example:8443": http.StatusForbidden, "https://app.example.evil.example": http.StatusForbidden,
		"https://evil.example": http.StatusForbidden,
	} {
		a := c.Post(fixture.Message("1", toolsList, c.Params("")), http.Header{"Mcp-Method": {toolsList}, "Origin": {origin}})
		if a.Status != status {
			t.Errorf("origin %s got %s", origin, describe(a))
		}
	}
	a := c.Post(fixture.Message("1", toolsList, c.Params("")), http.Header{"Mcp-Method": {toolsList}, "Host": {"app.example"}})
	if a.Status != http.StatusOK {
		t.Errorf("named host got %s", describe(a))
	}
}

// TestOriginThatTheServerRefuses names an origin whose pages the server refuses:
// they get its 403, and nothing that lets them read a hit.
func TestOriginThatTheServerRefuses(t *testing.T) {
	const app = "https://app.example"
	w := newUpstream(t)
	w.start("origins " + app)
	w.SetDoor(func(r *http.Request) int {
		if r.Header.Get("Origin") == app {
			return http.StatusForbidden
		}
		return http.StatusOK
	})
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		c := w.warm(revision)
		for range 3 {
			a := c.Post(fixture.Message("1", toolsList, c.Params("")), http.Header{"Mcp-Method": {toolsList}, "Origin": {app}})
			if a.Status != http.StatusForbidden || a.CacheStatus().Hit || a.Header["Access-Control-Allow-Origin"] != nil {
				t.Errorf("a page that the server refuses got %s, %v", describe(a), a.Header)
			}
			c.AwaitList(toolsList, "a hit for others", func(a *fixture.Answer) bool { return isHit(a, toolsList, "v1") })
		}
	})
}
