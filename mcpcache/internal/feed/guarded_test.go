package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// testGuard numbers its tokens. It can renew them as often as renewals says.
type testGuard struct {
	authorize func(*http.Request) error // nil: puts the token on

	mu       sync.Mutex
	token    int
	renewals int
	renewed  []guards.Challenge
	used     []string
	requests int
}

func (g *testGuard) Authorize(_ context.Context, r *http.Request) error {
	if g.authorize != nil {
		return g.authorize(r)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	r.Header.Set("Authorization", fmt.Sprintf("Bearer t%d", g.token))
	return nil
}

func (g *testGuard) Identity() string { return "test" }

func (g *testGuard) Credential(r *http.Request) string { return r.Header.Get("Authorization") }

func (g *testGuard) Renew(_ context.Context, used string, c guards.Challenge) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renewed, g.used = append(g.renewed, c), append(g.used, used)
	if used != fmt.Sprintf("Bearer t%d", g.token) {
		return nil // it is another one already
	}
	if g.renewals == 0 {
		return guards.ErrUnauthorized
	}
	g.renewals--
	g.token++
	return nil
}

// demanding lets only one token in.
func (s *server) demanding(token string) {
	s.onAll(func(w http.ResponseWriter, r *http.Request, c call) error {
		if r.Header.Get("Authorization") != token {
			return status(http.StatusUnauthorized, "Www-Authenticate", `Bearer error="invalid_token"`)(w, r, c)
		}
		return s.answer(w, r, c)
	})
}

func TestEveryRequestIsAuthorized(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				g := new(testGuard)
				w.set(func(p *Policy) { p.Guard = g })
				w.wantState(w.start(r), Ready)
				s.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
				w.after(0)
				w.group.Stop()
				if g.requests != len(s.headers) {
					t.Errorf("the guard saw %d of %d requests", g.requests, len(s.headers))
				}
				for i, header := range s.headers {
					if got := header["Authorization"]; len(got) != 1 || got[0] != "Bearer t0" {
						t.Errorf("request %d carries %q", i, got)
					}
				}
			})
		})
	}
}

// A request that is refused is sent once more with a new credential.
func TestRefusedCredentialIsRenewed(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.demanding("Bearer t1")
			run(t, s, func(w *world) {
				g := &testGuard{renewals: 1}
				w.set(func(p *Policy) { p.Guard = g })
				w.wantState(w.start(r), Ready)
				w.wantStates(r, Hydrating, Ready)
				if len(g.renewed) != 1 || g.used[0] != "Bearer t0" {
					t.Fatalf("renewed %d times, used %q", len(g.renewed), g.used)
				}
				c := g.renewed[0]
				if c.Status != 401 || c.Endpoint != "http://upstream.test/mcp" || len(c.WWWAuthenticate) != 1 ||
					c.WWWAuthenticate[0] != `Bearer error="invalid_token"` {
					t.Errorf("the challenge is %+v", c)
				}
				w.wantItems(r, revision.Tools, "tools_a", "tools_b")
				w.wantCalls(list, 1)

				s.demanding("Bearer t2") // the next one has expired while listening
				g.mu.Lock()
				g.renewals = 1
				g.mu.Unlock()
				w.after(w.policy.TTL)
				w.wantState(w.group.Of(r), Ready)
			})
		})
	}
}

// One more attempt and no more, if the new credential is refused too.
func TestRenewedOnceForARequest(t *testing.T) {
	s := newServer(modern)
	s.demanding("Bearer none")
	run(t, s, func(w *world) {
		g := &testGuard{renewals: 1000}
		w.set(func(p *Policy) { p.Guard = g })
		w.wantState(w.start(modern), NeedsAuthorization)
		w.wantCalls("server/discover", 2)
		if len(g.renewed) != 1 {
			t.Errorf("renewed %d times", len(g.renewed))
		}
	})
}

func TestNeedsAuthorization(t *testing.T) {
	for name, tt := range map[string]struct {
		guard  guards.Guard
		answer script
		calls  int
	}{
		"no guard":          {nil, status(401), 1},
		"cannot be renewed": {new(testGuard), status(401), 1},
		"forbidden":         {&testGuard{renewals: 5}, status(403), 1},
		"no credential":     {&testGuard{authorize: func(*http.Request) error { return guards.ErrUnauthorized }}, nil, 0},
		"not a renewer":     {plainGuard{}, status(401), 1},
	} {
		for era, r := range both {
			t.Run(name+" "+era, func(t *testing.T) {
				s := newServer(r)
				s.onAll(tt.answer)
				run(t, s, func(w *world) {
					w.set(func(p *Policy) { p.Guard = tt.guard })
					f := w.start(r)
					w.wantState(f, NeedsAuthorization)
					opening := map[revision.Revision]string{legacy: "initialize", modern: "server/discover"}[r]
					w.wantCalls(opening, tt.calls)
					w.after(time.Hour)
					w.wantState(f, NeedsAuthorization)
					w.wantStates(r, NeedsAuthorization)
					s.onAll(nil)
					w.set(func(p *Policy) { p.Guard = new(testGuard) })
					w.after(46 * time.Second)
					w.wantState(f, Ready)
				})
			})
		}
	}
}

// A guard that fails for another reason says nothing of the credential.
func TestGuardFails(t *testing.T) {
	s := newServer(modern)
	run(t, s, func(w *world) {
		w.set(func(p *Policy) {
			p.Guard = &testGuard{authorize: func(*http.Request) error { return errors.New("token server is down") }}
		})
		w.wantState(w.start(modern), Down)
	})
}

type plainGuard struct{}

func (plainGuard) Authorize(context.Context, *http.Request) error { return nil }

func (plainGuard) Identity() string { return "plain" }
