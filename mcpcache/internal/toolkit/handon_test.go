package toolkit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
)

// TestModernServersAreToldOfLegacyClients: a modern server is sent with each request what a legacy client has said of
// itself when it opened its session. It is not told of capabilities to answer a server, which no client can use here.
func TestModernServersAreToldOfLegacyClients(t *testing.T) {
	const said = `"io.modelcontextprotocol/clientCapabilities":{"experimental":{}},"io.modelcontextprotocol/clientInfo":{"name":"mine","version":"7"}`
	run(t, func(w *world) {
		c, sent := &caller{w: w, at: legacy, header: make(http.Header)}, w.members[0].records()
		c.session = c.post(c.message("initialize",
			`"protocolVersion":"2025-11-25","capabilities":{"roots":{},"experimental":{},"sampling":{}},"clientInfo":{"name":"mine","version":"7"}`)).Header().Get("Mcp-Session-Id")
		for _, tt := range []struct{ level, meta, want string }{
			{"", ``, said + `,"io.modelcontextprotocol/protocolVersion":"2026-07-28"`},
			{"", `,"_meta":{"progressToken":7,"x":1}`, said + `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":7,"x":1`},
			{"warning", ``, said + `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"warning"`},
		} {
			if tt.level != "" {
				c.ask("logging/setLevel", `"level":"`+tt.level+`"`).want(w, "a level", http.StatusOK, 0)
			}
			c.ask("tools/call", `"name":"one__tools_a","arguments":{}`+tt.meta).wantOf(w, "one")
			got := sent.last(w, "tools/call")
			var message struct {
				ID     int `json:"id"`
				Params struct {
					Meta json.RawMessage `json:"_meta"`
				} `json:"params"`
			}
			if err := json.Unmarshal([]byte(got.body), &message); err != nil || message.ID != c.sent || !sameJSON(message.Params.Meta, []byte("{"+tt.want+"}")) {
				w.Errorf("the server is sent %s for request %d, want %s", got.body, c.sent, tt.want)
			}
			if id := got.Header["Mcp-Session-Id"]; id != nil {
				w.Errorf("the server is sent the session %q", id)
			}
		}
	}, serves("one", modern))
}

