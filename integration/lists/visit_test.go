package lists

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// browse opens an address as a browser does.
func browse(t *testing.T, address string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Deadline)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	r.Header.Set("Sec-Fetch-Site", "none")
	return fixture.Fetch(t, fixture.HTTPClient(t, "browser", ""), r)
}

// TestOpenedInABrowser tells people what is there, with servers that have nothing to show:
// one that refuses a GET without a session, and one that opens a stream for whoever asks.
// That ends at once, and leaves nothing behind.
func TestOpenedInABrowser(t *testing.T) {
	caddytest.CheckGoroutines(t)
	var streams atomic.Int64
	streaming := scripted.New()
	streaming.SetRevisions(scripted.Modern)
	for name, server := range map[string]http.Handler{
		"sessions": scripted.New(),
		"stream for all": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				streaming.ServeHTTP(w, r)
				return
			}
			streams.Add(1)
			defer streams.Add(-1)
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Mcp-Session-Id", "of-the-stream")
			http.SetCookie(w, &http.Cookie{Name: "of", Value: "the-stream"})
			w.WriteHeader(http.StatusOK)
			for r.Context().Err() == nil { // until the client has gone, whatever it reads
				if _, err := fmt.Fprint(w, ": here\n\n"); err != nil {
					return
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					return
				}
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			h := fixture.NewHost(t, server)
			p := caddytest.StartProxy(t, "encode\nhandle_path /team/* {\n"+caddytest.Directive(h.URL)+"\n}\nhandle {\n"+caddytest.Directive(h.URL, "deny tools x", "name ruled")+"\n}")
			for path, site := range map[string]string{"/mcp": p.URL, "/team/mcp": "http://" + p.Addr + "/team/mcp"} {
				for range 10 {
					res, body := browse(t, site+"?key=secret")
					if res.StatusCode != http.StatusMethodNotAllowed || !strings.HasPrefix(body, "This is an MCP endpoint") ||
						!strings.Contains(body, "\n    http://"+p.Addr+path+"\n") || strings.Contains(body, "secret") {
						t.Fatalf("opening %s gave %d, %s", site, res.StatusCode, body)
					}
					if h := res.Header; h.Get("Mcp-Session-Id") != "" || h.Get("Set-Cookie") != "" || h.Get("Cache-Control") != "no-store" || h.Get("Allow") != "POST" {
						t.Errorf("opening %s gave the header %v", site, h)
					}
				}
			}
			fixture.Await(t, "the streams to end", func() bool { return streams.Load() == 0 })
		})
	}
}

// TestVisitorsAreToldTheSame: a person reads the same text, whatever is behind the endpoint, and also where clients
// need a credential.
func TestVisitorsAreToldTheSame(t *testing.T) {
	_, one := caddytest.NewMember(t, "one")
	_, other := caddytest.NewMember(t, "two")
	door := caddytest.Member{Name: "one", URL: one.URL, Options: []string{"authorization forward"}}
	program := caddytest.Member{Name: "one", URL: caddytest.RelayTo(one.URL)}
	for name, site := range map[string]string{
		"one server":       caddytest.Directive(one.URL),
		"a program":        caddytest.Directive(program.URL),
		"several servers":  caddytest.ToolkitOf([]caddytest.Member{one, other}),
		"several programs": caddytest.ToolkitOf([]caddytest.Member{program, other}),
		"a door":           caddytest.ToolkitOf([]caddytest.Member{door, other}, "door one"),
	} {
		t.Run(name, func(t *testing.T) {
			p := caddytest.StartProxy(t, site)
			res, body := browse(t, p.URL)
			want := "This is an MCP endpoint (Model Context Protocol): it is for programs, not for browsers.\n\n" +
				"To use it, give its URL to an MCP client, with the transport \"Streamable HTTP\":\n\n    " + p.URL + "\n\n" +
				"It is served by mcp_cache, a cache for MCP servers.\n"
			if res.StatusCode != http.StatusMethodNotAllowed || body != want {
				t.Errorf("got %d, %s", res.StatusCode, body)
			}
			if h := res.Header; h.Get("Mcp-Session-Id") != "" || h.Get("Cache-Control") != "no-store" || h.Get("Allow") != "POST" || h.Get("Cache-Status") == "" {
				t.Errorf("got the header %v", h)
			}
		})
	}
}

// TestStreamsAreNoVisits: what takes an event stream gets it.
func TestStreamsAreNoVisits(t *testing.T) {
	w := caddytest.NewWorld(t)
	c := w.Client(scripted.LatestLegacy)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := c.Open(ctx, http.MethodGet, http.NoBody, http.Header{"Accept": {"text/event-stream, text/html"}})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("the stream is %d, %v", res.StatusCode, res.Header)
	}
}
