package feed

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/credential"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// testGuard numbers its tokens. It can renew them as often as renewals says.
type testGuard struct {
	authorize func(*http.Request) error // nil: puts the token on

	mu       sync.Mutex
	token    int
	renewals int
	renewed  []credential.Challenge
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

func (g *testGuard) Renew(_ context.Context, used string, c credential.Challenge) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renewed, g.used = append(g.renewed, c), append(g.used, used)
	if used != fmt.Sprintf("Bearer t%d", g.token) {
		return nil // it is another one already
	}
	if g.renewals == 0 {
		return credential.ErrUnauthorized
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
				w.group.Farewell()
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
		guard  credential.Guard
		answer script
		calls  int
	}{
		"no guard":          {nil, status(401), 1},
		"cannot be renewed": {new(testGuard), status(401), 1},
		"forbidden":         {&testGuard{renewals: 5}, status(403), 1},
		"no credential":     {&testGuard{authorize: func(*http.Request) error { return credential.ErrUnauthorized }}, nil, 0},
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

// secretGuard has one token, which an upstream may repeat.
type secretGuard struct {
	header, value string
	renew         func(used string) error
}

func (g *secretGuard) Authorize(_ context.Context, r *http.Request) error {
	r.Header.Set(g.header, g.value)
	return nil
}

func (g *secretGuard) Identity() string { return "secret" }

func (g *secretGuard) Credential(r *http.Request) string { return r.Header.Get(g.header) }

func (g *secretGuard) Renew(_ context.Context, used string, _ credential.Challenge) error {
	return g.renew(used)
}

// A credential that an upstream repeats is hidden in every form, wherever it
// has put it: in the state, the log and the list.
func TestRepeatedCredentialIsHidden(t *testing.T) {
	const token = "s3cr3t/tok+en~0123456789=%"
	forms := map[string]string{
		"raw": token, "query": url.QueryEscape(token), "path": url.PathEscape(token), "upper case": strings.ToUpper(token),
		"JSON": strings.ReplaceAll(token, "/", `\/`), "code points": `\u0073` + token[1:],
		"base64": base64.StdEncoding.EncodeToString([]byte("user:" + token)),
	}
	for name, value := range map[string]string{
		"bearer": "Bearer " + token, "alone": token,
		"basic": "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+token)),
	} {
		for form, shown := range forms {
			for where, answer := range map[string]script{
				"error":   raw(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no rights for ` + shown + `"}}`),
				"failure": func(http.ResponseWriter, *http.Request, call) error { return errors.New("upstream said " + shown) },
				"renewal": status(http.StatusUnauthorized),
			} {
				s := newServer(modern)
				s.onAll(answer)
				run(t, s, func(w *world) {
					w.set(func(p *Policy) {
						p.Guard = &secretGuard{"X-Credential", value, func(string) error { return errors.New("asked at " + shown) }}
						if name != "alone" {
							p.Guard.(*secretGuard).header = "Authorization"
						}
					})
					f := w.start(modern)
					text := f.Status().Failure.Err.Error() + fmt.Sprint(w.logs.All())
					if whole := strings.ToLower(shown); !strings.Contains(text, "*") && !strings.Contains(text, "[hidden]") ||
						strings.Contains(strings.ToLower(text), whole[5:15]) {
						t.Errorf("%s, %s in %s: %s", name, form, where, text)
					}
				})
			}
		}
	}
}

// Of a credential that is longer than what is shown, no half is shown.
func TestLongCredentialInAHeader(t *testing.T) {
	token := strings.Repeat("abcdefghijklmnop0123456789", 20)
	for name, answer := range map[string]script{
		"content type": func(w http.ResponseWriter, _ *http.Request, _ call) error { return reply(w, 200, "text/"+token, "x") },
		"content encoding": func(w http.ResponseWriter, _ *http.Request, _ call) error {
			w.Header().Set("Content-Encoding", "x-"+token)
			return reply(w, 200, "application/json", "x")
		},
	} {
		s := newServer(modern)
		s.onAll(answer)
		run(t, s, func(w *world) {
			w.set(func(p *Policy) { p.Guard = &secretGuard{header: "Authorization", value: "Bearer " + token} })
			text := w.start(modern).Status().Failure.Err.Error() + fmt.Sprint(w.logs.All())
			if strings.Contains(text, token[:10]) || !strings.Contains(text, "[hidden]") {
				t.Errorf("%s: %s", name, text)
			}
		})
	}
}

func TestBrief(t *testing.T) {
	for size, want := range map[int]int{0: 0, maxErrorText: maxErrorText, maxErrorText + 1: maxErrorText} {
		err := fmt.Errorf("%s%w", strings.Repeat("x", max(0, size-len(errRefused.Error()))), errRefused)
		if size == 0 {
			err, want = errRefused, len(errRefused.Error())
		}
		if got := brief(err); len(got.Error()) != want || !errors.Is(got, errRefused) {
			t.Errorf("%d bytes became %d", size, len(got.Error()))
		}
	}
}

// Texts are cut wherever they come from: what is shown, and no more.
func TestFailuresAreCut(t *testing.T) {
	for _, size := range []int{maxErrorText, maxErrorText + 1, 8 << 20} {
		long := func(before string) error { return errors.New(strings.Repeat("x", size-len(before))) }
		for name, tt := range map[string]struct {
			before  string
			prepare func(s *server, p *Policy, err error)
		}{
			"guard": {"calling server/discover: authorizing a request: ", func(_ *server, p *Policy, err error) {
				p.Guard = &testGuard{authorize: func(*http.Request) error { return err }}
			}},
			"upstream": {"calling initialize: ", func(s *server, _ *Policy, err error) {
				s.onAll(func(http.ResponseWriter, *http.Request, call) error { return err })
			}},
			"notification": {"sending notifications/initialized: failed to send request: ", func(s *server, _ *Policy, err error) {
				s.on("notifications/initialized", func(http.ResponseWriter, *http.Request, call) error { return err })
			}},
			"fetch": {"calling tools/list: ", func(s *server, p *Policy, err error) {
				p.Kinds = revision.SetOf(revision.Tools)
				s.on("tools/list", func(http.ResponseWriter, *http.Request, call) error { return err })
			}},
		} {
			r := legacy
			if name == "guard" {
				r = modern
			}
			s := newServer(r)
			run(t, s, func(w *world) {
				w.set(func(p *Policy) { tt.prepare(s, p, long(tt.before)) })
				f := w.start(r)
				text := f.Status().Failure.Err.Error()
				for _, line := range w.logs.FilterField(zap.String("stage", f.Status().Failure.Stage)).All() {
					if len(fmt.Sprint(line.ContextMap()["error"])) > maxErrorText {
						t.Errorf("%s, %d bytes: the log has all of it", name, size)
					}
				}
				if len(text) > maxErrorText || !strings.HasPrefix(text, tt.before[:10]) {
					t.Errorf("%s, %d bytes: the failure has %d: %.100s", name, size, len(text), text)
				}
			})
		}
	}
}
