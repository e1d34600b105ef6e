package toolkit

import (
	"cmp"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
)

// forgetful has a server answer that to calls and pings in a session that it does not know, and count in done the calls
// that it does.
func forgetful(refuse clienttest.Script, done *int) func(m *member) {
	return func(m *member) {
		inSession := func(answer clienttest.Script) clienttest.Script {
			return func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
				if !m.isOpen(r.Header.Get("Mcp-Session-Id")) {
					return refuse(w, r, c)
				}
				return answer(w, r, c)
			}
		}
		m.On("ping", inSession(clienttest.Gives(`{}`)))
		m.On("tools/call", inSession(func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			*done++
			return replies(http.StatusOK, "application/json", aResult)(w, r, c)
		}))
	}
}

// losses are what servers say of a session that they do not know, and whether they cannot have done what was asked for.
var losses = map[string]struct {
	refuse clienttest.Script
	undone bool
}{
	"400":               {clienttest.Status(http.StatusBadRequest), true},
	"401":               {clienttest.Status(http.StatusUnauthorized), true},
	"403":               {clienttest.Status(http.StatusForbidden), true},
	"404":               {clienttest.Status(http.StatusNotFound), true},
	"410":               {clienttest.Status(http.StatusGone), true},
	"422":               {clienttest.Status(http.StatusUnprocessableEntity), true},
	"404 and -32001":    {clienttest.Failure(http.StatusNotFound, -32001, ""), true},
	"400 and -32000":    {clienttest.Failure(http.StatusBadRequest, -32000, ""), true},
	"503 and -32001":    {clienttest.Failure(http.StatusServiceUnavailable, -32001, ""), true},
	"400 and -32600":    {clienttest.Failure(http.StatusBadRequest, -32600, ""), true},
	"200 and -32600":    {clienttest.Failure(http.StatusOK, -32600, ""), true},
	"200 and -32000":    {clienttest.Failure(http.StatusOK, -32000, ""), false},
	"404 and another":   {clienttest.Failure(http.StatusNotFound, -32099, ""), false},
	"500":               {clienttest.Status(http.StatusInternalServerError), false},
	"503":               {clienttest.Status(http.StatusServiceUnavailable), false},
	"a long 404":        {replies(http.StatusNotFound, "text/html", strings.Repeat("no session", 7000)), false},
	"a coded 404":       {replies(http.StatusNotFound, "text/html", "x", "Content-Encoding", "gzip"), false},
	"404 and a message": {replies(http.StatusNotFound, "text/plain", `[{"jsonrpc":"2.0"}]`), false},
	"an event":          {streams(`{"jsonrpc":"2.0","id":<id>,"error":{"code":-32600,"message":"no session"}}`), false},
}

// eachLoss runs a test for each of those losses, and for a client of each era who has called a tool before it. The test
// is given the answer to the client's next call, and how many calls were done by then.
func eachLoss(t *testing.T, test func(w *world, c *caller, a *received, undone bool, done *int), changes ...func(m *member)) {
	t.Helper()
	for name, loss := range losses {
		done := 0
		m := serves("one", legacy).with(forgetful(loss.refuse, &done))
		for _, change := range changes {
			m.with(change)
		}
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.eachEra(func(c *caller) {
					c.as("alice")
					done = 0
					c.call("one__tools_a").want(w, "a call", http.StatusOK, 0)
					m.Forget()
					test(w, c, c.call("one__tools_a"), loss.undone, &done)
				})
			}, m)
		})
	}
}

// TestLostSessionsAreOpenedAnew: a server that has lost the session of a client, in which words it may say so, is called in
// another one. The call that has shown that is made once more where the server cannot have done it.
func TestLostSessionsAreOpenedAnew(t *testing.T) {
	eachLoss(t, func(w *world, c *caller, a *received, undone bool, done *int) {
		succeeds := a.Code == http.StatusOK && a.code() == 0
		if succeeds != undone || succeeds != (*done == 2) || a.Code == http.StatusNotFound {
			w.Errorf("a client of %s is answered %s after %d calls were done; want success %v", c.at, a, *done, undone)
		}
		before := *done
		if c.call("one__tools_a").want(w, "the next call", http.StatusOK, 0); *done != before+1 {
			w.Errorf("the next call was done %d times", *done-before)
		}
	})
}

