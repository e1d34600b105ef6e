package several

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// toolUser is a client of several servers, which calls tools of one with sessions.
type toolUser struct {
	*fixture.Raw
	*caddytest.World // the server

	refuse scripted.Script // what the server answers in a session that it does not know; nil: it does not look

	mu   sync.Mutex
	done map[int]int // calls that the server has done, by their number
}

// ofEachEra runs a test with a client of each era.
func ofEachEra(t *testing.T, name string, test func(t *testing.T, c *toolUser), options ...string) {
	t.Helper()
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		t.Run(name+", "+caddytest.EraOf(revision), func(t *testing.T) {
			w, p := over(t, legacyRevisions, options...)
			c := fixture.New(t, p.URL, revision, user("ada"))
			caddytest.HasListed(t, c, scripted.ToolsList, 2)
			test(t, &toolUser{Raw: c, World: w, done: make(map[int]int)})
		})
	}
}

// answers has the server do what it is called for, and then answer.
func (c *toolUser) answers(answer scripted.Script) {
	c.SetScript("tools/call", func(x *scripted.Exchange) {
		if c.refuse != nil && !c.Lives(x.Session) {
			c.refuse(x)
			return
		}
		var params struct{ Arguments struct{ N int } }
		if err := json.Unmarshal(x.Params, &params); err != nil {
			c.T.Error(err)
		}
		c.mu.Lock()
		c.done[params.Arguments.N]++
		c.mu.Unlock()
		answer(x)
	})
}

// tool calls a tool, and reports whether that has a result.
func (c *toolUser) tool(n int) (*fixture.Answer, bool) {
	c.T.Helper()
	a := c.Raw.Call("tools/call", c.Params(fmt.Sprintf(`"name":"one__item-0000","arguments":{"n":%d}`, n)))
	return a, a.Status == http.StatusOK && a.ErrorCode() == 0
}

// sessions counts those in which the server was called.
func (c *toolUser) sessions() int {
	ids := make(map[string]bool)
	for _, id := range sessionsOf(c.World, "tools/call") {
		ids[id] = true
	}
	return len(ids)
}