// TestLegacyServersAreSentLegacyRequests: a legacy server is sent nothing that is of the modern era. A request has an
// id of its own, as the ids of modern clients may be the same.
func TestLegacyServersAreSentLegacyRequests(t *testing.T) {
	run(t, func(w *world) {
		sent, ids := w.members[0].records(), make(map[string]bool)
		for range 3 {
			c := w.calls(modern)
			c.send(c.calling("one__tools_a")).wantOf(w, "one")
			got := sent.last(w, "tools/call")
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"tools_a","arguments":{},"_meta":{"progressToken":7}}}`,
				w.members[0].last(t, "tools/call").ID)
			if id := string(w.members[0].last(t, "tools/call").ID); got.body != want || len(id) < 7 || ids[id] {
				w.Errorf("the server is sent %s after %v, want %s", got.body, ids, want)
			} else {
				ids[id] = true
			}
			if at := got.Header.Get("Mcp-Protocol-Version"); at != legacy.String() || got.Header.Get("Mcp-Session-Id") == "" {
				w.Errorf("the server is sent a request of %s in session %q", at, got.Header["Mcp-Session-Id"])
			}
		}
	}, serves("one", legacy))
}

// TestAmbiguousCapabilities: a modern client whose capabilities cannot be told to a legacy server with certainty is told
// so, and the server is sent nothing.
func TestAmbiguousCapabilities(t *testing.T) {
	run(t, func(w *world) {
		c, m := w.calls(modern), w.members[0]
		before := m.Count("initialize")
		body := strings.Replace(c.message("tools/call", `"name":"one__tools_a"`), `Capabilities":{}`, `Capabilities":{"a":{"b":1,"b":2}}`, 1)
		c.post(body, "Mcp-Method", "tools/call", "Mcp-Name", "one__tools_a").want(w, "a call", http.StatusBadRequest, -32602)
		if n := len(m.asked("tools/call")) + m.Count("initialize") - before; n != 0 {
			w.Errorf("the server is sent %d requests", n)
		}
	}, serves("one", legacy))
}

// TestSessionsForModernClients: a modern client whom somebody knows has one session with a legacy server, which nobody
// else is in. A client whom nobody knows has one for each request, which ends after it.
func TestSessionsForModernClients(t *testing.T) {
	alice := func(c *caller) { c.user = "alice" }
	bearer := func(token string) func(c *caller) {
		return func(c *caller) { c.header.Set("Authorization", "Bearer "+token) }
	}
	for name, tt := range map[string]struct {
		first, second func(c *caller)
		isPersonal    bool
		same          bool
	}{
		"a user":                {alice, alice, false, true},
		"two users":             {alice, func(c *caller) { c.user = "bob" }, false, false},
		"a user and a stranger": {alice, func(*caller) {}, false, false},
		"strangers":             {func(*caller) {}, func(*caller) {}, false, false},
		"a credential":          {bearer("a"), bearer("a"), true, true},
		"two credentials":       {bearer("a"), bearer("b"), true, false},
		"nobody's credential":   {bearer("a"), bearer("a"), false, false},
		"a user's credential":   {func(c *caller) { alice(c); bearer("a")(c) }, bearer("a"), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := serves("one", legacy)
			if tt.isPersonal {
				m.personal()
			}
			run(t, func(w *world) {
				var sessions []string
				before := m.Count("initialize")
				for _, change := range []func(c *caller){tt.first, tt.second} {
					c := w.calls(modern)
					change(c)
					c.call("one__tools_a").wantOf(w, "one")
					sessions = append(sessions, m.last(t, "tools/call").Header.Get("Mcp-Session-Id"))
					w.after(time.Second)
				}
				if same := sessions[0] == sessions[1]; same != tt.same {
					w.Errorf("the sessions are %q, want the same: %v", sessions, tt.same)
				}
				if n := m.Count("initialize") - before; n > 2 && !tt.isPersonal {
					w.Errorf("for two requests %d sessions are opened", n)
				}
				for _, id := range sessions {
					if isOpen := m.isOpen(id); name == "strangers" && isOpen || tt.same && !isOpen {
						w.Errorf("after the requests session %s is open: %v", id, isOpen)
					}
				}
			}, m)
		})
	}
}

// isOpen reports whether a session with the server is open.
func (m *member) isOpen(id string) (is bool) {
	m.Do(func() { is = m.Sessions[id] })
	return is
}

// TestSessionsAsWhom: a legacy server is told of each modern client as which client it comes. Two programs of one user do
// not share a session.
func TestSessionsAsWhom(t *testing.T) {
	run(t, func(w *world) {
		m, c := w.members[0], w.calls(modern)
		c.user = "alice"
		sessions := make(map[string]bool)
		for _, program := range []string{"editor", "terminal"} {
			const capabilities, info = `"io.modelcontextprotocol/clientCapabilities":{`, `,"io.modelcontextprotocol/clientInfo":`
			body := strings.Replace(c.message("tools/call", `"name":"one__tools_a"`), capabilities+"}",
				capabilities+`"roots":{},"experimental":{}}`+info+`{"name":"`+program+`","version":"7"}`, 1)
			for range 2 {
				c.post(body, "Mcp-Method", "tools/call", "Mcp-Name", "one__tools_a").wantOf(w, "one")
				sessions[m.last(t, "tools/call").Header.Get("Mcp-Session-Id")] = true
			}
			opened := m.last(t, "initialize").Params
			if string(opened.ClientInfo) != `{"name":"`+program+`","version":"7"}` || string(opened.Capabilities) != `{"experimental":{}}` {
				w.Errorf("the server is told of a client %s that can %s", opened.ClientInfo, opened.Capabilities)
			}
		}
		if len(sessions) != 2 {
			w.Errorf("two programs have %d sessions", len(sessions))
		}
	}, serves("one", legacy))
}

// unnumbered has a server open all sessions without an id.
func unnumbered(m *member) {
	m.Sessions[""] = true
	m.On("initialize", clienttest.Gives(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"s","version":"1"}}`))
}

