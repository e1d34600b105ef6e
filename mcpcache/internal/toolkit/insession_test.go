package toolkit

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestSessionsAreOpenedOnce: a legacy client has one session with each server that it calls, however many calls come at
// once. The session is opened as that client and at its revision, and ends with the client's.
func TestSessionsAreOpenedOnce(t *testing.T) {
	for _, at := range []revision.Revision{revision.V20250618, legacy} {
		run(t, func(w *world) {
			c, m := w.calls(at), w.members[0]
			before := m.Count("initialize")
			var all []*received
			for range 3 {
				a, leave := c.begin(c.calling("one__tools_a"))
				defer leave()
				all = append(all, a)
			}
			for _, a := range all {
				a.wantOf(w, "one")
			}
			c.call("one__tools_a").wantOf(w, "one")
			opened, id := m.last(t, "initialize").Params, m.last(t, "tools/call").Header.Get("Mcp-Session-Id")
			if n := m.Count("initialize") - before; n != 1 || opened.ProtocolVersion != at.String() || string(opened.ClientInfo) != `{"name":"test","version":"1"}` {
				w.Errorf("%d sessions are opened, the last by %s at %s", n, opened.ClientInfo, opened.ProtocolVersion)
			}
			for _, call := range m.asked("tools/call") {
				if got := call.Header; got.Get("Mcp-Session-Id") != id || got.Get("Mcp-Protocol-Version") != at.String() {
					w.Errorf("a call is sent in session %q of %q, want %q", got["Mcp-Session-Id"], got["Mcp-Protocol-Version"], id)
				}
			}
			if !m.isOpen(id) {
				w.Errorf("session %s is not open", id)
			}
			c.send(c.request(http.MethodDelete, "/mcp", "")).want(w, "the end", http.StatusNoContent, 0)
			if w.after(time.Second); m.isOpen(id) || len(w.members[1].asked("initialize")) > 1 {
				w.Errorf("session %s is open: %v, and the other server has been asked for %d", id, m.isOpen(id), len(w.members[1].asked("initialize")))
			}
		}, serves("one", revision.V20250618, legacy), serves("two", legacy))
	}
}

// TestSessionsAtTheServersRevision: a server that proposes another revision than the client's is sent requests at that one.
func TestSessionsAtTheServersRevision(t *testing.T) {
	run(t, func(w *world) {
		before := w.members[0].Count("initialize")
		for n, at := range []revision.Revision{legacy, modern} {
			w.calls(at).call("one__tools_a").wantOf(w, "one")
			if opened := w.members[0].Count("initialize") - before; opened != n+1 {
				w.Errorf("for %d clients %d sessions are opened", n+1, opened)
			}
			if got := w.members[0].last(t, "tools/call").Header.Get("Mcp-Protocol-Version"); got != "2025-06-18" {
				w.Errorf("for a client of %s, the server is sent a request of %q", at, got)
			}
		}
	}, serves("one", revision.V20250618))
}

// TestSessionsThatAreNotOpened: a client whose server opens no session is told why in plain words. The log has the
// beginning of that once.
func TestSessionsThatAreNotOpened(t *testing.T) {
	for name, tt := range map[string]struct {
		answer clienttest.Script
		status int
		says   string
	}{
		"no credential":      {clienttest.Status(http.StatusUnauthorized), 502, `the MCP server "one" refuses requests without credentials: HTTP status 401`},
		"a wrong credential": {clienttest.Status(http.StatusForbidden), 502, `the MCP server "one" refuses requests without credentials: HTTP status 403`},
		"an error":           {clienttest.Failure(http.StatusOK, -32099, ""), 502, `the MCP server "one" does not open a session`},
		"a page":             {clienttest.Status(http.StatusInternalServerError), 502, `the MCP server "one" does not open a session`},
		"no connection":      {clienttest.Refuse, 502, `the MCP server "one" cannot be reached`},
		"no answer":          {clienttest.Hang, 504, `the MCP server "one" did not answer in time`},
		"no result":          {clienttest.Raw(`{}`), 502, `the MCP server "one" does not answer as it should`},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				m := w.members[0]
				m.On("initialize", tt.answer)
				w.eachEra(func(c *caller) {
					a := c.call("one__tools_a")
					a.want(w, "a call", tt.status, -32603)
					wantSaid(w, a, tt.says)
				})
				if n := len(m.asked("tools/call")); n > 0 {
					w.Errorf("the server is sent %d calls", n)
				}
				w.wantLogged("server does not open a session for a client: one")
				m.On("initialize", nil)
				w.eachEra(func(c *caller) { c.call("one__tools_a").wantOf(w, "one") })
				w.after(quiet)
				m.On("initialize", tt.answer)
				w.calls(legacy).call("one__tools_a").want(w, "a call", tt.status, -32603)
				w.wantLogged("server does not open a session for a client: one")
			}, serves("one", legacy))
		})
	}
}

