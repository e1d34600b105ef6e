package feed

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// listening is the method that opens a stream of notices.
var listening = map[revision.Revision]string{legacy: "GET", modern: "subscriptions/listen"}

func TestNoticeBumpsAndRefreshes(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				f := w.start(r)
				if !f.Status().Listening || s.Listening() != 1 {
					t.Fatalf("feed listens: %v, streams: %d", f.Status().Listening, s.Listening())
				}
				old := w.wantItems(r, revision.Tools, "tools_a", "tools_b")
				w.after(w.policy.Refresh)
				for _, tt := range []struct {
					notice  string
					changes []revision.Kind
				}{
					{"notifications/tools/list_changed", []revision.Kind{revision.Tools}},
					{"notifications/prompts/list_changed", []revision.Kind{revision.Prompts}},
					{"notifications/resources/list_changed", []revision.Kind{revision.Resources, revision.ResourceTemplates}},
					{"notifications/message", nil},
				} {
					before := make(map[revision.Kind]int)
					for _, k := range s.Kinds {
						before[k] = s.Count(k.Method())
					}
					for _, k := range tt.changes {
						s.Set(k, "new")
					}
					s.Notify(tt.notice)
					w.after(gather)
					for _, k := range s.Kinds {
						want := before[k]
						for _, changed := range tt.changes {
							if changed == k {
								want++
								w.wantItems(r, k, "new")
							}
						}
						if got := s.Count(k.Method()); got != want {
							t.Errorf("%s: %s was called %d times, want %d", tt.notice, k.Method(), got, want)
						}
					}
				}
				if w.cache.Freshness(old, time.Now()) != cache.Outdated {
					t.Error("the list from before the notice is not outdated")
				}
				w.wantStates(r, Hydrating, Ready)
			})
		})
	}
}

func TestBurstOfNotices(t *testing.T) {
	for era, r := range both {
		for name, slow := range map[string]time.Duration{"fast": 0, "slow": 700 * time.Millisecond, "slower": 3 * time.Second} {
			t.Run(name+" "+era, func(t *testing.T) {
				s := newServer(r)
				run(t, s, func(w *world) {
					w.start(r)
					w.after(w.policy.Refresh)
					before := s.Count(list)
					s.On(list, func(rw http.ResponseWriter, req *http.Request, c call) error {
						time.Sleep(slow)
						return s.Answer(rw, req, c)
					})
					for range 1000 {
						s.Notify("notifications/tools/list_changed")
						if slow > 0 {
							w.after(time.Microsecond)
						}
					}
					w.after(10 * time.Second)
					if got := s.Count(list) - before; got < 1 || got > 2 {
						t.Errorf("1,000 notices cost %d refreshes", got)
					}
					if e := w.cache.Pinned(r, revision.Tools); w.cache.Freshness(e, time.Now()) != cache.Fresh {
						t.Error("the list is not fresh in the end")
					}
				})
			})
		}
	}
}

func TestRefreshBoundsTheRate(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				w.set(func(p *Policy) { p.Refresh = 10 * time.Second })
				w.start(r)
				before := s.Count(list)
				for i := range 1000 {
					s.Set(revision.Tools, strconv.Itoa(i))
					s.Notify("notifications/tools/list_changed")
					w.after(100 * time.Millisecond)
				}
				if got := s.Count(list) - before; got < 9 || got > 11 {
					t.Errorf("%d refreshes in 100s, want one in 10s", got)
				}
				times := s.Times(list)
				for i := range len(times) - 1 {
					if wait := times[i+1].Sub(times[i]); wait < w.policy.Refresh {
						t.Errorf("refresh %d comes after %v", i, wait)
					}
				}
			})
		})
	}
}

// What changed while nobody listened was announced to nobody.
func TestReconnectRefetches(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				f := w.start(r)
				w.after(time.Minute)
				s.Set(revision.Tools, "new")
				s.On(listening[r], refuse)
				s.Cut()
				w.after(time.Second)
				if f.Status().Listening {
					t.Error("the feed listens to nothing")
				}
				w.wantItems(r, revision.Tools, "new") // the end of the stream was reason to look
				w.after(time.Hour)
				attempts := s.Times(listening[r])
				wantDifferent(t, attempts)
				s.On(listening[r], nil)
				s.Set(revision.Tools, "newer")
				w.after(46 * time.Second)
				if !f.Status().Listening {
					t.Error("the feed does not listen again")
				}
				w.wantItems(r, revision.Tools, "newer")
				w.wantStates(r, Hydrating, Ready)
			})
		})
	}
}