// TestSessionlessServers: modern clients whom nobody knows share what is open at a server that does not tell sessions
// apart, as long as it does not.
func TestSessionlessServers(t *testing.T) {
	run(t, func(w *world) {
		m := w.members[0]
		before := m.Count("initialize")
		for range 3 {
			w.calls(modern).call("one__tools_a").wantOf(w, "one")
		}
		if n := m.Count("initialize") - before; n != 1 || m.last(t, "tools/call").Header["Mcp-Session-Id"] != nil {
			w.Errorf("for three clients %d sessions are opened", n)
		}
		m.On("tools/call", clienttest.Failure(http.StatusNotFound, -32099, ""))
		w.calls(modern).call("one__tools_a").want(w, "a 404", http.StatusOK, -32099)
		m.On("tools/call", echoes(m))
		m.On("initialize", nil)
		for n := range 3 {
			c := w.calls(modern)
			c.ask("tools/call", `"name":"one__tools_a"`, "Accept-Language", fmt.Sprint(n)).wantOf(w, "one")
		}
	}, serves("one", legacy).with(unnumbered))
	run(t, func(w *world) { // it is known to be without sessions, and gives ids when it is called
		m := w.members[0]
		m.On("initialize", nil)
		sessions := make(map[string]bool)
		for range 3 {
			w.calls(modern).call("one__tools_a").wantOf(w, "one")
			sessions[m.last(t, "tools/call").Header.Get("Mcp-Session-Id")] = true
		}
		if len(sessions) != 3 || sessions[""] {
			w.Errorf("three clients have the sessions %v", sessions)
		}
		w.after(time.Second)
		m.Do(func() {
			if len(m.Sessions) != 1 { // that without an id
				w.Errorf("the sessions %v stay open", m.Sessions)
			}
		})
	}, serves("one", legacy).with(unnumbered))
}

// TestNoMoreSessionsThanThereMayBe: a client for whom no session can be opened, as those in use are as many as there may
// be, is told to try again. Sessions that are idle give their places to others.
func TestNoMoreSessionsThanThereMayBe(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		w.Settings.Sessions.SetLimit(1)
		m.On("tools/call", clienttest.Hang)
		first, leave := c.begin(c.calling("one__tools_a"))
		defer leave()
		m.On("tools/call", echoes(m))
		second := w.calls(c.at)
		a := second.call("one__tools_a")
		if c.at == modern && m.Speaks[0] == modern.String() {
			a.wantOf(w, "one") // in no session
			return
		}
		a.want(w, "a second call", http.StatusServiceUnavailable, -32603)
		wantSaid(w, a, "there are as many sessions in use as max_sessions allows: try again")
		if after := a.Header().Get("Retry-After"); after != "1" || first.isOver() {
			w.Errorf("the client is to come again after %q, and the first call is over: %v", after, first.isOver())
		}
		leave()
		for _, user := range []string{"alice", "bob", "alice"} {
			second.as(user)
			second.call("one__tools_a").wantOf(w, "one") // in the place of a session that is idle
		}
	})
}

// TestCancelledAtModernServers: a request to a modern server ends when a legacy client cancels it. The client is told
// so in the form in which the answer has begun.
func TestCancelledAtModernServers(t *testing.T) {
	begun := func(media, body string) clienttest.Script {
		return func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			_ = replies(http.StatusOK, media, body)(w, r, c)
			return clienttest.Hang(w, r, c)
		}
	}
	for name, tt := range map[string]struct {
		answer clienttest.Script
		code   int
	}{
		"no answer": {clienttest.Hang, -32600},
		"a stream":  {begun("text/event-stream", "data: "+aProgress+"\n\n"), -32603},
		"JSON":      {begun("application/json", `{"jsonrpc":`), -32600},
		"a page, too late": {func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			<-r.Context().Done()
			return clienttest.Status(499)(w, r, c)
		}, -32600},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				c, m := w.calls(legacy), w.members[0]
				m.On("tools/call", tt.answer)
				a, leave := c.begin(c.calling("one__tools_a"))
				defer leave()
				id := c.sent
				c.cancel(fmt.Sprint(id+100)).want(w, "another request", http.StatusAccepted, 0)
				if a.isOver() {
					w.Fatalf("the call is over: %s", a)
				}
				c.cancel(fmt.Sprint(id)).want(w, "the request", http.StatusAccepted, 0)
				if w.after(0); !a.isOver() {
					w.Fatal("the call goes on")
				}
				a.want(w, "the call", http.StatusOK, tt.code)
				if wantSaid(w, a, "the request was cancelled"); string(a.response().ID) != fmt.Sprint(id) || m.Count("notifications/cancelled") > 0 {
					w.Errorf("request %d is answered %s", id, a)
				}
				w.wantLogged()
			}, serves("one", modern))
		})
	}
}

// cancel says that the client does not wait for the answer to a request any more.
func (c *caller) cancel(id string) *received {
	return c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"x"}}`)
}