// TestClientsThatDoNotWaitForASession: a client that goes away while a session is opened for it is sent nothing, and its
// request never reaches the server.
func TestClientsThatDoNotWaitForASession(t *testing.T) {
	run(t, func(w *world) {
		m := w.members[0]
		m.On("initialize", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			time.Sleep(10 * time.Second)
			return m.Answer(w, r, c)
		})
		w.eachEra(func(c *caller) {
			a, leave := c.begin(c.calling("one__tools_a"))
			leave()
			if w.after(time.Minute); !a.isOver() || a.Body.Len() > 0 || len(m.asked("tools/call")) > 0 {
				w.Errorf("a client of %s is sent %s, and the server %d calls", c.at, a, len(m.asked("tools/call")))
			}
		})
		w.wantLogged()
	}, serves("one", legacy))
}

// TestCancelledBeforeTheServerHasIt: a server is never sent a request that its client has cancelled while the session with
// the server was being opened.
func TestCancelledBeforeTheServerHasIt(t *testing.T) {
	run(t, func(w *world) {
		c, m := w.calls(legacy), w.members[0]
		m.On("initialize", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			time.Sleep(10 * time.Second)
			return m.Answer(w, r, c)
		})
		a, leave := c.begin(c.calling("one__tools_a"))
		defer leave()
		c.cancel(fmt.Sprint(c.sent))
		if w.after(0); !a.isOver() {
			w.Fatal("the call goes on")
		}
		a.want(w, "the call", http.StatusOK, -32600)
		wantSaid(w, a, "the request was cancelled")
		w.after(time.Minute)
		if n := m.Count("tools/call") + m.Count("notifications/cancelled"); n > 0 {
			w.Errorf("the server is sent %d messages", n)
		}
	}, serves("one", legacy))
}