// A stream on which nothing arrives is given up: its other end may be gone.
func TestHalfOpenStream(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			run(t, s, func(w *world) {
				w.start(r)
				w.wantCalls(listening[r], 1)
				for range 4 { // alive
					w.after(client.IdleTimeout - time.Second)
					s.Notify("notifications/message")
				}
				w.wantCalls(listening[r], 1)
				w.after(client.IdleTimeout - time.Second)
				w.wantCalls(listening[r], 1)
				w.after(3 * time.Second)
				w.wantCalls(listening[r], 2)
				w.after(w.policy.Refresh) // the last refresh may have been just now
				before := s.Count(list)
				s.Notify("notifications/tools/list_changed")
				w.after(gather)
				if got := s.Count(list); got != before+1 || s.Listening() != 1 {
					t.Errorf("%d refreshes after a notice on one of %d streams", got-before, s.Listening())
				}
			})
		})
	}
}

// A stream that is asked for and never begins is given up too; hydrating does
// not wait for it.
func TestStreamThatNeverBegins(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.On(listening[r], hang)
			run(t, s, func(w *world) {
				f := w.start(r)
				w.after(acknowledgeTimeout)
				w.wantState(f, Ready)
				w.after(client.IdleTimeout + time.Second)
				w.wantCalls(listening[r], 2)
			})
		})
	}
}

