package feed

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// forgetFeeds has the server end the sessions that are open, and say so in answer to a
// ping, as a client opens one.
func (w *world) forgetFeeds() {
	w.server.Forget()
	w.server.On("ping", func(rw http.ResponseWriter, req *http.Request, c call) error {
		known := false
		w.server.Do(func() { known = w.server.Sessions[req.Header.Get("Mcp-Session-Id")] })
		if !known {
			return status(http.StatusNotFound)(rw, req, c)
		}
		return w.server.Answer(rw, req, c)
	})
}

// A feed whose session a client's has ended waits until that client has left, and a
// moment more.
func TestYieldsUntilTheClientHasLeft(t *testing.T) {
	s := newServer(legacy)
	run(t, s, func(w *world) {
		f := w.start(legacy)
		w.after(time.Minute)
		w.forgetFeeds()
		w.group.ClientOpened("client", time.Now())
		w.after(time.Second)
		w.wantState(f, Yielding)
		w.after(time.Hour)
		w.wantCalls("initialize", 1)
		if w.lost == 0 {
			t.Error("sessions of other clients are not said to be lost")
		}
		before := w.lost
		if w.group.ClientOpened("another", time.Now()); w.lost == before {
			t.Error("the first client's session is not said to be lost")
		}
		w.group.ClientClosed("another")
		w.after(leftPause - time.Millisecond)
		w.wantState(f, Yielding)
		w.after(time.Millisecond)
		w.wantState(f, Ready)
	})
}

// TestWaitsForTheEndOfAnotherFeed has a client's session end a feed's. The feed learns of that by a list, while its ping
// waits for an answer. Another feed must not open a session before the first one knows why it has ended.
func TestWaitsForTheEndOfAnotherFeed(t *testing.T) {
	s := newServer(revision.V20250618, legacy)
	s.On("GET", func(rw http.ResponseWriter, req *http.Request, c call) error {
		err := s.Answer(rw, req, c)
		time.Sleep(time.Second) // so the connection ends some time after its ping
		return err
	})
	run(t, s, func(w *world) {
		w.start(legacy)
		w.after(time.Minute)
		opened := s.Count("initialize")
		s.Forget()
		s.On("ping", clienttest.Hang)
		s.On("tools/list", status(http.StatusNotFound))
		w.group.ClientOpened("client", time.Now())
		other := w.start(revision.V20250618)
		w.outdate(revision.Tools)
		w.after(time.Minute)
		w.wantCalls("initialize", opened)
		w.wantState(other, Yielding)
	})
}

// A feed whose account is refused as a client opens its session does not wait for that
// client: the upstream may have room for both.
func TestDoesNotYieldWhenRefused(t *testing.T) {
	s := newServer(legacy)
	run(t, s, func(w *world) {
		f := w.start(legacy)
		w.after(time.Minute)
		for _, method := range []string{"ping", "initialize"} {
			s.On(method, status(http.StatusUnauthorized))
		}
		w.group.ClientOpened("client", time.Now())
		w.after(time.Minute)
		w.wantState(f, NeedsAuthorization)
		for _, method := range []string{"ping", "initialize"} {
			s.On(method, nil)
		}
		w.after(time.Minute)
		w.wantState(f, Ready)
	})
}

// No feed takes the only seat while a client may be about to: the feed that had it is told
// of its end before anybody hears of the client's session.
func TestSeatThatAClientTakes(t *testing.T) {
	s := newServer(revision.V20250618, legacy)
	run(t, s, func(w *world) {
		w.start(revision.V20250618)
		w.after(time.Minute)
		w.forgetFeeds()
		w.group.ClientOpened("client", time.Now())
		w.after(time.Second)
		w.start(legacy) // two feeds wait for the seat, of which one gets it
		w.group.ClientClosed("client")
		w.after(time.Minute)
		opened := s.Count("initialize")
		s.Forget()
		s.Cut()
		w.after(leftPause - time.Millisecond)
		w.wantCalls("initialize", opened)
		w.group.ClientOpened("another", time.Now().Add(-time.Second))
		w.after(time.Hour)
		w.wantCalls("initialize", opened)
	})
}

// A feed that waits for the only seat is back once another feed has shown that there is
// more than one.
func TestYieldsUntilThereIsRoom(t *testing.T) {
	s := newServer(revision.V20250618, legacy)
	run(t, s, func(w *world) {
		f := w.start(revision.V20250618)
		w.after(time.Minute)
		w.forgetFeeds()
		w.start(legacy)
		w.after(time.Second)
		w.group.ClientOpened("client", time.Now())
		w.after(time.Second)
		w.wantState(f, Yielding)
		w.after(w.policy.TTL) // the other one asks in its session, which lives
		w.wantState(f, Ready)
	})
}