// TestLostSessionsEndTheClients: with session_lost end, a legacy client whose server has lost its session is told so by the
// end of the client's own, and opens another. A modern client, which has none, is told that the call failed.
func TestLostSessionsEndTheClients(t *testing.T) {
	eachLoss(t, func(w *world, c *caller, a *received, undone bool, done *int) {
		if undone && c.at == legacy {
			a.want(w, "a call in a lost session", http.StatusNotFound, -32600)
			wantSaid(w, a, "Session not found: the server has lost its own")
		} else if undone {
			a.want(w, "a call in a lost session", http.StatusBadGateway, -32603)
			wantSaid(w, a, `the MCP server "one" has lost the session`)
		}
		if *done != 1 {
			w.Errorf("%d calls are done", *done)
		}
		if c.at == legacy {
			c.call("one__tools_a").want(w, "a call in the session that has ended", http.StatusNotFound, -32600)
			c.session = ""
			c.open()
		}
		c.call("one__tools_a").want(w, "the next call", http.StatusOK, 0)
	}, func(m *member) { m.of.EndsSessions = true })
}

// TestRefusalsThatAreNotOfTheSession: a server is called once if it refuses a call in a session that it knows, or does
// not say otherwise. The client is given the answer of the server.
func TestRefusalsThatAreNotOfTheSession(t *testing.T) {
	answers := map[string]clienttest.Script{
		"404 and -32601":   clienttest.Failure(http.StatusNotFound, -32601, ""),
		"a result and 404": replies(http.StatusNotFound, "application/json", aResult),
		"a result and 400": replies(http.StatusBadRequest, "application/json", aResult),
		"arguments":        clienttest.Failure(http.StatusBadRequest, -32602, ""),
	}
	for name, loss := range losses {
		answers[name] = loss.refuse
	}
	pings := map[string]clienttest.Script{"it answers": clienttest.Gives(`{}`), "no pings": nil, "405": clienttest.Status(http.StatusMethodNotAllowed)}
	for name, answer := range answers {
		for pinged, ping := range pings {
			t.Run(name+", "+pinged, func(t *testing.T) {
				run(t, func(w *world) {
					m := w.members[0]
					m.On("tools/call", answer)
					m.On("ping", ping)
					w.eachEra(func(c *caller) {
						c.as("alice")
						before := m.Count("tools/call")
						a := c.call("one__tools_a")
						if n := m.Count("tools/call") - before; n != 1 || len(a.messages()) != 1 || a.Code == http.StatusNotFound && c.at == legacy {
							w.Errorf("a call of a client of %s is sent %d times, and answered %s", c.at, n, a)
						}
					})
				}, serves("one", legacy))
			})
		}
	}
}

// TestCallsThatAreDoneAreNotRepeated: a server that has done a call, and loses the session at that, is not asked to do it once
// more. That holds for every form in which the server says that it has done the call.
func TestCallsThatAreDoneAreNotRepeated(t *testing.T) {
	for name, answer := range map[string]clienttest.Script{
		"a result and 404":    replies(http.StatusNotFound, "application/json", aResult),
		"a result and 401":    replies(http.StatusUnauthorized, "text/plain", aResult),
		"a result and more":   replies(http.StatusNotFound, "application/json", aResult+"{}"),
		"a batch":             replies(http.StatusNotFound, "application/json", "["+aResult+"]"),
		"arguments and 400":   clienttest.Failure(http.StatusBadRequest, -32602, ""),
		"an error of its own": clienttest.Failure(http.StatusNotFound, -32099, ""),
		"in a stream":         replies(http.StatusNotFound, "text/event-stream", "data: "+aResult+"\n\n"),
	} {
		done := 0
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				m := w.members[0]
				m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
					done++
					m.Forget()
					return answer(w, r, c)
				})
				w.eachEra(func(c *caller) {
					if done = 0; c.at == legacy {
						c.open()
					}
					if a := c.call("one__tools_a"); done != 1 {
						w.Errorf("the call of a client of %s is done %d times, and answered %s", c.at, done, a)
					}
				})
			}, serves("one", legacy).with(forgetful(clienttest.Status(http.StatusNotFound), &done)))
		})
	}
}

