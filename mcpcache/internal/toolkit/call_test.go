package toolkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestServersAreAskedInTheirOwnNames: a server of each era is sent a request with its own name for the item. Everything
// else is as the client wrote it.
func TestServersAreAskedInTheirOwnNames(t *testing.T) {
	asked := map[string]struct{ method, params, want string }{
		"a tool":     {"tools/call", `"name":"one__tools_a","arguments":{"n":1.0e+00,"name":"one__x"}`, `"name":"tools_a","arguments":{"n":1.0e+00,"name":"one__x"}`},
		"a prompt":   {"prompts/get", `"name":"one__prompts_a"`, `"name":"prompts_a"`},
		"a resource": {"resources/read", `"uri":"one://resources_a"`, `"uri":"one://resources_a"`},
		"a completion of a prompt": {
			"completion/complete", `"ref":{"type":"ref/prompt","name":"one__prompts_a"},"argument":{"name":"one__x","value":"y"}`,
			`"ref":{"type":"ref/prompt","name":"prompts_a"},"argument":{"name":"one__x","value":"y"}`,
		},
		"a completion of a URI": {
			"completion/complete", `"ref":{"type":"ref/resource","uri":"one://templates_a"},"argument":{"name":"x","value":"y"}`,
			`"ref":{"type":"ref/resource","uri":"one://templates_a"},"argument":{"name":"x","value":"y"}`,
		},
	}
	eachPair(t, func(w *world, c *caller, m *member) {
		m.Set(revision.ResourceTemplates, "one://templates_a")
		m.Notify("notifications/resources/list_changed")
		w.after(time.Second)
		sent := m.records()
		for name, a := range asked {
			c.ask(a.method, a.params).want(w, name, http.StatusOK, 0)
			got := sent.last(w, a.method)
			if !strings.Contains(got.body, a.want) || !strings.Contains(got.body, fmt.Sprintf(`"method":%q`, a.method)) {
				w.Errorf("for %s the server was sent %s, want in it %s", name, got.body, a.want)
			}
			if length := got.Header.Get("Content-Length"); length != fmt.Sprint(len(got.body)) || got.ContentLength != int64(len(got.body)) {
				w.Errorf("%s has %d bytes, and the server was told of %s and %d", name, len(got.body), length, got.ContentLength)
			}
		}
	})
}

// TestServersAreAskedAtTheirAddress: a server is sent requests at its own path and Host. A query of the client's,
// which may hold a credential, does not reach it.
func TestServersAreAskedAtTheirAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(m *member)
		path, host string
	}{
		"its URL":      {func(m *member) { m.of.URL = "http://one.test:8080/deep/one" }, "/deep/one", "one.test:8080"},
		"another Host": {func(m *member) { m.of.Host = "inside.test" }, "/mcp", "inside.test"},
	} {
		eachPairNamed(t, name, func(w *world, c *caller, m *member) {
			sent := m.records()
			body, header := c.message("tools/call", `"name":"one__tools_a","arguments":{}`), []string(nil)
			if c.at == modern {
				header = []string{"Mcp-Method", "tools/call", "Mcp-Name", "one__tools_a"}
			}
			c.send(c.request(http.MethodPost, "/mcp?token=secret", body, header...)).wantOf(w, "one")
			got := sent.last(w, "tools/call")
			if got.URL.String() != tt.path || got.RequestURI != tt.path || got.Host != tt.host || got.Method != http.MethodPost {
				w.Errorf("the server was sent %s %s (%s) at %s, want %s at %s", got.Method, got.URL, got.RequestURI, got.Host, tt.path, tt.host)
			}
		}, tt.change)
	}
}

// TestHeadersNameWhatTheMessageNames: a server of the modern era is sent the headers that its message demands. No
// server is sent headers in which a client names something else than in the message.
func TestHeadersNameWhatTheMessageNames(t *testing.T) {
	const own, named = "añb", "one__añb"
	eachPair(t, func(w *world, c *caller, m *member) {
		w.changes(m, revision.Tools, own)
		w.after(time.Second)
		name, method := message.EncodeHeader(named), "tools/call"
		if c.at == legacy {
			name, method = "one__other", "prompts/get" // of which nobody has checked anything
		}
		c.ask("tools/call", fmt.Sprintf(`"name":%q,"arguments":{}`, named), "Mcp-Name", name, "Mcp-Method", method).wantOf(w, "one")
		got := m.last(t, "tools/call").Header
		want := http.Header{"Mcp-Name": {message.EncodeHeader(own)}, "Mcp-Method": {"tools/call"}}
		if c.at == modern && m.Speaks[0] == legacy.String() {
			want = http.Header{"Mcp-Name": nil, "Mcp-Method": nil} // headers of the modern era alone
		}
		for field, values := range want {
			if !slices.Equal(got[field], values) {
				w.Errorf("the server was sent %s: %q, want %q", field, got[field], values)
			}
		}
		if got.Get("Mcp-Protocol-Version") != m.Speaks[0] {
			w.Errorf("a server of %s was sent a request of %q", m.Speaks[0], got["Mcp-Protocol-Version"])
		}
	})
}

