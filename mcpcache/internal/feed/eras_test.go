package feed

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache/cachetest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	discover = "server/discover"
	// aDay keeps lists fresh for so long that nothing but the feed of interest is busy.
	aDay = `"ttlMs":86400000`
)

// runGroup starts the feeds as a backend does and waits until nothing happens at once.
func (w *world) runGroup() (ofLegacy, ofModern *Feed) {
	w.Helper()
	w.group.Run()
	w.after(0)
	return w.group.Of(legacy), w.group.Of(modern)
}

// exit ends the server at a request, which its supervisor then starts again: sessions and
// streams are gone, and there is no answer.
func (w *world) exit(http.ResponseWriter, *http.Request, call) error {
	w.server.Forget()
	w.server.Cut()
	return clienttest.ErrRefused
}

// TestLegacyFirst has the modern feed send nothing before the legacy one has found out, or
// a client has shown the era.
func TestLegacyFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		method string
		answer script // to method
		end    func(w *world)
	}{
		"legacy is fetched":     {"tools/list", hang, func(w *world) { w.after(client.RequestTimeout) }},
		"no answer":             {"initialize", hang, func(w *world) { w.after(client.InitializeTimeout) }},
		"a client asks":         {"initialize", hang, func(w *world) { w.group.Start(modern) }},
		"a client was answered": {"initialize", hang, func(w *world) { w.group.Of(modern).Poke() }},
		"refused":               {"initialize", status(404), nil},
		"not reached":           {"initialize", refuse, nil},
		"error object":          {"initialize", failure(200, -32601, ""), nil},
		"credential refused":    {"initialize", status(401), nil},
		"to be left alone":      {"initialize", status(429, "Retry-After", "60"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern, legacy)
			s.On(tt.method, tt.answer)
			run(t, s, func(w *world) {
				_, f := w.runGroup()
				if f == nil {
					t.Fatal("there is no modern feed from the start")
				}
				if tt.end != nil {
					w.wantCalls(discover, 0)
					w.after(5 * time.Second)
					w.wantCalls(discover, 0)
					tt.end(w)
					w.after(0)
				}
				if s.Count(discover) == 0 {
					t.Error("the modern feed still waits")
				}
			})
		})
	}
}

// TestLegacyFirstOfAnOlderRevision has the modern feed wait for the legacy revision that
// the server offers instead of the newest.
func TestLegacyFirstOfAnOlderRevision(t *testing.T) {
	s := newServer(revision.V20250618)
	s.On("tools/list", hang)
	run(t, s, func(w *world) {
		_, f := w.runGroup()
		w.wantState(w.group.Of(revision.V20250618), Hydrating)
		w.wantCalls(discover, 0)
		s.On(discover, refuse)
		w.after(client.RequestTimeout)
		w.wantState(w.group.Of(revision.V20250618), Degraded)
		w.wantState(f, Unsupported)
		w.wantCalls(discover, 1)
	})
}

// TestEraIsNotOffered has a server fail for one era while it speaks the other.
func TestEraIsNotOffered(t *testing.T) {
	for name, tt := range map[string]struct {
		answer script
		want   State
	}{
		"no connection":    {refuse, Unsupported},
		"no answer":        {hang, Unsupported},
		"500":              {status(500), Unsupported},
		"503":              {status(503), Unsupported},
		"401":              {status(401), Unsupported},
		"403":              {failure(403, -32001, ""), Unsupported},
		"wrong id":         {answerTo(`"other"`), Unsupported},
		"404":              {status(404), Unsupported},
		"to be left alone": {status(503, "Retry-After", "600"), Down},
	} {
		t.Run(name, func(t *testing.T) {
			for era, probe := range map[revision.Revision]string{modern: discover, legacy: "initialize"} {
				t.Run(era.String(), func(t *testing.T) {
					s := newServer(modern, legacy)
					s.On(probe, tt.answer)
					run(t, s, func(w *world) {
						w.runGroup()
						w.after(2*client.InitializeTimeout + time.Second)
						w.wantState(w.group.Of(era), tt.want)
						for _, f := range w.group.except(era.Era()) {
							w.wantState(f, Ready)
						}
						if w.group.SuspectsSessions() {
							t.Error("it counts as one that may have lost its sessions")
						}
					})
				})
			}
		})
	}
}

