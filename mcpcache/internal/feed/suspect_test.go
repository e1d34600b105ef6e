package feed

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// A server that has lost the feed's session, or comes back after an outage, may
// have lost all sessions.
func TestSessionsAreLost(t *testing.T) {
	for name, restart := range map[string]func(*server, *world){
		"forgotten": func(s *server, w *world) {
			s.Forget()
			w.after(w.policy.TTL)
		},
		"stream ended, forgotten": func(s *server, w *world) {
			s.Forget()
			s.Cut()
			w.after(time.Second)
		},
		"outage": func(s *server, w *world) {
			s.OnAll(refuse)
			s.Cut()
			w.after(time.Minute)
			s.Forget()
			s.OnAll(nil)
			w.after(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy)
			run(t, s, func(w *world) {
				f := w.start(legacy)
				w.after(time.Minute)
				if w.lost != 0 || w.group.SuspectsSessions() {
					t.Fatal("nothing has happened, and sessions are lost or in doubt")
				}
				restart(s, w)
				w.wantState(f, Ready)
				if w.lost == 0 {
					t.Error("sessions are not said to be lost")
				}
				if w.group.SuspectsSessions() {
					t.Error("the server has answered, and is doubted still")
				}
			})
		})
	}
}

// A stream that ends says at once that the server may have been started anew. If
// it still knows its sessions, none is lost.
func TestEndedStreamIsADoubt(t *testing.T) {
	s := newServer(legacy)
	s.Quiet = true // it has nothing to announce, and yet a stream is open
	run(t, s, func(w *world) {
		w.start(legacy)
		w.after(time.Minute)
		s.On("GET", refuse)
		s.On(list, hang)
		s.Cut()
		w.after(0)
		if !w.group.SuspectsSessions() {
			t.Error("the stream has ended, and nobody doubts")
		}
		s.On("GET", nil)
		s.On(list, nil)
		w.after(time.Minute)
		if w.group.SuspectsSessions() || w.lost != 0 {
			t.Errorf("the session is known still: doubted %v, lost %d", w.group.SuspectsSessions(), w.lost)
		}
	})
}

// A stream that is refused as in a session that is lost is a doubt, too, until the server has answered in the session.
func TestRefusedStreamIsADoubt(t *testing.T) {
	s := newServer(legacy)
	run(t, s, func(w *world) {
		w.start(legacy)
		w.after(time.Minute)
		s.On("GET", status(404))
		s.Cut()
		w.after(0)
		if w.group.SuspectsSessions() {
			t.Fatal("lists have been answered since the stream ended, and the server is doubted")
		}
		s.OnAll(hang)
		s.On("GET", status(404))
		w.after(time.Minute)
		if !w.group.SuspectsSessions() {
			t.Error("the next stream is refused, and nobody doubts")
		}
		s.OnAll(nil)
		w.after(time.Minute)
		if w.group.SuspectsSessions() || w.lost != 0 {
			t.Errorf("the session is known still: doubted %v, lost %d", w.group.SuspectsSessions(), w.lost)
		}
	})
}

// A connection of a client's that was refused has the feed find out.
func TestClientsDoubt(t *testing.T) {
	s := newServer(legacy)
	run(t, s, func(w *world) {
		f := w.start(legacy)
		w.after(time.Minute)
		before := s.Count(list)
		f.SuspectSession()
		if !w.group.SuspectsSessions() {
			t.Error("not doubted")
		}
		w.after(time.Second)
		if w.group.SuspectsSessions() || s.Count(list) == before {
			t.Errorf("doubted %v, after %d lists", w.group.SuspectsSessions(), s.Count(list)-before)
		}
		s.Forget()
		f.SuspectSession()
		w.after(2 * time.Second)
		if w.lost != 1 {
			t.Errorf("sessions were said to be lost %d times", w.lost)
		}
		w.wantItems(legacy, revision.Tools, "tools_a", "tools_b")
	})
}

// A feed that has no session and gets none ends its doubt with the first answer
// that says so, or never begins to doubt: sessions of clients are not kept from
// their hits by it.
func TestNoSessionNoDoubt(t *testing.T) {
	for name, tt := range map[string]struct {
		speaks revision.Revision
		method string // has that answer, once the outage is over
		answer script
	}{
		"modern not spoken":  {legacy, "server/discover", nil},
		"modern fails":       {legacy, "server/discover", status(500)},
		"latest not spoken":  {revision.V20250618, "initialize", nil},
		"credential refused": {legacy, "initialize", status(401)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(tt.speaks)
			s.OnAll(refuse)
			run(t, s, func(w *world) {
				w.start(modern)
				w.start(legacy)
				w.after(time.Second)
				if !w.group.SuspectsSessions() {
					t.Error("nobody has doubted")
				}
				s.OnAll(nil)
				s.On(tt.method, tt.answer)
				w.after(10 * time.Second)
				if w.group.SuspectsSessions() || w.lost == 0 {
					t.Errorf("after the outage: doubted %v, sessions were said to be lost %d times", w.group.SuspectsSessions(), w.lost)
				}
				if w.group.Of(legacy).Status().State == NeedsAuthorization {
					return
				}
				for _, f := range w.group.All() {
					f.SuspectSession()
				}
				w.after(2 * time.Second)
				if w.group.SuspectsSessions() {
					t.Error("the server has answered, and is doubted still")
				}
			})
		})
	}
}

// Some servers refuse a ping because they have lost the session. Others know no pings, and say so with -32601: then the
// session is not lost.
func TestLostByAPing(t *testing.T) {
	for name, tt := range map[string]struct {
		ping    script
		refused bool
	}{
		"answered":         {nil, false},
		"404":              {status(404), true},
		"unknown":          {failure(404, -32001, ""), true},
		"no method":        {failure(200, -32601, ""), false},
		"no method, a 404": {failure(404, -32601, ""), false},
		"unavailable":      {status(503), true},
		"without an id": {func(w http.ResponseWriter, _ *http.Request, _ call) error {
			return reply(w, 200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no session"}}`)
		}, true},
		"too many":  {status(429), false},
		"a gateway": {status(502), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy)
			run(t, s, func(w *world) {
				w.start(legacy)
				w.after(time.Minute)
				opened, err := w.group.OpenFor(w.Context(), legacy, &client.Identity{Name: "a", Capabilities: []byte("{}")})
				if err != nil {
					t.Fatal(err)
				}
				defer w.group.CloseFor(opened)
				s.On("ping", tt.ping)
				if _, refused := w.group.Ping(w.Context(), opened); refused != tt.refused {
					t.Errorf("refused: %v", refused)
				}
			})
		})
	}
}
