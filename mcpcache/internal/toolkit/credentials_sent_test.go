package toolkit

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestCredentialsReachWhomTheyAreFor: a server is sent those credentials of a caller that are for it, also where its session
// is opened and ended, and no others.
func TestCredentialsReachWhomTheyAreFor(t *testing.T) {
	for name, tt := range map[string]struct {
		carries Credentials
		want    http.Header
	}{
		"nothing":                   {Credentials{}, http.Header{}},
		"the Authorization":         {Credentials{From: "Authorization"}, http.Header{"Authorization": {"Bearer caller"}}},
		"another field as that":     {Credentials{From: "X-Token"}, http.Header{"Authorization": {"Bearer x"}}},
		"a field that is not there": {Credentials{From: "X-Other"}, http.Header{}},
		"a field by its name":       {Credentials{Headers: []string{"X-Token", "X-Other"}}, http.Header{"X-Token": {"Bearer x"}}},
		"the Authorization and a field": {
			Credentials{From: "Authorization", Headers: []string{"X-Token"}}, http.Header{"Authorization": {"Bearer caller"}, "X-Token": {"Bearer x"}},
		},
	} {
		eachPairNamed(t, name, func(w *world, c *caller, m *member) {
			for field, value := range map[string]string{"Authorization": "Bearer caller", "X-Token": "Bearer x", "Cookie": "c=1", "Proxy-Authorization": "p"} {
				c.header.Set(field, value)
			}
			var sent int
			m.Do(func() { sent = len(m.Requests) })
			c.call("one__tools_a").wantOf(w, "one")
			c.send(c.request(http.MethodDelete, "/mcp", ""))
			w.after(time.Second)
			m.Do(func() {
				for _, r := range m.Requests[sent:] {
					if r.Method != "tools/call" && r.Method != "initialize" && r.Method != "DELETE" {
						continue
					}
					for _, field := range []string{"Authorization", "X-Token", "X-Other", "Cookie", "Proxy-Authorization"} {
						if !slices.Equal(r.Header[field], tt.want[field]) {
							w.Errorf("with %s the server is sent %s: %q, want %q", r.Method, field, r.Header[field], tt.want[field])
						}
					}
				}
			})
		}, func(m *member) { m.of.Credentials = tt.carries })
	}
}

// TestGuardsAuthorizeCalls: a server is sent the credential of its guard with all that is for a caller, in the place of the
// caller's own.
func TestGuardsAuthorizeCalls(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		c.header.Set("Authorization", "Bearer caller")
		var sent int
		m.Do(func() { sent = len(m.Requests) })
		c.call("one__tools_a").wantOf(w, "one")
		c.send(c.request(http.MethodDelete, "/mcp", ""))
		w.after(time.Second)
		m.Do(func() {
			for _, r := range m.Requests[sent:] {
				if got := r.Header["Authorization"]; !slices.Equal(got, []string{"Bearer " + theToken}) {
					w.Errorf("with %s the server is sent %q", r.Method, got)
				}
			}
		})
	}, guarded)
}

