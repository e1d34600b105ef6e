package probe

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// inEra has a server give one list in the modern era and another one in the
// legacy era; nil is not offered.
func inEra(s *scripted.Server, method string, modern, legacy scripted.Page) {
	s.SetScript(method, func(x *scripted.Exchange) {
		page := legacy
		if x.R.Header.Get("Mcp-Protocol-Version") == scripted.Modern {
			page = modern
		}
		if page == nil {
			x.Error(http.StatusNotFound, -32601, "not here")
			return
		}
		s.SetList(method, page)
		x.Default()
	})
}

// TestErasAreCompared looks at servers that have other lists for either era, for
// programs.
func TestErasAreCompared(t *testing.T) {
	items := scripted.Items(toolsList, "v1", 2)
	for name, c := range map[string]struct {
		modern, legacy scripted.Page
		ofModern       *Comparison
		ofLegacy       *Comparison
	}{
		"same":          {items, items, &Comparison{Same: true}, nil},
		"fewer":         {items, items[:1], &Comparison{Difference: "1 items instead of 2; missing: item-0001"}, nil},
		"legacy only":   {nil, items, nil, &Comparison{Difference: "not offered in the modern era, which leaves out 2 items"}},
		"modern only":   {items[:1], nil, &Comparison{Difference: "not offered in the legacy era, which leaves out 1 item"}, nil},
		"nothing there": {scripted.Page{}, nil, &Comparison{Same: true}, nil},
		"empty":         {scripted.Page{}, scripted.Page{}, &Comparison{Same: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted()
			inEra(s, toolsList, c.modern, c.legacy)
			r := run(t, options(t, serve(t, s)))
			for i, want := range []*Comparison{c.ofModern, c.ofLegacy} {
				var got *Comparison
				for _, l := range r.Eras[i].Lists {
					if l.Kind == "tools" {
						got = l.OtherEra
					}
				}
				if (got == nil) != (want == nil) || got != nil && *got != *want {
					t.Errorf("the tools (%s) compare as %+v, want %+v", r.Eras[i].Era, got, want)
				}
			}
			differs := strings.Contains(strings.Join(strings.Fields(r.Text()), " "), "Clients of the legacy era are given something else than those of the modern era. tools: ")
			if same := c.ofLegacy == nil && c.ofModern.Same; differs == same {
				t.Errorf("it says\n%s", r.Text())
			}
		})
	}
	t.Run("one fails", func(t *testing.T) {
		s := newScripted()
		s.SetScript(toolsList, func(x *scripted.Exchange) {
			if x.R.Header.Get("Mcp-Protocol-Version") == scripted.Modern {
				x.Default()
				return
			}
			x.Error(http.StatusOK, -32603, "database is down")
		})
		r := run(t, options(t, serve(t, s)))
		if got := list(t, r, "tools").OtherEra; got == nil || *got != (Comparison{Failure: "error -32603: database is down"}) {
			t.Errorf("the tools compare as %+v", got)
		}
		if !strings.Contains(r.Text(), "  - Clients of both eras are given the same.\n") { // of the lists that can be compared
			t.Errorf("it says\n%s", r.Text())
		}
	})
}

// TestConnectionsAreCounted looks at a server that keeps connections, and at one
// that ends each with its answer.
func TestConnectionsAreCounted(t *testing.T) {
	for name, keeps := range map[string]bool{"kept": true, "ended": false} {
		t.Run(name, func(t *testing.T) {
			s := newScripted()
			s.SetCapabilities(`{"tools":{}}`)
			var accepted, requests atomic.Int64
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				s.ServeHTTP(w, r)
			})
			r := run(t, options(t, listenTo(t, handler, func(host *httptest.Server) {
				host.Config.SetKeepAlivesEnabled(keeps)
				host.Config.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateNew {
						accepted.Add(1)
					}
				}
				host.Start()
			})))
			fixture.Await(t, "the server to have counted as many", func() bool { return accepted.Load() == int64(r.Connections) })
			if !keeps && int64(r.Connections) != requests.Load() || keeps && r.Connections != 1 {
				t.Errorf("%d requests over %d connections", requests.Load(), r.Connections)
			}
			if says := "  asked    over " + plural(r.Connections, "connection", "connections") + "\n"; !strings.Contains(r.Text(), says) {
				t.Errorf("it does not say %q:\n%s", says, r.Text())
			}
		})
	}
}
