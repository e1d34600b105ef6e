package toolkit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// bridges runs a test for a client of each era whose server is of the other one.
func bridges(t *testing.T, name string, with setup, test func(w *world, c *caller, m *member), change ...func(m *member)) {
	t.Helper()
	for _, client := range []revision.Revision{legacy, modern} {
		t.Run(fmt.Sprintf("%s, a client of %s", name, client), func(t *testing.T) {
			m := serves("one", otherOf(client))
			for _, f := range change {
				f(m)
			}
			runWith(t, with, func(w *world) { test(w, w.calls(client), m) }, m)
		})
	}
}

// TestArgumentsAreMirrored: a modern server is sent the headers that its tool demands of the arguments, also by a legacy
// client, whose own headers do not count. A legacy server is sent none of the kind.
func TestArgumentsAreMirrored(t *testing.T) {
	const schema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}`
	bridges(t, "a call", setup{}, func(w *world, c *caller, m *member) {
		for name, want := range map[string][]string{"one__tools_a": {"eu"}, "one__plain": {"us"}, "one__missing": {"us"}} {
			c.ask("tools/call", fmt.Sprintf(`"name":%q,"arguments":{"region":"eu"}`, name), "Mcp-Param-Region", "us", "Accept", "*/*").wantOf(w, "one")
			got := m.last(t, "tools/call").Header
			if c.at == modern {
				want = nil
			}
			if !slices.Equal(got["Mcp-Param-Region"], want) || got["Mcp-Param-N"] != nil {
				w.Errorf("for %s the server is sent %q and %q, want %q", name, got["Mcp-Param-Region"], got["Mcp-Param-N"], want)
			}
			if accept := got.Get("Accept"); accept != "application/json, text/event-stream" {
				w.Errorf("the server is asked for %q", accept)
			}
			if own := strings.TrimPrefix(name, "one__"); c.at == legacy && (got.Get("Mcp-Method") != "tools/call" || got.Get("Mcp-Name") != own) {
				w.Errorf("for %s the server is sent %q", name, got)
			}
		}
	}, func(m *member) {
		m.On("tools/list", clienttest.Gives(`{"tools":[{"name":"plain"},{"name":"tools_a","inputSchema":`+schema+`}],`+m.Hints+`}`))
	})
}

// TestStatusesOfBothEras: a client is given an error of a server of the other era with the status and the code that its own
// era has for the error. A result has the status 200.
func TestStatusesOfBothEras(t *testing.T) {
	type want struct{ status, code int }
	for name, tt := range map[string]struct {
		status         int
		body           string
		legacy, modern want
	}{
		"arguments, and 200":   {200, anError(-32602), want{200, -32602}, want{400, -32602}},
		"arguments, and 400":   {400, anError(-32602), want{200, -32602}, want{400, -32602}},
		"no method, and 200":   {200, anError(-32601), want{200, -32601}, want{404, -32601}},
		"no method, and 404":   {404, anError(-32601), want{200, -32601}, want{404, -32601}},
		"no resource, and 200": {200, anError(-32002), want{200, -32002}, want{400, -32602}},
		"its own, and 200":     {200, anError(-32099), want{200, -32099}, want{200, -32099}},
		"its own, and 400":     {400, anError(-32099), want{200, -32099}, want{400, -32099}},
		"its own, and 404":     {404, anError(-32099), want{200, -32099}, want{200, -32099}},
		"its own, and 500":     {500, anError(-32099), want{500, -32099}, want{500, -32099}},
		"arguments, and 500":   {500, anError(-32602), want{500, -32602}, want{500, -32602}},
		"a result, and 400":    {400, aResult, want{200, 0}, want{200, 0}},
		"a result":             {200, aResult, want{200, 0}, want{200, 0}},
	} {
		bridges(t, name, setup{}, func(w *world, c *caller, m *member) {
			m.On("resources/read", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
				w.Header().Set("Content-Length", "1000") // of what the client is not given
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tt.status)
				_ = http.NewResponseController(w).Flush()
				_, err := w.Write([]byte(strings.ReplaceAll(tt.body, "<id>", string(c.ID))))
				return err
			})
			a, want := c.ask("resources/read", `"uri":"one://resources_a"`), tt.legacy
			if c.at == modern {
				want = tt.modern
			}
			a.want(w, name, want.status, want.code)
			if length := a.Header().Get("Content-Length"); length != fmt.Sprint(a.Body.Len()) || string(a.response().ID) != fmt.Sprint(c.sent) {
				w.Errorf("request %d gave %s, whose length is said to be %s", c.sent, a, length)
			}
			if failure := a.response().Error; failure != nil && (failure.Message != "no" || string(failure.Data) != "[1]") {
				w.Errorf("the server's error became %s", a)
			}
		})
	}
}

// TestResultsOfBothEras: a client is given a result as its own era has it. A modern client is told not to keep what it
// has read from a legacy server. A legacy client is told that a modern server wants more than it can give.
func TestResultsOfBothEras(t *testing.T) {
	for name, tt := range map[string]struct{ result, legacy, modern string }{
		"complete": {`{"resultType":"complete","contents":[]}`, `{"resultType":"complete","contents":[]}`, `{"contents":[],"resultType":"complete","cacheScope":"private","ttlMs":0}`},
		"untyped":  {`{"contents":[],"ttlMs":5}`, `{"contents":[],"ttlMs":5}`, `{"contents":[],"ttlMs":0,"resultType":"complete","cacheScope":"private"}`},
		"asking":   {`{"resultType":"input_required"}`, `the server asks for what a client of this revision cannot give: input_required`, `{"resultType":"complete","cacheScope":"private","ttlMs":0}`},
	} {
		for _, media := range []string{"application/json", "text/event-stream"} {
			bridges(t, name+", "+media, setup{}, func(w *world, c *caller, m *member) {
				m.On("resources/read", inOneOf(media, `{"jsonrpc":"2.0","id":<id>,"result":`+tt.result+`}`))
				a, want := c.ask("resources/read", `"uri":"one://resources_a"`), tt.legacy
				if c.at == modern {
					want = tt.modern
				}
				if got := a.says(); got != "" && got != want || got == "" && !sameJSON(a.response().Result, []byte(want)) {
					w.Errorf("a client of %s is given %s, want %s", c.at, a, want)
				}
				if string(a.response().ID) != fmt.Sprint(c.sent) || a.Header().Get("Content-Type") != media {
					w.Errorf("request %d gave %s of type %q", c.sent, a, a.Header()["Content-Type"])
				}
			})
		}
	}
}

// inOneOf answers with a message, as JSON or as an event stream.
func inOneOf(media, body string) clienttest.Script {
	if media == "text/event-stream" {
		return streams(body)
	}
	return replies(http.StatusOK, media, body)
}

// sameJSON reports whether two texts have the same members.
func sameJSON(a, b []byte) bool {
	var one, other map[string]any
	return json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &other) == nil && fmt.Sprint(one) == fmt.Sprint(other)
}

// TestMessagesOfBothEras: a client is given those messages of a stream that its own era has in one, up to the response.
// A modern client is given log messages if it has asked for them. No client is given what cannot be read.
func TestMessagesOfBothEras(t *testing.T) {
	logged := func(level string) string {
		return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `","data":"x"}}`
	}
	stream := streams(
		logged("info"), aProgress, "no JSON", `{"jsonrpc":"2.0","id":"another","result":{}}`, `{"jsonrpc":"2.0","method":"notifications/other"}`,
		logged("error"), aResult, aProgress, aResult,
	)
	bridges(t, "a stream", setup{}, func(w *world, c *caller, m *member) {
		m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(": here\n\n"))
			return stream(w, r, c)
		})
		a := c.send(c.calling("one__tools_a"))
		got, want := a.announced(), []string{"notifications/message", "notifications/progress", "notifications/other", "notifications/message"}
		if c.at == modern {
			want = []string{"notifications/progress"}
		}
		if !slices.Equal(got, want) || len(a.messages()) != len(want)+1 || a.code() != 0 || !strings.HasPrefix(a.Body.String(), ":\n\n") {
			w.Errorf("a client of %s is given %s, want %q and a result", c.at, a, want)
		}
		if c.at == legacy {
			return
		}
		body := strings.Replace(c.message("tools/call", `"name":"one__tools_a"`), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"warning",`, 1)
		a = c.post(body, "Mcp-Method", "tools/call", "Mcp-Name", "one__tools_a")
		if got := a.announced(); !slices.Equal(got, []string{"notifications/message"}) || !strings.Contains(a.Body.String(), `"error"`) {
			w.Errorf("a client that has asked for warnings is given %s", a)
		}
	})
}

// TestAnswersThatEndEarly: a client whose server, of the other era, ends an answer before the response is told so.
func TestAnswersThatEndEarly(t *testing.T) {
	for name, tt := range map[string]struct {
		answer clienttest.Script
		status int
		says   string
	}{
		"a stream":               {streams(aProgress), 200, `the MCP server "one" ended its answer before the result`},
		"an empty stream":        {streams(), 200, `the MCP server "one" ended its answer before the result`},
		"JSON":                   {replies(200, "application/json", `{"jsonrpc":"2.0","id":<id>,"res`), 502, `the MCP server "one" gave no answer that could be understood`},
		"nothing":                {replies(200, "application/json", ``), 502, `the MCP server "one" gave no answer that could be understood`},
		"no message, and 400":    {replies(400, "application/json", `{"error":"x"}`), 502, `the MCP server "one" answered with HTTP status 400`},
		"no message, and 503":    {replies(503, "application/json", `{"error":"x"}`), 503, `the MCP server "one" answered with HTTP status 503`},
		"another's error in one": {streams(`{"jsonrpc":"2.0","id":"another","error":{"code":1,"message":"x"}}`), 200, `the MCP server "one" ended its answer before the result`},
	} {
		bridges(t, name, setup{}, func(w *world, c *caller, m *member) {
			m.On("tools/call", tt.answer)
			a := c.call("one__tools_a")
			a.want(w, name, tt.status, -32603)
			if wantSaid(w, a, tt.says); string(a.response().ID) != fmt.Sprint(c.sent) {
				w.Errorf("request %d gave %s", c.sent, a)
			}
		})
	}
}

