package feed

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// A bridge to a slow program is asked for one list after another, and each answer is
// waited for (supergateway#142).
func TestOneListAtATime(t *testing.T) {
	for name, r := range both {
		t.Run(name, func(t *testing.T) {
			s := newServer(r)
			underWay, most := 0, 0
			for _, k := range s.Kinds {
				s.On(k.Method(), func(w http.ResponseWriter, req *http.Request, c call) error {
					s.Do(func() {
						underWay++
						most = max(most, underWay)
					})
					time.Sleep(12 * time.Second)
					s.Do(func() { underWay-- })
					return s.Answer(w, req, c)
				})
			}
			run(t, s, func(w *world) {
				f := w.start(r)
				w.after(49 * time.Second)
				w.wantState(f, Ready)
				s.Notify("notifications/tools/list_changed")
				s.Notify("notifications/resources/list_changed")
				w.after(time.Minute)
				if most != 1 {
					t.Errorf("%d lists were fetched at a time", most)
				}
				for _, k := range s.Kinds {
					want := 2
					if k == revision.Prompts {
						want = 1
					}
					w.wantCalls(k.Method(), want)
				}
			})
		})
	}
}

// A server that has not missed its stream yet refuses another one for two minutes. The
// session lives on, and what changed meanwhile is there when a stream opens.
func TestStreamRefusedForAWhile(t *testing.T) {
	for name, answer := range map[string]script{
		"400": status(400), "409 with error": failure(409, -32000, ""), "404": status(404), "500": status(500),
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy)
			run(t, s, func(w *world) {
				f := w.start(legacy)
				w.after(time.Minute)
				s.On("GET", answer)
				s.Cut()
				w.after(2 * time.Minute)
				s.Set(revision.Prompts, "new") // announced to nobody
				s.On("GET", nil)
				before := s.Count("GET")
				w.after(4 * time.Minute)
				if !f.Status().Listening || s.Count("GET") != before+1 {
					t.Errorf("after %d tries: %+v", s.Count("GET")-before, f.Status())
				}
				w.wantItems(legacy, revision.Prompts, "new")
				w.wantCalls("initialize", 1)
				if before > 12 || s.Count(list) > 8 {
					t.Errorf("%d streams and %d lists were asked for", before, s.Count(list))
				}
				if w.lost != 0 || f.SuspectsSession() {
					t.Errorf("sessions are said to be lost %d times, in doubt: %v", w.lost, f.SuspectsSession())
				}
			})
		})
	}
}

// A stream that is refused for ever is asked for ever less often.
func TestStreamRefusedForEver(t *testing.T) {
	s := newServer(legacy)
	s.On("GET", status(404))
	run(t, s, func(w *world) {
		w.wantState(w.start(legacy), Ready)
		w.after(24 * time.Hour)
		if n := s.Count("GET"); n > 250 {
			t.Errorf("%d streams were asked for in a day", n)
		}
		w.wantCalls("initialize", 1)
	})
}

// Some servers do not say 404 to a session that they have lost.
func TestSessionLostInOtherWords(t *testing.T) {
	for name, answer := range map[string]script{
		"401": status(401), "403": status(403), "410": status(410), "422": status(422), "500": status(500), "503": status(503),
		"200 with error": failure(200, -32600, ""), "503 with error": failure(503, -32001, ""),
	} {
		for guarded, guard := range map[string]*clienttest.Guard{"": nil, " guarded": {Renewals: 100}} {
			t.Run(name+guarded, func(t *testing.T) {
				s := newServer(legacy)
				run(t, s, func(w *world) {
					if guard != nil {
						w.set(func(p *Policy) { p.Guard = guard })
					}
					f := w.start(legacy)
					w.after(time.Minute)
					for _, method := range []string{list, "prompts/list", "resources/list", "resources/templates/list", "ping"} {
						s.On(method, func(rw http.ResponseWriter, req *http.Request, c call) error {
							known := false
							s.Do(func() { known = s.Sessions[req.Header.Get("Mcp-Session-Id")] })
							if !known {
								return answer(rw, req, c)
							}
							return s.Answer(rw, req, c)
						})
					}
					s.Forget()
					s.Set(revision.Tools, "new")
					w.after(w.policy.TTL)
					w.wantState(f, Ready)
					w.wantItems(legacy, revision.Tools, "new")
					w.wantCalls("initialize", 2)
					if w.lost != 1 {
						t.Errorf("sessions are said to be lost %d times", w.lost)
					}
					if guard != nil && guard.Token > 2 { // for the list, and to find out
						t.Errorf("%d tokens were fetched", guard.Token)
					}
				})
			})
		}
	}
}

