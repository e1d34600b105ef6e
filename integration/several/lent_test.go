package several

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

// lending is one way in which a handler uses a server with a guard. All of them share the
// server's backend.
type lending struct {
	plain         bool // one server, not a toolkit
	authorization string
	tenant, door  bool // headers X-Tenant, door one
}

// lendings returns every combination that the configuration allows.
func lendings() (all []lending) {
	all = append(all, lending{plain: true})
	for _, authorization := range []string{"off", "forward", "from X-Key", "guard"} {
		for _, tenant := range []bool{false, true} {
			if authorization == "off" && !tenant {
				continue // the guard would be of no use
			}
			all = append(all, lending{authorization: authorization, tenant: tenant})
			if authorization != "guard" || tenant {
				all = append(all, lending{authorization: authorization, tenant: tenant, door: true})
			}
		}
	}
	return all
}

func (l lending) String() string {
	if l.plain {
		return "one server"
	}
	return fmt.Sprintf("authorization %s, headers %t, door %t", l.authorization, l.tenant, l.door)
}

// directive writes a handler that uses the server "one" that way. The server "open" is beside
// it, which lets everybody in.
func (l lending) directive(name, one, open string) string {
	const guard = "guard bearer planted-account-token"
	if l.plain {
		return caddytest.Directive(one, guard, "name "+name)
	}
	options := []string{guard, "prefix off", "authorization " + l.authorization}
	if l.tenant {
		options = append(options, "headers X-Tenant")
	}
	in := "admit all"
	if l.door {
		in = "door one"
	}
	return caddytest.ToolkitOf([]caddytest.Member{{Name: "one", URL: one, Options: options}, {Name: "open", URL: open}}, in, "name "+name)
}

// shows returns the item of the server "one" that a caller is shown, with a token of its own or
// without one; "" if the server refuses the caller.
func (l lending) shows(token bool) string {
	switch {
	case l.authorization == "guard":
		return "account-secret"
	case token && l.authorization != "off":
		return "of-a-caller"
	}
	return ""
}

// lentSite is a Caddy with a handler of each way, at a path of its own.
type lentSite struct {
	t         *testing.T
	one, open *caddytest.World
	proxy     *caddytest.Proxy
	ways      []lending
	// lent says of each session of a client with the server "one" whether it was opened with
	// the guard's token.
	lent map[string]bool
}

func startLent(t *testing.T) *lentSite {
	t.Helper()
	s := &lentSite{t: t, ways: lendings(), lent: make(map[string]bool)}
	s.one, _ = caddytest.NewMember(t, "one", "authorization")
	s.open, _ = caddytest.NewMember(t, "open")
	s.one.SetHints(`"ttlMs":3600000,"cacheScope":"private"`)
	s.one.SetDoor(scripted.Bearers("planted-account-token", "of-a-caller"))
	for token, item := range map[string]string{"planted-account-token": "account-secret", "of-a-caller": "of-a-caller"} {
		for _, method := range scripted.ListMethods() {
			s.one.SetPrivateList("Bearer "+token, method, namedItems(method, item))
		}
	}
	s.proxy = caddytest.StartProxy(t, s.config())
	return s
}

func (s *lentSite) config() string {
	var text strings.Builder
	for i, way := range s.ways {
		fmt.Fprintf(&text, "handle_path /h%d/* {\n%s\n}\n", i, way.directive(fmt.Sprintf("h%d", i), s.one.Host.URL, s.open.Host.URL))
	}
	return text.String()
}