// TestServersThatDoNotAnswer: a client whose server gives no answer is told which server that is, and why. The log has
// the beginning of that once, and the end.
func TestServersThatDoNotAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		status int
		says   string
	}{
		"no connection":      {clienttest.ErrRefused, http.StatusBadGateway, "cannot be reached"},
		"no upstream":        {caddyhttp.Error(http.StatusServiceUnavailable, errors.New("none")), http.StatusServiceUnavailable, "cannot be reached"},
		"an error of a 4xx":  {caddyhttp.Error(http.StatusBadRequest, errors.New("none")), http.StatusBadGateway, "cannot be reached"},
		"too late":           {caddyhttp.Error(http.StatusGatewayTimeout, errors.New("late")), http.StatusGatewayTimeout, "did not answer in time"},
		"too late by itself": {fmt.Errorf("reading: %w", context.DeadlineExceeded), http.StatusGatewayTimeout, "did not answer in time"},
		"anything else":      {errors.New("secret"), http.StatusBadGateway, "does not answer as it should"},
	} {
		eachPairNamed(t, name, func(w *world, c *caller, m *member) {
			m.On("tools/call", func(http.ResponseWriter, *http.Request, clienttest.Call) error { return tt.err })
			for range 2 {
				a := c.call("one__tools_a")
				a.want(w, name, tt.status, -32603)
				if want := `the MCP server "one" ` + tt.says; a.says() != want {
					w.Errorf("the client is told %q, want %q", a.says(), want)
				}
			}
			if n := len(m.asked("tools/call")); n != 2 {
				w.Errorf("two calls were sent %d times", n)
			}
			w.wantLogged("server did not answer: one")
			m.On("tools/call", echoes(m))
			c.call("one__tools_a").wantOf(w, "one")
			if again := w.logs.FilterMessage("server answers again").Len(); again != 1 {
				w.Errorf("the log has %d times that the server answers again", again)
			}
		})
	}
}

// TestServersThatBreakOff: a client whose server breaks off an answer has its own connection broken off, so that it does
// not take the answer for whole. Where the answer is read first, the client is told so.
func TestServersThatBreakOff(t *testing.T) {
	const begun = `{"jsonrpc":"2.0","id":<id>,"error":{"code":1,"mess`
	for name, media := range map[string]string{"JSON": "application/json", "a stream": "text/event-stream"} {
		eachPairNamed(t, name, func(w *world, c *caller, m *member) {
			m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
				_ = replies(http.StatusOK, media, begun)(w, r, c)
				panic(http.ErrAbortHandler)
			})
			a, isBridged, isJSON := c.call("one__tools_a"), c.at.String() != m.Speaks[0], media == "application/json"
			switch {
			case m.Speaks[0] == legacy.String() && isJSON: // it could say that the session is lost
				a.want(w, name, http.StatusBadGateway, -32603)
				wantSaid(w, a, `the MCP server "one" broke off its answer`)
			case !isBridged:
				if !a.aborted || a.code() != 0 {
					w.Errorf("a client is answered with %s, want a broken connection", a)
				}
			case isJSON:
				a.want(w, name, http.StatusBadGateway, -32603)
				wantSaid(w, a, `the MCP server "one" gave no answer that could be understood`)
			default:
				a.want(w, name, http.StatusOK, -32603)
				wantSaid(w, a, `the MCP server "one" ended its answer before the result`)
			}
		})
	}
}

// TestPanicsAreNotHidden: a panic on the way to a server, which is a mistake of a module, reaches Caddy.
func TestPanicsAreNotHidden(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		m.On("tools/call", func(http.ResponseWriter, *http.Request, clienttest.Call) error { panic("a mistake") })
		defer func() {
			if p := recover(); p != "a mistake" {
				w.Errorf("the panic became %v", p)
			}
		}()
		w.Errorf("the client is answered with %s", c.call("one__tools_a"))
	})
}