// TestGuardsRenewCredentials: a call that a server refuses for the credential of its guard is made once more with another
// one, if the guard has one. A client is told of a refusal that stays.
func TestGuardsRenewCredentials(t *testing.T) {
	const refuses = `the MCP server "one" refuses the credential of its guard: HTTP status %d`
	for name, tt := range map[string]struct {
		guard   guards.Guard
		status  int // for all tokens but the one that is accepted
		accepts string
		calls   int
		says    string
	}{
		"another one":           {&clienttest.Guard{Renewals: 1}, 401, "Bearer t1", 2, ""},
		"no other":              {&clienttest.Guard{}, 401, "Bearer t1", 1, fmt.Sprintf(refuses, 401)},
		"one that is wrong":     {&clienttest.Guard{Renewals: 5}, 401, "Bearer t2", 2, fmt.Sprintf(refuses, 401)},
		"forbidden":             {&clienttest.Guard{Renewals: 5}, 403, "Bearer t1", 1, fmt.Sprintf(refuses, 403)},
		"a guard that is plain": {clienttest.PlainGuard{}, 401, "Bearer t1", 1, fmt.Sprintf(refuses, 401)},
	} {
		eachPairNamed(t, name, func(w *world, c *caller, m *member) {
			sent := m.records()
			m.of.Credentials.Guard = tt.guard
			if g, ok := tt.guard.(*clienttest.Guard); ok {
				m.of.Credentials.Guard = &clienttest.Guard{Renewals: g.Renewals} // one for each pair
			}
			m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
				if r.Header.Get("Authorization") != tt.accepts {
					return clienttest.Status(tt.status, "Www-Authenticate", "Bearer realm=x")(w, r, c)
				}
				return echoes(m)(w, r, c)
			})
			a := c.call("one__tools_a")
			if tt.says == "" {
				a.wantOf(w, "one")
			} else {
				a.want(w, name, http.StatusBadGateway, -32603)
				wantSaid(w, a, tt.says)
			}
			if a.Header()["Www-Authenticate"] != nil {
				w.Errorf("the client is given the challenge %q", a.Header()["Www-Authenticate"])
			}
			if n := m.Count("tools/call"); n != tt.calls {
				w.Errorf("the call is sent %d times, want %d", n, tt.calls)
			}
			if all := sent.of("tools/call"); tt.calls == 2 && all[0].body != all[1].body {
				w.Errorf("the call is sent as %s and as %s", all[0], all[1])
			}
			want := guards.Challenge{Status: tt.status, Endpoint: m.of.URL, WWWAuthenticate: []string{"Bearer realm=x"}}
			g, renews := m.of.Credentials.Guard.(*clienttest.Guard)
			if renews && tt.status == 401 && (!reflect.DeepEqual(g.Renewed, []guards.Challenge{want}) || g.Used[0] != "Bearer t0") {
				w.Errorf("the guard is told of %+v and %q", g.Renewed, g.Used)
			}
		})
	}
}

// TestGuardsWithoutCredentials: a client whose server's guard has no credential is told so. The server is sent nothing, and
// the log has that once.
func TestGuardsWithoutCredentials(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		c.call("one__tools_a").wantOf(w, "one")
		m.of.Credentials.Guard = &clienttest.Guard{Put: func(*http.Request) error { return guards.ErrUnauthorized }}
		for range 2 {
			a := c.call("one__tools_a")
			a.want(w, "a call", http.StatusBadGateway, -32603)
			wantSaid(w, a, `the MCP server "one" cannot be asked: its guard has no credential`)
		}
		if n := m.Count("tools/call"); n != 1 {
			w.Errorf("the server is sent %d calls", n)
		}
		w.wantLogged("guard has no credential: one")
	}, guarded)
}

// TestRefusedCallersAreToldWhose: a client is told that a server refuses the caller's credentials where it is sent them.
func TestRefusedCallersAreToldWhose(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		m.On("tools/call", clienttest.Status(http.StatusForbidden))
		a := c.call("one__tools_a")
		a.want(w, "a call", http.StatusBadGateway, -32603)
		wantSaid(w, a, `the MCP server "one" refuses the caller's credentials: HTTP status 403`)
	}, func(m *member) { m.personal() })
}

// TestRequestsHaveTheirOwnVariables: the handler that reaches a server finds no variables of Caddy on a second attempt that
// it has set on the first one, which a transport may read still.
func TestRequestsHaveTheirOwnVariables(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		m.of.Credentials.Guard = &clienttest.Guard{Renewals: 1}
		var all []map[string]any
		m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
			all = append(all, vars)
			vars["attempt"] = len(all)
			return clienttest.Status(http.StatusUnauthorized)(w, r, c)
		})
		c.call("one__tools_a")
		if len(all) != 2 || all[0]["attempt"] != 1 || all[1]["attempt"] != 2 || all[1][caddyhttp.ClientIPVarKey] != "192.0.2.1" {
			w.Errorf("the attempts have the variables %v", all)
		}
	})
}

// calling makes a request of the client that calls a tool and has 7 as the token of its progress, for [caller.begin].
func (c *caller) calling(tool string) *http.Request {
	params := fmt.Sprintf(`"name":%q,"arguments":{}`, tool)
	if c.at.Era() == revision.Legacy {
		return c.request(http.MethodPost, "/mcp", c.message("tools/call", params+`,"_meta":{"progressToken":7}`))
	}
	body := strings.Replace(c.message("tools/call", params), `"_meta":{`, `"_meta":{"progressToken":7,`, 1)
	return c.request(http.MethodPost, "/mcp", body, "Mcp-Method", "tools/call", "Mcp-Name", tool)
}