// A server without a stream of notices is as good as any; only TTL rules then.
func TestNoStream(t *testing.T) {
	for name, tt := range map[string]struct {
		revision revision.Revision
		answer   script
		again    bool // it is asked for again
	}{
		"legacy 405":              {legacy, status(405), false},
		"legacy 501":              {legacy, status(501), true},
		"legacy 404":              {legacy, status(404), true},
		"legacy 400":              {legacy, status(400), true},
		"legacy 404 with error":   {legacy, failure(404, -32001, ""), true},
		"legacy 503":              {legacy, status(503), true},
		"legacy 429":              {legacy, failure(429, -32000, ""), true},
		"legacy HTML":             {legacy, status(200), false},
		"legacy JSON":             {legacy, gives(`{}`), false},
		"legacy 204":              {legacy, status(204), false},
		"modern not found":        {modern, failure(404, -32601, ""), true},
		"modern not found in 200": {modern, failure(200, -32601, ""), true},
		"modern internal error":   {modern, failure(200, -32603, ""), true},
		"modern 503 with error":   {modern, failure(503, -32000, ""), true},
		"modern refused":          {modern, refuse, true},
		"modern ends at once":     {modern, gives(`{}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(tt.revision)
			s.On(listening[tt.revision], tt.answer)
			run(t, s, func(w *world) {
				f := w.start(tt.revision)
				w.after(time.Minute)
				w.wantState(f, Ready)
				w.wantStates(tt.revision, Hydrating, Ready)
				if got := s.Count(listening[tt.revision]); (got > 1) != tt.again {
					t.Errorf("the stream was asked for %d times", got)
				}
				if f.Status().Listening {
					t.Error("the feed listens to nothing")
				}
				if tt.revision == legacy && s.Count("initialize") != 1 {
					t.Errorf("%d sessions were opened", s.Count("initialize"))
				}
				w.after(w.policy.TTL)
				if s.Count(list) < 2 {
					t.Error("the list is not refreshed")
				}
			})
		})
	}
}

// A modern server whose replicas are being replaced refuses a subscription and takes the
// next, or announces changes only after a while: it is listened to, at the latest after the
// next server/discover. One that always refuses is asked ever more seldom.
func TestModernStreamThatComesLater(t *testing.T) {
	for name, tt := range map[string]struct {
		before, then func(*server)
	}{
		"refused": {
			func(s *server) { s.On(listening[modern], failure(404, -32601, "")) },
			func(s *server) { s.On(listening[modern], nil) },
		},
		"not announced": {
			func(s *server) { s.Do(func() { s.Quiet = true }) },
			func(s *server) { s.Do(func() { s.Quiet = false }) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			tt.before(s)
			run(t, s, func(w *world) {
				f := w.start(modern)
				w.after(3 * time.Hour)
				if f.Status().Listening {
					t.Error("the feed listens to nothing")
				}
				asked, described := s.Count(listening[modern]), s.Count(discover)
				w.after(3 * time.Hour)
				if more := s.Count(listening[modern]) - asked; more > s.Count(discover)-described+3*6 {
					t.Errorf("in three hours the stream was asked for %d times", more)
				}
				tt.then(s)
				w.after(w.policy.TTL)
				w.wantState(f, Ready)
				if !f.Status().Listening || s.Listening() != 1 {
					t.Errorf("listening: %v, to %d streams", f.Status().Listening, s.Listening())
				}
				s.Set(revision.Tools, "newer")
				s.Notify("notifications/tools/list_changed")
				w.after(w.policy.Refresh)
				w.wantItems(modern, revision.Tools, "newer")
			})
		})
	}
}

// A server that announces nothing is not listened to. In a session a stream is
// open all the same: its end says that the server may have been started anew.
func TestQuietServerIsNotListenedTo(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.Quiet = true
			run(t, s, func(w *world) {
				f := w.start(r)
				w.wantState(f, Ready)
				w.wantCalls(listening[r], map[revision.Revision]int{legacy: 1, modern: 0}[r])
				if f.Status().Listening {
					t.Error("the feed says that it is told of changes")
				}
			})
		})
	}
}

// A server that does not take its answers keeps no notice waiting.
func TestStalledAnswerHoldsNoNotice(t *testing.T) {
	s := newServer(legacy)
	s.On("", hang)
	run(t, s, func(w *world) {
		f := w.start(legacy)
		w.after(w.policy.Refresh)
		for range 100 {
			s.Send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		}
		s.Set(revision.Tools, "new")
		s.Notify("notifications/tools/list_changed")
		w.after(gather)
		w.wantItems(legacy, revision.Tools, "new")
		w.wantCalls("", client.MaxReplies)
		if got := f.Status().Unanswered; got != 100-client.MaxReplies {
			t.Errorf("%d requests are counted as unanswered, want %d", got, 100-client.MaxReplies)
		}
		w.after(client.RequestTimeout + time.Second)
		s.Send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		w.after(0)
		w.wantCalls("", client.MaxReplies+1)
	})
}

// A modern server that is redeployed without announcements, or with fewer, is asked to describe
// itself again, whatever its ttlMs said: its description is cached (llm-gateway#2946).
func TestRedeployedWithoutAnnouncements(t *testing.T) {
	acknowledging := func(s *server, what string) script {
		return func(w http.ResponseWriter, r *http.Request, _ call) error {
			return s.Stream(w, r, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":`+what+`}}`)
		}
	}
	for name, answer := range map[string]func(*server) script{
		"the stream ends":   func(*server) script { return hang },
		"a new one":         func(*server) script { return nil },
		"refused":           func(*server) script { return failure(404, -32601, "") },
		"acknowledges none": func(s *server) script { return acknowledging(s, `{}`) },
		"acknowledges less": func(s *server) script {
			return acknowledging(s, `{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":true}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			run(t, s, func(w *world) {
				f := w.start(modern)
				w.after(w.policy.TTL / 2)
				s.Cut()
				w.after(2 * time.Second) // the next stream is open for a moment
				s.On(listening[modern], answer(s))
				s.Do(func() { s.Quiet = true })
				s.Cut()
				w.after(5 * time.Second)
				if e := w.cache.Pinned(modern, revision.Discover); strings.Contains(string(e.Body.Bytes), `"listChanged":true`) {
					t.Errorf("the description is still %s", e.Body.Bytes)
				}
				w.wantState(f, Ready)
				before := s.Count(discover)
				w.after(w.policy.TTL / 2)
				if n := s.Count(discover) - before; n > 0 {
					t.Errorf("it was asked to describe itself %d times more", n)
				}
			})
		})
	}
}

// lasting answers with a stream that ends after that time.
func lasting(s *server, d time.Duration) script {
	return func(w http.ResponseWriter, r *http.Request, _ call) error {
		ctx, cancel := context.WithTimeout(r.Context(), d)
		defer cancel()
		_ = s.Stream(w, r.WithContext(ctx), `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`)
		return nil
	}
}

// A server that goes on to say that it announces changes, and ends or refuses each stream, is
// asked what it announces once for each stream at most.
func TestDescriptionsOfAServerThatEndsStreams(t *testing.T) {
	for name, answer := range map[string]func(*server) script{
		"refused":            func(*server) script { return failure(404, -32601, "") },
		"ends at once":       func(*server) script { return gives(`{}`) },
		"ends soon":          func(s *server) script { return lasting(s, steady/2) },
		"ends after a while": func(s *server) script { return lasting(s, 2*steady) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			run(t, s, func(w *world) {
				w.start(modern)
				w.after(w.policy.TTL / 2)
				s.On(listening[modern], answer(s))
				s.Cut()
				described, listened := s.Count(discover), s.Count(listening[modern])
				w.after(time.Hour)
				listened = s.Count(listening[modern]) - listened
				if n := s.Count(discover) - described; n > listened+20 || listened > 400 {
					t.Errorf("in an hour it was asked %d times, and %d times for a stream", n, listened)
				}
			})
		})
	}
}
