package toolkit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
)

// TestMessagesThatAreForNobody: a client is given, within an answer, its own progress and response alone. It is not given
// requests of servers, changes, cancellations, or what is of other requests.
func TestMessagesThatAreForNobody(t *testing.T) {
	left := streams(
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":8,"progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"7","progress":1}}`,
		`{"jsonrpc":"2.0","id":"r","method":"sampling/createMessage","params":{}}`,
		`{"jsonrpc":"2.0","id":null,"method":"roots/list"}`, `{"jsonrpc":"2.0","method":"roots/list"}`,
		`{"jsonrpc":"2.0","id":"another","result":{}}`, `{"jsonrpc":"2.0","id":"another","error":{"code":1,"message":"x"}}`,
		aProgress, aResult,
	)
	eachPair(t, func(w *world, c *caller, m *member) {
		m.On("tools/call", left)
		a := c.send(c.calling("one__tools_a"))
		if got := a.announced(); !slices.Equal(got, []string{"notifications/progress"}) || len(a.messages()) != 2 ||
			string(a.response().ID) != fmt.Sprint(c.sent) || !strings.Contains(a.Body.String(), `"progressToken":7,`) {
			w.Errorf("a client is given %s", a)
		}
	})
}

// TestRequestsOfServersAreAnswered: a legacy server that asks something within an answer is told at once that nobody offers
// that, in its session and with the credential of the caller. A ping is answered.
func TestRequestsOfServersAreAnswered(t *testing.T) {
	run(t, func(w *world) {
		m := w.members[0]
		m.On("tools/call", streams(
			`{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{}}`, `{"jsonrpc":"2.0","id":5,"method":"ping"}`,
			`{"jsonrpc":"2.0","id":null,"method":"roots/list"}`, aResult))
		w.eachEra(func(c *caller) {
			m.Do(func() { m.Posted = nil })
			c.call("one__tools_a").want(w, "a call", http.StatusOK, 0)
			w.after(time.Second)
			answers := make(map[string]string)
			m.Do(func() {
				for _, p := range m.Posted {
					answers[string(p.ID)] = string(p.Error) + string(p.Result)
					if p.Header.Get("Authorization") != "Bearer a" || p.Header.Get("Mcp-Session-Id") == "" {
						w.Errorf("the server is answered with the header %q", p.Header)
					}
				}
			})
			if len(answers) != 2 || !strings.Contains(answers[`"s"`], "-32601") || answers["5"] != "{}" {
				w.Errorf("for a client of %s the server is answered %q", c.at, answers)
			}
		}, "Authorization", "Bearer a")
	}, serves("one", legacy).personal())
}

// TestErrorsWithoutTheRequestsID: a client is given an error that is the whole answer of a server, by whatever id, as the
// answer to its request. Nothing else by another id is given.
func TestErrorsWithoutTheRequestsID(t *testing.T) {
	for _, id := range []string{`"server-error"`, `99`, `null`} {
		eachPairNamed(t, id, func(w *world, c *caller, m *member) {
			m.On("tools/call", replies(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":1,"message":"no"}}`))
			a := c.call("one__tools_a")
			if got := string(a.response().ID); a.code() != 1 || got != fmt.Sprint(c.sent) && id != `null` {
				w.Errorf("request %d is answered %s", c.sent, a)
			}
			m.On("tools/call", streams(`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}`))
			if a := c.call("one__tools_a"); a.code() != 1 {
				w.Errorf("within a stream an error without an id is given as %s", a)
			}
			m.On("tools/call", streams(`{"jsonrpc":"2.0","id":"server-error","error":{"code":1,"message":"no"}}`, aResult))
			if a := c.call("one__tools_a"); len(a.messages()) != 1 || a.code() != 0 {
				w.Errorf("within a stream a client is given %s", a)
			}
		})
	}
}

// TestUpdatesOfHiddenResources: a client is not told within an answer that a resource has changed which rules hide from it.
// A notice that parsers may read differently is for nobody.
func TestUpdatesOfHiddenResources(t *testing.T) {
	updated := func(params string) string {
		return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{` + params + `}}`
	}
	eachPairWith(t, "rules", setup{rules: []string{"deny resources one://secret*"}}, func(w *world, c *caller, m *member) {
		m.On("tools/call", streams(updated(`"uri":"one://resources_a"`), updated(`"uri":"one://secret"`), updated(`"uri":"one://resources_a","uri":"one://secret"`), aResult))
		a, want := c.call("one__tools_a"), 1
		if c.at == modern && m.Speaks[0] == legacy.String() {
			want = 0 // it has not asked for such
		}
		if got := len(a.announced()); got != want || strings.Contains(a.Body.String(), "secret") || a.code() != 0 {
			w.Errorf("a client is given %s, want %d notices", a, want)
		}
	})
}

// TestReadsThatRulesTellApart: a modern client is told not to share what it has read where rules hide resources from some
// callers, whatever the server says.
func TestReadsThatRulesTellApart(t *testing.T) {
	for name, tt := range map[string]struct {
		rules []string
		want  string
	}{
		"of some":   {[]string{"deny X-Guest resources one://secret*"}, "private"},
		"of nobody": {[]string{"deny tools x"}, "public"},
	} {
		for _, media := range []string{"application/json", "text/event-stream"} {
			t.Run(name+", "+media, func(t *testing.T) {
				runWith(t, setup{rules: tt.rules}, func(w *world) {
					c, m := w.calls(modern), w.members[0]
					for scope, want := range map[string]string{`"cacheScope":"public",`: tt.want, ``: map[bool]string{true: tt.want}[tt.want == "private"]} {
						for _, length := range []int{0, 100_000} { // a long answer is passed on as it comes elsewhere
							contents := fmt.Sprintf(`"contents":[{"uri":"one://resources_a","text":%q}]`, strings.Repeat("x", length))
							m.On("resources/read", inOneOf(media, `{"jsonrpc":"2.0","id":<id>,"result":{"resultType":"complete",`+scope+contents+`}}`))
							a := c.ask("resources/read", `"uri":"one://resources_a"`)
							a.want(w, "a read", http.StatusOK, 0)
							var read struct{ CacheScope string }
							if err := json.Unmarshal(a.response().Result, &read); err != nil || read.CacheScope != want {
								w.Errorf("a read of %d bytes with %q says %q, want %q", length, scope, read.CacheScope, want)
							}
						}
					}
				}, serves("one", modern))
			})
		}
	}
}

// TestFloodsOfRequestsAreBorne: a client is given its result though the server asks for more than is answered.
func TestFloodsOfRequestsAreBorne(t *testing.T) {
	run(t, func(w *world) {
		var all []string
		for n := range 1000 {
			all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, n))
		}
		m := w.members[0]
		m.On("", clienttest.Hang)
		m.On("tools/call", streams(append(all, aResult)...))
		w.eachEra(func(c *caller) {
			if a := c.call("one__tools_a"); len(a.messages()) != 1 || a.code() != 0 || a.Code != http.StatusOK {
				w.Errorf("a client is given %s", a)
			}
		})
		w.calls(legacy).send(w.calls(legacy).request(http.MethodDelete, "/mcp", "")).want(w, "the end", http.StatusNoContent, 0)
		m.On("", nil)
	}, serves("one", legacy))
}