// TestGuardsAndEras has an upstream refuse the guard's credential in one era alone, and a
// guard that fails by itself.
func TestGuardsAndEras(t *testing.T) {
	for name, tt := range map[string]struct {
		guard  *clienttest.Guard
		answer script // to server/discover
		want   State
	}{
		"refused":           {new(clienttest.Guard), status(401), Unsupported},
		"refused once more": {&clienttest.Guard{Renewals: 1}, status(401), Unsupported},
		"the guard fails": {&clienttest.Guard{Put: func(r *http.Request) error {
			if r.Header.Get("Mcp-Protocol-Version") == modern.String() {
				return errors.New("token server is down")
			}
			return nil
		}}, nil, Down},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern, legacy)
			s.On(discover, tt.answer)
			run(t, s, func(w *world) {
				w.set(func(p *Policy) { p.Guard = tt.guard })
				_, f := w.runGroup()
				w.wantState(f, tt.want)
				w.wantState(w.group.Of(legacy), Ready)
			})
		})
	}
}

// TestWhyEraIsNotOffered looks for the reason in the log, once.
func TestWhyEraIsNotOffered(t *testing.T) {
	s := newServer(legacy)
	s.Hints = aDay
	s.On(discover, refuse)
	run(t, s, func(w *world) {
		w.runGroup()
		w.after(24 * time.Hour)
		w.wantStates(modern, Unsupported)
		told := 0
		for _, line := range w.logs.All() {
			why, _ := line.ContextMap()["error"].(string)
			if strings.HasPrefix(why, "upstream gave no usable answer to server/discover, and speaks the legacy era: not offered: ") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("the reason is logged %d times", told)
		}
	})
}

// TestEraMayBeOffered has failures of one era that say nothing of the other.
func TestEraMayBeOffered(t *testing.T) {
	t.Run("there is a snapshot", func(t *testing.T) {
		s := newServer(modern, legacy)
		s.On(discover, refuse)
		run(t, s, func(w *world) {
			w.cache.Pin(cachetest.Tools(t, 1))
			_, f := w.runGroup()
			w.wantState(f, Down)
			if f.waits.Load() {
				t.Error("it still waits for its turn")
			}
		})
	})
	t.Run("it was open", func(t *testing.T) {
		s := newServer(modern, legacy)
		run(t, s, func(w *world) {
			f, _ := w.runGroup()
			w.wantState(f, Ready)
			s.On("initialize", refuse)
			s.Forget()
			s.Cut()
			w.after(time.Minute)
			w.wantState(f, Down)
			w.wantState(w.group.Of(modern), Ready)
		})
	})
	t.Run("the other one was not tried", func(t *testing.T) {
		s := newServer(modern, legacy)
		s.On("initialize", hang)
		s.On(discover, status(500))
		run(t, s, func(w *world) {
			_, f := w.runGroup()
			w.group.Start(modern)
			w.after(client.InitializeTimeout - time.Second)
			w.wantState(f, Down)
			w.wantCalls(discover, 1)
			s.On("initialize", nil)
			s.On(discover, nil)
			w.after(2 * time.Second)
			w.wantState(w.group.Of(legacy), Ready)
			w.wantState(f, Ready)
		})
	})
	t.Run("the server is not there", func(t *testing.T) {
		s := newServer(modern, legacy)
		s.OnAll(refuse)
		run(t, s, func(w *world) {
			_, f := w.runGroup()
			w.after(time.Minute)
			w.wantState(f, Down)
			s.OnAll(nil)
			w.after(time.Minute)
			w.wantState(w.group.Of(legacy), Ready)
			w.wantState(f, Ready)
		})
	})
}

// TestExitAtDiscover has a server with sessions exit at each server/discover: within a day
// that is at the start, and after 5, 10, 20, 40, 80, 160, 320 and 640 minutes less a
// little.
func TestExitAtDiscover(t *testing.T) {
	for name, early := range map[string]bool{"legacy first": false, "a client asks at once": true} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy)
			s.Hints = aDay
			run(t, s, func(w *world) {
				s.On(discover, w.exit)
				want := 9
				if early {
					// Nothing must be known of the other era before the server exits.
					asked := make(chan struct{})
					s.On("initialize", waitFor(asked, s))
					w.group.Run()
					w.group.Start(modern)
					w.after(0)
					close(asked)
					want++
				}
				w.group.Run()
				w.after(24 * time.Hour)
				w.wantCalls(discover, want)
				w.wantState(w.group.Of(legacy), Ready)
				w.wantState(w.group.Of(modern), Unsupported)
			})
		})
	}
}