// TestServersAreToldOfCancellations: a legacy server is told once that a client does not wait for a request any more.
// That comes in the session of the request, and by the id that the server knows.
func TestServersAreToldOfCancellations(t *testing.T) {
	for name, tt := range map[string]struct {
		at     revision.Revision
		gives  func(c *caller, leave func())
		change func(m *member)
		told   int
	}{
		"it says so":                 {legacy, func(c *caller, _ func()) { c.cancel(fmt.Sprint(c.sent)); c.cancel(fmt.Sprint(c.sent)) }, nil, 1},
		"it goes, and says so later": {legacy, func(c *caller, leave func()) { leave(); c.cancel(fmt.Sprint(c.sent)) }, nil, 1},
		"it goes":                    {legacy, func(_ *caller, leave func()) { leave() }, nil, 0},
		"a modern one goes":          {modern, func(_ *caller, leave func()) { leave() }, nil, 1},
		"it names another request":   {legacy, func(c *caller, _ func()) { c.cancel(fmt.Sprint(c.sent + 100)) }, nil, 0},
		"it names none":              {legacy, func(c *caller, _ func()) { c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`) }, nil, 0},
		"no sessions":                {legacy, func(c *caller, _ func()) { c.cancel(fmt.Sprint(c.sent)) }, unnumbered, 0},
		"no sessions, a modern one":  {modern, func(_ *caller, leave func()) { leave() }, unnumbered, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := serves("one", legacy)
			if tt.change != nil {
				tt.change(m)
			}
			run(t, func(w *world) {
				c, sent := w.calls(tt.at), m.records()
				m.On("tools/call", clienttest.Hang)
				m.On("notifications/cancelled", func(_ http.ResponseWriter, r *http.Request, _ clienttest.Call) error {
					if err := r.Context().Err(); err != nil {
						w.Errorf("the server is told by a request that has ended: %v", err)
					}
					return nil
				})
				a, leave := c.begin(c.calling("one__tools_a"))
				defer leave()
				if a.isOver() {
					w.Fatalf("the call is over: %s", a)
				}
				tt.gives(c, leave)
				if w.after(time.Minute); m.Count("notifications/cancelled") != tt.told {
					w.Fatalf("the server is told %d times, want %d", m.Count("notifications/cancelled"), tt.told)
				}
				if tt.told == 0 {
					return
				}
				call, told := m.last(t, "tools/call"), sent.last(w, "notifications/cancelled")
				in, of := call.Header.Get("Mcp-Session-Id"), told.Header.Get("Mcp-Session-Id")
				if in != of || !strings.Contains(told.body, `"requestId":`+string(call.ID)) {
					w.Errorf("request %s in session %s is cancelled by %s in session %s", call.ID, in, told.body, of)
				}
			}, m, serves("two", legacy))
		})
	}
}

// TestAnsweredCallsAreNotCancelled: a server is told nothing of a client that cancels what the server has answered.
func TestAnsweredCallsAreNotCancelled(t *testing.T) {
	run(t, func(w *world) {
		c, m := w.calls(legacy), w.members[0]
		c.call("one__tools_a").wantOf(w, "one")
		c.cancel(fmt.Sprint(c.sent)).want(w, "the notification", http.StatusAccepted, 0)
		if n := m.Count("notifications/cancelled"); n > 0 {
			w.Errorf("the server is told %d times", n)
		}
	}, serves("one", legacy))
}

// TestServersThatTakeNoCancellation: a client that cancels a request is not kept waiting, nor told of an error, by a server
// that answers that with anything or with nothing.
func TestServersThatTakeNoCancellation(t *testing.T) {
	aborts := func(http.ResponseWriter, *http.Request, clienttest.Call) error { panic(http.ErrAbortHandler) }
	for name, answer := range map[string]clienttest.Script{
		"a page": clienttest.Status(http.StatusInternalServerError), "no connection": clienttest.Refuse, "no answer": clienttest.Hang, "a broken one": aborts,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				c, m := w.calls(legacy), w.members[0]
				m.On("tools/call", clienttest.Hang)
				_, leave := c.begin(c.calling("one__tools_a"))
				defer leave()
				m.On("notifications/cancelled", answer)
				began := time.Now()
				c.cancel(fmt.Sprint(c.sent)).want(w, "the notification", http.StatusAccepted, 0)
				if took := time.Since(began); took > cancelWithin {
					w.Errorf("it takes %s", took)
				}
				if n := m.Count("notifications/cancelled"); n != 1 {
					w.Errorf("the server is told %d times", n)
				}
			}, serves("one", legacy))
		})
	}
}

// TestCancelledCallsThatFail: a client that has cancelled a request, which then fails, is told that it was cancelled. The
// log does not have that as an outage.
func TestCancelledCallsThatFail(t *testing.T) {
	run(t, func(w *world) {
		c, m := w.calls(legacy), w.members[0]
		var cancelled atomic.Bool
		m.On("tools/call", func(http.ResponseWriter, *http.Request, clienttest.Call) error {
			for !cancelled.Load() {
				time.Sleep(time.Second)
			}
			return errors.New("given up")
		})
		a, leave := c.begin(c.calling("one__tools_a"))
		defer leave()
		c.cancel(fmt.Sprint(c.sent))
		cancelled.Store(true)
		if w.after(10 * time.Second); !a.isOver() {
			w.Fatal("the call goes on")
		}
		a.want(w, "the call", http.StatusOK, -32600)
		wantSaid(w, a, "the request was cancelled")
		w.wantLogged()
	}, serves("one", legacy))
}

// TestCancellationsHaveTheGuardsCredential: a server is sent a cancellation with the credential of its guard, and nothing
// without one.
func TestCancellationsHaveTheGuardsCredential(t *testing.T) {
	run(t, func(w *world) {
		c, m := w.calls(legacy), w.members[0]
		m.On("tools/call", clienttest.Hang)
		_, leave := c.begin(c.calling("one__tools_a"))
		c.cancel(fmt.Sprint(c.sent))
		if got := m.last(t, "notifications/cancelled").Header.Get("Authorization"); got != "Bearer "+theToken {
			w.Errorf("the server is told with %q", got)
		}
		leave()
		_, leave = c.begin(c.calling("one__tools_a"))
		defer leave()
		m.of.Credentials.Guard = &clienttest.Guard{Put: func(*http.Request) error { return guards.ErrUnauthorized }}
		c.cancel(fmt.Sprint(c.sent)).want(w, "the notification", http.StatusAccepted, 0)
		if n := m.Count("notifications/cancelled"); n != 1 {
			w.Errorf("the server is told %d times", n)
		}
	}, serves("one", legacy).with(guarded))
}