// TestServersThatAnswerNoPings: a server that refuses pings is called in another session after it has said that it does not
// know one. The call that has shown that is not made once more, as nobody is sure.
func TestServersThatAnswerNoPings(t *testing.T) {
	done := 0
	run(t, func(w *world) {
		m, c := w.members[0], w.calls(legacy)
		m.On("ping", clienttest.Status(http.StatusNotFound))
		c.call("one__tools_a").want(w, "a call", http.StatusOK, 0)
		m.Forget()
		c.call("one__tools_a").want(w, "a call in a lost session", http.StatusBadGateway, -32603)
		if c.call("one__tools_a").want(w, "the next call", http.StatusOK, 0); done != 2 {
			w.Errorf("%d calls are done", done)
		}
	}, serves("one", legacy).with(forgetful(clienttest.Status(http.StatusNotFound), &done)))
}

// TestSessionsThatWereTrusted: a server that has kept a session in which it refused a call, and loses the session right
// after that, is called in another one at once.
func TestSessionsThatWereTrusted(t *testing.T) {
	done := 0
	run(t, func(w *world) {
		m, c := w.members[0], w.calls(legacy)
		refuse := true
		m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			if refuse || !m.isOpen(r.Header.Get("Mcp-Session-Id")) {
				return clienttest.Status(http.StatusNotFound)(w, r, c)
			}
			return echoes(m)(w, r, c)
		})
		c.call("one__tools_a").want(w, "a call", http.StatusBadGateway, -32603)
		refuse = false
		m.Forget()
		c.call("one__tools_a").wantOf(w, "one")
	}, serves("one", legacy).with(forgetful(clienttest.Status(http.StatusNotFound), &done)))
}

// TestCallsAreNotRepeatedForever: a server that refuses each session that it has just opened is called twice at most, and
// the client is given the refusal.
func TestCallsAreNotRepeatedForever(t *testing.T) {
	run(t, func(w *world) {
		m := w.members[0]
		var first string
		m.On("ping", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			var refused bool
			if m.Do(func() { refused = r.Header.Get("Mcp-Session-Id") == first }); refused {
				return clienttest.Status(http.StatusNotFound)(w, r, c)
			}
			return clienttest.Result(w, c, `{}`)
		})
		m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			m.Do(func() { first = cmp.Or(first, r.Header.Get("Mcp-Session-Id")) })
			return clienttest.Status(http.StatusNotFound)(w, r, c)
		})
		c := w.calls(legacy)
		a := c.call("one__tools_a")
		a.want(w, "a call", http.StatusBadGateway, -32603)
		wantSaid(w, a, `the MCP server "one" answered with HTTP status 404`)
		if n := m.Count("tools/call"); n != 2 {
			w.Errorf("the call is sent %d times", n)
		}
	}, serves("one", legacy))
}

// TestCredentialsThatAreRefusedEndNoSession: with session_lost end, a legacy client keeps its session when a server refuses
// the client's own credentials, as another session would not be of use.
func TestCredentialsThatAreRefusedEndNoSession(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		done := 0
		run(t, func(w *world) {
			m, c := w.members[0], w.calls(legacy, "Authorization", "Bearer a")
			c.call("one__tools_a").want(w, "a call", http.StatusOK, 0)
			m.Forget()
			c.call("one__tools_a").want(w, "a call in a lost session", http.StatusBadGateway, -32603)
			c.ask("ping", "").want(w, "a ping", http.StatusOK, 0)
		}, serves("one", legacy).personal().with(forgetful(clienttest.Status(status), &done)).with(func(m *member) { m.of.EndsSessions = true }))
	}
}

// TestCancelledWhileASessionIsOpenedAnew: a call that its client cancels while another session is opened for it is not made
// once more.
func TestCancelledWhileASessionIsOpenedAnew(t *testing.T) {
	done := 0
	run(t, func(w *world) {
		m, c := w.members[0], w.calls(legacy)
		c.call("one__tools_a").want(w, "a call", http.StatusOK, 0)
		m.Forget()
		m.On("initialize", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			time.Sleep(10 * time.Second)
			return m.Answer(w, r, c)
		})
		a, leave := c.begin(c.calling("one__tools_a"))
		defer leave()
		c.cancel(string(m.last(t, "tools/call").ID))
		if w.after(time.Minute); !a.isOver() || done != 1 {
			w.Fatalf("%d calls are done, and the call is over: %v", done, a.isOver())
		}
		a.want(w, "the call", http.StatusOK, -32600)
		wantSaid(w, a, "the request was cancelled")
	}, serves("one", legacy).with(forgetful(clienttest.Status(http.StatusNotFound), &done)))
}