// The sessions of clients count as lost as soon as the feed's does, also while the feed waits before it goes on.
func TestSessionsAreLostBeforeTheFeedGoesOn(t *testing.T) {
	s := newServer(legacy)
	run(t, s, func(w *world) {
		f := w.start(legacy)
		w.after(time.Minute)
		for _, method := range []string{list, "prompts/list", "resources/list", "resources/templates/list", "ping"} {
			s.On(method, status(503))
		}
		s.Forget()
		for deadline := time.Now().Add(w.policy.TTL); !slices.Contains(w.states(legacy), Connecting) && time.Now().Before(deadline); {
			w.after(time.Millisecond)
		}
		if w.lost != 1 {
			t.Errorf("sessions are said to be lost %d times, and the feed was %v", w.lost, w.states(legacy))
		}
		s.OnAll(nil)
		w.after(time.Minute)
		w.wantState(f, Ready)
		if w.lost != 1 {
			t.Errorf("when the feed goes on, sessions are said to be lost %d times", w.lost)
		}
	})
}

// Where a new session is refused as the old one was, it was not the session.
func TestFailureThatIsNotTheSessions(t *testing.T) {
	for name, tt := range map[string]struct {
		answer script
		state  State
	}{"a list fails": {status(500), Degraded}, "the credential": {status(401), NeedsAuthorization}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy)
			run(t, s, func(w *world) {
				f := w.start(legacy)
				w.after(time.Minute)
				s.On(list, tt.answer)
				w.after(time.Hour)
				w.wantState(f, tt.state)
				w.wantCalls("initialize", 2)
				if w.lost != 0 {
					t.Errorf("sessions are said to be lost %d times", w.lost)
				}
				w.wantItems(legacy, revision.Tools, "tools_a", "tools_b")
			})
		})
	}
}

// A kind whose capability is missing, or no object, is asked for once: the list may work.
func TestListThatWorksThoughNotOffered(t *testing.T) {
	for name, capabilities := range map[string]string{
		"none": `{}`, "null": `null`, "an array": `[]`, "true": `{"tools":true}`,
	} {
		for era, r := range both {
			t.Run(name+" "+era, func(t *testing.T) {
				s := newServer(r)
				describe := func(rw http.ResponseWriter, _ *http.Request, c call) error {
					if r == legacy {
						s.Do(func() { s.Sessions["x"] = true })
						rw.Header().Set("Mcp-Session-Id", "x")
					}
					return result(rw, c, `{"protocolVersion":"`+r.String()+`","supportedVersions":["`+r.String()+`"],"capabilities":`+capabilities+`}`)
				}
				s.On("initialize", describe)
				s.On("server/discover", describe)
				s.On("prompts/list", failure(200, -32601, ""))
				s.On("resources/list", hang)
				s.On("resources/templates/list", status(404))
				run(t, s, func(w *world) {
					f := w.start(r)
					w.after(2 * client.RequestTimeout)
					w.wantState(f, Ready)
					w.wantItems(r, revision.Tools, "tools_a", "tools_b")
					if got := f.Status().NotOffered; !slices.Equal(got, []revision.Kind{revision.Prompts, revision.Resources, revision.ResourceTemplates}) {
						t.Errorf("%v are said not to be offered", got)
					}
					w.after(time.Hour)
					if s.Count(list) < 10 {
						t.Error("the list is not refreshed")
					}
					for _, k := range []revision.Kind{revision.Prompts, revision.Resources, revision.ResourceTemplates} {
						w.wantCalls(k.Method(), 1)
					}
				})
			})
		}
	}
}

// A kind that passes on its way to a client is kept from then on; one that only clients
// are given is asked for no more often than any other.
func TestLearnedKind(t *testing.T) {
	for name, answer := range map[string]script{"kept": nil, "for clients only": failure(200, -32601, ""), "404": status(404)} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy)
			s.Kinds = []revision.Kind{revision.Tools}
			s.On("prompts/list", failure(200, -32601, ""))
			run(t, s, func(w *world) {
				f := w.start(legacy)
				w.after(time.Minute)
				if f.List(revision.Prompts).Offers() {
					t.Fatal("prompts are offered")
				}
				s.On("prompts/list", answer)
				for range 10 {
					f.List(revision.Prompts).Learn()
					w.after(time.Second)
				}
				if answer == nil {
					w.wantItems(legacy, revision.Prompts, "prompts_a", "prompts_b")
				}
				w.wantState(f, Ready)
				w.wantCalls("prompts/list", 2)
				w.set(func(*Policy) {})
				if !f.List(revision.Prompts).Offers() {
					t.Error("it was forgotten by a reload")
				}
				w.wantCalls("initialize", 1)
			})
		})
	}
}