// client returns a client of handler i, nil if it is not let in. A legacy one opens a session
// unless it has one.
func (s *lentSite) client(i int, revision, tenant string, token bool, session string) *fixture.Raw {
	s.t.Helper()
	c := fixture.NewModern(s.t, fmt.Sprintf("http://%s/h%d/mcp", s.proxy.Addr, i), "")
	c.Header.Set("X-Tenant", tenant)
	if token {
		c.Header.Set("Authorization", "Bearer of-a-caller")
		c.Header.Set("X-Key", "Bearer of-a-caller")
	}
	if c.Revision = revision; c.Modern() || session != "" {
		c.Session = session
		return c
	}
	a := c.Call("initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`, revision))
	if a.Status == http.StatusUnauthorized {
		return nil
	}
	c.Session = a.Header.Get("Mcp-Session-Id")
	return c
}

// wantShown has a caller list and call at handler i, and returns its session. Whatever it is
// given has to be what the server "one" shows to such requests.
func (s *lentSite) wantShown(i int, revision, tenant string, token bool, session string) string {
	s.t.Helper()
	way := s.ways[i]
	what := fmt.Sprintf("%s, %s, token %t (%s)", way, revision, token, tenant)
	c, want := s.client(i, revision, tenant, token, session), way.shows(token)
	outside := want == "" && (way.door || way.plain)
	if c == nil {
		if !outside {
			s.t.Errorf("%s: initialize is refused", what)
		}
		return ""
	}
	var names []string
	fixture.Await(s.t, what+": a list", func() bool {
		a := c.List(scripted.ToolsList)
		names = itemNames(s.t, a, scripted.ToolsList)
		if a.Status == http.StatusUnauthorized || a.Status == http.StatusNotFound {
			names = []string{http.StatusText(a.Status)}
			return true
		}
		for _, other := range []string{"account-secret", "of-a-caller"} {
			if other != want && slices.Contains(names, other) {
				s.t.Fatalf("%s is shown %q: %s", what, names, a)
			}
		}
		return !outside && (want == "" || slices.Contains(names, want))
	})
	if names[0] == http.StatusText(http.StatusNotFound) && session != "" {
		return s.wantShown(i, revision, tenant, token, "") // the session was another handler's
	}
	if (names[0] == http.StatusText(http.StatusUnauthorized)) != outside {
		s.t.Errorf("%s is shown %q", what, names)
	}
	s.one.Host.Forget()
	s.open.Host.Forget()
	a := c.Call("tools/call", c.Params(`"name":"account-secret","arguments":{}`))
	if (a.Part("result") != nil) != (want == "account-secret") {
		s.t.Errorf("%s: the account's tool gave %s: %s", what, a, a.Body)
	}
	for _, r := range clientsOf(s.one) {
		if lent := strings.Contains(r.Header.Get("Authorization"), "planted"); lent != (way.authorization == "guard") {
			s.t.Errorf("%s: a call was sent with %q", what, r.Header.Get("Authorization"))
		}
		if id := r.Header.Get("Mcp-Session-Id"); id != "" {
			if before, used := s.lent[id]; used && before != (way.authorization == "guard") {
				s.t.Errorf("%s: a call was sent in a session that was opened with another account", what)
			}
			s.lent[id] = way.authorization == "guard"
		}
	}
	if a := c.Call("tools/call", c.Params(`"name":"open__item-0000","arguments":{}`)); !way.plain && (a.Part("result") != nil) == outside {
		s.t.Errorf("%s: a call of the other server gave %s: %s", what, a, a.Body)
	}
	return c.Session
}

// TestNobodyElseIsShownWhatAGuardFetched: handlers and configurations of one server share what
// is known of it. A list that was fetched with the guard's token, and the admission that came
// with it, are for callers whose requests carry that token.
func TestNobodyElseIsShownWhatAGuardFetched(t *testing.T) {
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		t.Run(revision, func(t *testing.T) {
			s := startLent(t)
			for i := range s.ways {
				tenant := fmt.Sprintf("tenant-%d", i)
				for _, at := range append([]int{i}, indexes(s.ways)...) {
					for _, token := range []bool{true, false} {
						s.wantShown(at, revision, tenant, token, "")
					}
				}
			}
		})
	}
}

// TestReloadShowsNobodyElseWhatAGuardFetched is the same over a reload from each way to each
// other one. Sessions of legacy clients go on.
func TestReloadShowsNobodyElseWhatAGuardFetched(t *testing.T) {
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		t.Run(revision, func(t *testing.T) {
			s := startLent(t)
			for by := 1; by < len(s.ways); by++ {
				sessions := make(map[string]string)
				each := func() {
					for i := range s.ways {
						for _, token := range []bool{true, false} {
							key := fmt.Sprintf("tenant-%d-%d-%t", by, i, token)
							sessions[key] = s.wantShown(i, revision, fmt.Sprintf("tenant-%d-%d", by, i), token, sessions[key])
						}
					}
				}
				each()
				s.ways = append(slices.Clone(s.ways[by:]), s.ways[:by]...) // another way at each path
				s.proxy.Reload(s.config())
				each()
			}
		})
	}
}

func indexes[T any](of []T) (all []int) {
	for i := range of {
		all = append(all, i)
	}
	return all
}