// TestClientsThatGoAwayAreToldNothing: a server whose client goes away is asked no more, and the log says nothing of it.
func TestClientsThatGoAwayAreToldNothing(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		gone := false
		m.On("tools/call", func(w http.ResponseWriter, r *http.Request, call clienttest.Call) error {
			err := clienttest.Hang(w, r, call)
			gone = true
			return err
		})
		a, leave := c.begin(c.calling("one__tools_a"))
		if a.isOver() {
			w.Fatalf("the client is answered with %s", a)
		}
		if leave(); !gone || !a.isOver() || a.Body.Len() > 0 {
			w.Errorf("the server was told %v, and the client %s", gone, a)
		}
		w.wantLogged()
	})
}

// TestAnswersBrokenOffForNobody: a client that goes away while its server's answer is held back is sent nothing, also if
// that answer then breaks off.
func TestAnswersBrokenOffForNobody(t *testing.T) {
	run(t, func(w *world) {
		w.eachEra(func(c *caller) {
			w.members[0].On("tools/call", func(w http.ResponseWriter, r *http.Request, call clienttest.Call) error {
				_ = replies(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":<id>,"err`)(w, r, call)
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			})
			a, leave := c.begin(c.calling("one__tools_a"))
			if leave(); !a.isOver() || a.aborted || a.Body.Len() > 0 {
				w.Errorf("a client of %s has been sent %s", c.at, a)
			}
		})
	}, serves("one", legacy))
}

// TestCallsMayChangeLists: after a call of a tool, a server that announces nothing is asked for its lists anew, as the
// call may have changed them. A tool that only reads, and a prompt, change nothing.
func TestCallsMayChangeLists(t *testing.T) {
	for name, tt := range map[string]struct {
		method, params string
		quiet, anew    bool
	}{
		"a tool":               {"tools/call", `"name":"one__tools_a","arguments":{}`, true, true},
		"a tool that reads":    {"tools/call", `"name":"one__reads","arguments":{}`, true, false},
		"a prompt":             {"prompts/get", `"name":"one__prompts_a"`, true, false},
		"a server that speaks": {"tools/call", `"name":"one__tools_a","arguments":{}`, false, false},
	} {
		eachPairNamed(t, name, func(w *world, c *caller, m *member) {
			if !tt.quiet {
				w.changes(m, revision.Prompts, "prompts_a")
				w.changes(m, revision.Tools, "tools_a")
			}
			w.after(time.Minute)
			c.list(revision.Tools)
			c.list(revision.Prompts)
			before := m.Count("tools/list") + m.Count("prompts/list")
			c.ask(tt.method, tt.params)
			w.after(time.Minute)
			if got := m.Count("tools/list") + m.Count("prompts/list") - before; got == 2 != tt.anew || got != 0 && !tt.anew {
				w.Errorf("the server was asked %d times for its tools and prompts; want that twice: %v", got, tt.anew)
			}
		}, func(m *member) {
			m.Quiet = tt.quiet
			if tt.quiet {
				m.On("tools/list", clienttest.Gives(`{"tools":[{"name":"tools_a"},{"name":"reads","annotations":{"readOnlyHint":true}}],`+m.Hints+`}`))
			}
		})
	}
}

// TestRefusedCallsHaveToolsFetched: a server that refuses a call because of its arguments or headers is asked for its
// tools anew, as the client may have known others. Both the endpoint's lists and those who watch the server hear of it.
func TestRefusedCallsHaveToolsFetched(t *testing.T) {
	for name, tt := range map[string]struct {
		code int
		anew bool
	}{"its arguments": {-32602, true}, "its headers": {-32020, true}, "anything else": {-32000, false}} {
		eachPairNamed(t, name, func(w *world, c *caller, m *member) {
			w.changes(m, revision.Tools, "tools_a")
			w.after(time.Minute)
			c.list(revision.Tools)
			before := m.Count("tools/list")
			m.observed.noticed = 0
			m.On("tools/call", clienttest.Failure(http.StatusOK, tt.code, ""))
			c.call("one__tools_a")
			w.after(time.Minute)
			if anew := m.Count("tools/list") > before; anew != tt.anew || m.observed.noticed.Has(revision.Tools) != tt.anew {
				w.Errorf("tools are fetched anew: %v, noticed %v, want %v", anew, m.observed.noticed, tt.anew)
			}
		})
	}
}

// TestServersThatMaySpeakNothingModernAreAsked: a modern server that refuses a call as older servers do is asked soon
// whether it is modern still.
func TestServersThatMaySpeakNothingModernAreAsked(t *testing.T) {
	call := [2]string{"tools/call", `"name":"one__tools_a","arguments":{}`}
	completion := [2]string{"completion/complete", `"ref":{"type":"ref/prompt","name":"one__prompts_a"},"argument":{"name":"x","value":"y"}`}
	for name, tt := range map[string]struct {
		ask    [2]string
		answer clienttest.Script
		anew   bool
	}{
		"a 400":                   {call, clienttest.Status(http.StatusBadRequest), true},
		"a 404":                   {call, clienttest.Status(http.StatusNotFound), true},
		"a 405":                   {call, clienttest.Status(http.StatusMethodNotAllowed), true},
		"no session":              {call, clienttest.Failure(http.StatusBadRequest, -32000, ""), true},
		"no such method":          {call, clienttest.Failure(http.StatusOK, -32601, ""), true},
		"no completion":           {completion, clienttest.Failure(http.StatusNotFound, -32601, ""), false},
		"a 400 of a completion":   {completion, clienttest.Status(http.StatusBadRequest), true},
		"arguments":               {call, clienttest.Failure(http.StatusBadRequest, -32602, ""), false},
		"headers":                 {call, clienttest.Failure(http.StatusBadRequest, -32020, ""), false},
		"a missing capability":    {call, clienttest.Failure(http.StatusBadRequest, -32021, ""), false},
		"an error of its own":     {call, clienttest.Failure(http.StatusBadRequest, -32603, ""), false},
		"a 500":                   {call, clienttest.Status(http.StatusInternalServerError), false},
		"an error in its answers": {call, clienttest.Failure(http.StatusOK, -32000, ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.eachEra(func(c *caller) {
					m := w.members[0]
					w.after(time.Minute)
					before := m.Count("server/discover") + m.Count("prompts/list")
					m.On(tt.ask[0], tt.answer)
					c.ask(tt.ask[0], tt.ask[1])
					w.after(30 * time.Second)
					if anew := m.Count("server/discover")+m.Count("prompts/list") > before; anew != tt.anew {
						w.Errorf("a client of %s: the server is asked anew: %v, want %v", c.at, anew, tt.anew)
					}
				})
			}, serves("one", modern).with(func(m *member) {
				m.On("tools/list", clienttest.Gives(`{"tools":[{"name":"tools_a","annotations":{"readOnlyHint":true}}],`+m.Hints+`}`))
			}))
		})
	}
}

// TestCallsAreObserved: those who watch an endpoint and a server are told of a call, by the outcome, the server and the
// tool as the client calls it.
func TestCallsAreObserved(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		for name, answer := range map[string]clienttest.Script{"answered": nil, "refused": clienttest.Refuse} {
			if answer != nil {
				m.On("tools/call", answer)
			}
			a := c.call("one__tools_a")
			if want := "fwd=bypass; detail=routed"; a.status() != want {
				w.Errorf("a call that is %s has the status %q, want %q", name, a.status(), want)
			}
			for _, o := range []*observed{w.observed, &m.observed} {
				i := len(o.outcomes) - 1
				if i < 0 || o.outcomes[i] != outcome.Routed || o.servers[i] != "one" || o.tools[i] != "one__tools_a" {
					w.Errorf("of a call that is %s is told %+v", name, o)
				}
			}
		}
	})
}

// eachPair runs a test for a client and a server of each era. The server, which has the name one, is changed before
// the endpoint is made.
func eachPair(t *testing.T, test func(w *world, c *caller, m *member), change ...func(m *member)) {
	t.Helper()
	eachPairNamed(t, "", test, change...)
}

// eachPairNamed is eachPair for one case of a table.
func eachPairNamed(t *testing.T, name string, test func(w *world, c *caller, m *member), change ...func(m *member)) {
	t.Helper()
	eachPairWith(t, name, setup{}, test, change...)
}

// eachPairWith is eachPairNamed with what the test wants otherwise.
func eachPairWith(t *testing.T, name string, with setup, test func(w *world, c *caller, m *member), change ...func(m *member)) {
	t.Helper()
	for _, client := range []revision.Revision{legacy, modern} {
		for _, server := range []revision.Revision{legacy, modern} {
			t.Run(strings.TrimPrefix(fmt.Sprintf("%s, a client of %s and a server of %s", name, client, server), ", "), func(t *testing.T) {
				m := serves("one", server)
				for _, f := range change {
					f(m)
				}
				runWith(t, with, func(w *world) { test(w, w.calls(client), m) }, m)
			})
		}
	}
}