// TestToolkitCallsOnce: what a server has done it is not asked for again, whatever it answers, to pings too; nor if it
// loses the session at that, and says that the call was done in a form that is hard to read.
func TestToolkitCallsOnce(t *testing.T) {
	plain := func(status int) scripted.Script {
		return func(x *scripted.Exchange) { x.Raw(status, "text/plain", "no") }
	}
	failure := func(status, code int) scripted.Script {
		return func(x *scripted.Exchange) { x.Error(status, code, "no") }
	}
	says := func(status int, media, format string) scripted.Script {
		return func(x *scripted.Exchange) {
			x.Raw(status, media, strings.ReplaceAll(format, "RESULT", x.Envelope(`{"content":[]}`)))
		}
	}
	pings := map[string]scripted.Script{"404": plain(404), "405": plain(405), "500": plain(500), "400 and -32600": failure(400, -32600), "once lost": nil}
	refusals := map[string]scripted.Script{
		"400": plain(400), "401": plain(401), "404": plain(404), "503": plain(503), "404 and -32000": failure(404, -32000), "an error": failure(200, -32000),
	}
	done := map[string]scripted.Script{
		"400 and -32602": failure(400, -32602), "404 and -32603.0": says(404, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603.0,"message":"no"}}`),
		"a result with 400": says(400, "application/json", "RESULT"), "a result with 401": says(401, "application/json", "RESULT"), "a result with 404": says(404, "application/json", "RESULT"),
		"a result and more": says(404, "application/json", "RESULT{}"), "a batch": says(404, "application/json", "[RESULT]"), "a result after a mark": says(404, "application/json", "\ufeffRESULT"),
		"a result in a stream": says(404, "text/event-stream", "data: RESULT\n\n"),
	}
	ofEachEra(t, "", func(t *testing.T, c *toolUser) {
		n := 0
		for pinged, ping := range pings {
			answers := maps.Clone(done)
			if ping != nil {
				maps.Copy(answers, refusals)
			}
			for answered, answer := range answers {
				n++
				c.SetScript("ping", ping)
				c.answers(func(x *scripted.Exchange) {
					if ping == nil {
						c.EndSession(x.Session)
					}
					answer(x)
				})
				c.tool(n)
				if c.done[n] != 1 {
					t.Errorf("a call that is answered %s, and a ping %s, was done %d times", answered, pinged, c.done[n])
				}
				c.answers(func(x *scripted.Exchange) { x.Result(`{"content":[]}`) })
				if a, ok := c.tool(-n); !ok {
					t.Errorf("after %s, and a ping that is answered %s, the next call gave %s", answered, pinged, a)
				}
			}
		}
	})
}

// TestToolkitBrokenOff: a server that breaks off its answer, before any of it was given to the client, has the client
// told so.
func TestToolkitBrokenOff(t *testing.T) {
	ofEachEra(t, "", func(t *testing.T, c *toolUser) {
		for name, answer := range map[string]scripted.Script{
			"a result": scripted.CutAfter(10),
			"a refusal": func(x *scripted.Exchange) {
				x.W.Header().Set("Content-Length", "100")
				x.Raw(404, "text/plain", "no such")
				panic(http.ErrAbortHandler)
			},
		} {
			c.SetScript("tools/call", answer)
			if a, _ := c.tool(1); a.Status != http.StatusBadGateway || a.ErrorCode() != -32603 {
				t.Errorf("%s that breaks off gave %s", name, a)
			}
		}
	})
}

// TestToolkitSessionLostInOtherWords: whatever a server says to a session that it does not know, another is opened at
// once. The call that has found that out is made once more where the server cannot have done it.
func TestToolkitSessionLostInOtherWords(t *testing.T) {
	for name, tt := range map[string]struct {
		refuse scripted.Script
		again  bool
	}{
		"403": {func(x *scripted.Exchange) { x.Raw(403, "text/plain", "no session") }, true},
		"404 and a page": {func(x *scripted.Exchange) {
			x.Raw(404, "text/html", "<html>"+strings.Repeat(" no session", 1000))
		}, true},
		"410":            {func(x *scripted.Exchange) { x.Raw(410, "text/plain", "no session") }, true},
		"422":            {func(x *scripted.Exchange) { x.Raw(422, "text/plain", "expect initialize request") }, true},
		"500":            {func(x *scripted.Exchange) { x.Raw(500, "text/plain", "no session") }, false},
		"503":            {func(x *scripted.Exchange) { x.Raw(503, "text/plain", "no session") }, false},
		"503 and -32001": {func(x *scripted.Exchange) { x.Error(503, -32001, "no session") }, true},
		"200 and -32600": {func(x *scripted.Exchange) { x.Error(200, -32600, "no session") }, true},
		"200 and -32000": {func(x *scripted.Exchange) { x.Error(200, -32000, "no session") }, false},
		"an event": {func(x *scripted.Exchange) {
			x.Event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"no session"}}`, x.ID))
		}, false},
	} {
		for _, lost := range []string{"reopen", "end"} {
			ofEachEra(t, name+", "+lost, func(t *testing.T, c *toolUser) {
				ends := lost == "end"
				c.refuse = tt.refuse
				c.answers(func(x *scripted.Exchange) { x.Result(`{"content":[]}`) })
				c.SetScript("ping", func(x *scripted.Exchange) {
					if c.Lives(x.Session) {
						x.Default()
					} else {
						tt.refuse(x)
					}
				})
				if a, ok := c.tool(1); !ok {
					t.Fatalf("the first call gave %s", a)
				}
				c.ForgetSessions()
				a, ok := c.tool(2)
				if ok != (tt.again && !ends) {
					t.Errorf("the call in a lost session gave %s", a)
				}
				sessions := 2
				if a, ok = c.tool(3); ends && !c.Modern() {
					ok, sessions = a.Status == http.StatusNotFound, 1
				}
				if !ok {
					t.Errorf("the next call gave %s", a)
				}
				if c.sessions() != sessions || c.done[2] > 1 || c.done[3] > 1 {
					t.Errorf("there were %d sessions, and calls were done %v times", c.sessions(), c.done)
				}
			}, "session_lost "+lost)
		}
	}
}