// TestAnswersThatAreTooLarge: a client is told that an answer of a server of the other era is larger than max_list, or than
// there is memory left.
func TestAnswersThatAreTooLarge(t *testing.T) {
	const says = `the answer of the MCP server "one", which speaks another revision than the client, is larger than max_list, or than there is memory left for such answers`
	limited := func(s *Settings) { s.Limits.List = 10_000 }
	scarce := func(s *Settings) { s.Memory = 256 << 10 }
	for name, tt := range map[string]struct {
		settings func(s *Settings)
		size     int
		length   string
		fails    bool
	}{
		"more than max_list":             {limited, 10_000, "", true},
		"more than max_list, as is said": {limited, 10_000, "10100", true},
		"less than max_list":             {limited, 9_000, "", false},
		"little, said to be much":        {limited, 100, "4000000000", false},
		"more than the memory":           {scarce, 140_000, "", true},
		"more than the memory, so said":  {scarce, 140_000, "140100", true},
		"less than the memory":           {scarce, 1_000, "", false},
	} {
		for media, status := range map[string]int{"application/json": http.StatusBadGateway, "text/event-stream": http.StatusOK} {
			bridges(t, name+", "+media, setup{settings: tt.settings}, func(w *world, c *caller, m *member) {
				m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
					if tt.length != "" {
						w.Header().Set("Content-Length", tt.length)
					}
					return inOneOf(media, strings.Replace(aResult, "<b>", strings.Repeat("x", tt.size), 1))(w, r, c)
				})
				a := c.call("one__tools_a")
				if length := a.Header().Get("Content-Length"); length != "" && length != fmt.Sprint(a.Body.Len()) {
					w.Errorf("a client is told of %s bytes and given %d", length, a.Body.Len())
				}
				if !tt.fails {
					a.want(w, name, http.StatusOK, 0)
					return
				}
				a.want(w, name, status, -32603)
				if wantSaid(w, a, says); len(a.messages()) != 1 || string(a.response().ID) != fmt.Sprint(c.sent) {
					w.Errorf("request %d gave %s", c.sent, a)
				}
			})
		}
	}
}

// TestAnswersGiveTheirMemoryBack: the memory for answers is there for the next ones, however the answers before have ended.
func TestAnswersGiveTheirMemoryBack(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, body := range map[string]string{
		"a result":   strings.Replace(aResult, "<b>", long, 1),
		"an error":   `{"jsonrpc":"2.0","id":<id>,"error":{"code":1,"message":"` + long + `"}}`,
		"no message": `{"x":"` + long,
	} {
		for _, media := range []string{"application/json", "text/event-stream"} {
			eachPairWith(t, name+", "+media, setup{settings: func(s *Settings) { s.Memory = 1 << 20 }}, func(w *world, c *caller, m *member) {
				for n := range 20 {
					m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
						err := inOneOf(media, body)(w, r, c)
						if n%2 == 0 {
							panic(http.ErrAbortHandler)
						}
						return err
					})
					c.call("one__tools_a")
				}
				m.On("tools/call", inOneOf(media, strings.Replace(aResult, `"id"`, `"method":null,"x":"`+long+`","id"`, 1))) // which is held back
				c.call("one__tools_a").want(w, "a call after many", http.StatusOK, 0)
			})
		}
	}
}