// TestPausesEndWithMaxTTL lets a year pass.
func TestPausesEndWithMaxTTL(t *testing.T) {
	s := newServer(legacy)
	s.On(discover, refuse)
	run(t, s, func(w *world) {
		w.set(func(p *Policy) { p.TTL, p.MaxTTL = time.Hour, 2*time.Hour })
		w.runGroup()
		w.after(48 * time.Hour)
		before := w.server.Count(discover)
		w.after(2 * time.Hour)
		if w.server.Count(discover) == before {
			t.Error("it is not asked again within max_ttl")
		}
	})
}

// TestClientShowsTheEra has clients answered in an era that counts as not offered.
func TestClientShowsTheEra(t *testing.T) {
	for name, tt := range map[string]struct {
		first, then script
		want        State
	}{
		"it is offered by now":        {refuse, nil, Ready},
		"for a credential":            {status(401), nil, Ready},
		"not to the feed":             {status(401), status(401), NeedsAuthorization},
		"to a client that is lenient": {refuse, refuse, Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy, modern)
			s.Hints = aDay
			s.On(discover, tt.first)
			run(t, s, func(w *world) {
				_, f := w.runGroup()
				w.after(12 * time.Hour)
				w.wantState(f, Unsupported)
				asked := s.Count(discover)
				s.On(discover, tt.then)
				f.Poke()
				w.after(0)
				w.wantState(f, tt.want)
				if tt.want != Ready { // else it is fetched, too
					w.wantCalls(discover, asked+1)
				}
				if tt.want == Unsupported { // the next pause is the first again
					w.after(w.policy.TTL)
					w.wantCalls(discover, asked+2)
				}
			})
		})
	}
}

// TestClientHadShownTheEra has the feed refused in an era in which a client was answered
// before: it is the credential.
func TestClientHadShownTheEra(t *testing.T) {
	s := newServer(legacy, modern)
	s.On("initialize", hang)
	s.On(discover, status(401))
	run(t, s, func(w *world) {
		_, f := w.runGroup()
		f.Poke()
		w.after(client.RequestTimeout - time.Second)
		s.On("initialize", nil)
		w.after(time.Hour)
		w.wantState(w.group.Of(legacy), Ready)
		w.wantStates(modern, NeedsAuthorization)
	})
}

// TestNotOfferedStaysSo has the whole server go: that says nothing new of the era.
func TestNotOfferedStaysSo(t *testing.T) {
	s := newServer(legacy)
	s.On(discover, refuse)
	run(t, s, func(w *world) {
		w.runGroup()
		s.OnAll(refuse)
		s.Forget()
		s.Cut()
		w.after(w.policy.TTL)
		w.wantState(w.group.Of(legacy), Down)
		w.wantStates(modern, Unsupported)
		w.wantCalls(discover, 2)
	})
}

// TestClientShowsTheEraInVain has clients answered all the time by a server that takes
// their requests for legacy ones: it is asked after 1, 2, 4 ... seconds.
func TestClientShowsTheEraInVain(t *testing.T) {
	s := newServer(legacy)
	s.On(discover, refuse)
	run(t, s, func(w *world) {
		_, f := w.runGroup()
		for range 600 {
			w.after(100 * time.Millisecond)
			f.Poke()
		}
		w.after(0)
		w.wantState(f, Unsupported)
		w.wantCalls(discover, 1+5)
	})
}

// TestErasThatAreNotSpoken has no feed of an era that the operator does not want, whatever
// clients and the server show.
func TestErasThatAreNotSpoken(t *testing.T) {
	for name, tt := range map[string]struct {
		spoken, silent revision.Revision
		probe          string // that is never sent
	}{
		"legacy": {legacy, modern, discover},
		"modern": {modern, legacy, "initialize"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, newServer(legacy, modern), func(w *world) {
				w.set(func(p *Policy) { p.Eras = []revision.Era{tt.spoken.Era()} })
				w.runGroup()
				w.group.Start(tt.silent)
				w.after(time.Hour)
				w.wantState(w.group.Of(tt.spoken), Ready)
				if len(w.group.All()) != 1 || w.group.Of(tt.silent) != nil {
					t.Errorf("there are %d feeds", len(w.group.All()))
				}
				if got := w.server.Count(tt.probe); got != 0 {
					t.Errorf("%s was sent %d times", tt.probe, got)
				}
			})
		})
	}
}
