package toolkit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
)

// The endpoint takes plain JSON in UTF-8 alone.
func TestOnlyPlainJSONIsTaken(t *testing.T) {
	one := serves("one")
	run(t, func(w *world) {
		w.eachEra(func(c *caller) {
			for _, tt := range []struct {
				contentType, encoding string
				want                  bool
			}{
				{"application/json", "", true},
				{"application/json; charset=utf-8", "", true},
				{"application/json; charset=utf-16", "", false},
				{"text/plain", "", false},
				{"", "", false},
				{"application/json", "gzip", false},
			} {
				before := len(one.asked("tools/call"))
				a := c.ask("tools/call", `"name":"one__tools_a"`, "Content-Type", tt.contentType, "Content-Encoding", tt.encoding)
				if tt.want {
					a.wantOf(w, "one")
					continue
				}
				a.want(w, tt.contentType+tt.encoding, http.StatusUnsupportedMediaType, jsonrpc.InvalidRequest)
				if len(one.asked("tools/call")) != before || !strings.Contains(a.says(), "Content-Type: application/json, without Content-Encoding") {
					w.Errorf("%s %s is answered with %s", tt.contentType, tt.encoding, a)
				}
			}
		})
	}, one)
}

// A client is told in which way its message is none that the endpoint can be certain of. No server gets such a message.
func TestMessagesThatAreNotCertain(t *testing.T) {
	one := serves("one")
	run(t, func(w *world) {
		records := one.records()
		w.eachEra(func(c *caller) {
			for body, tt := range map[string]struct {
				code int
				says string
			}{
				``:                 {jsonrpc.ParseError, "message is invalid"},
				`{"jsonrpc":"2.0"`: {jsonrpc.ParseError, "message is invalid"},
				`{"jsonrpc":"1.0","id":1,"method":"tools/list"}`:                                {jsonrpc.ParseError, "jsonrpc is not"},
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`:            {jsonrpc.ParseError, "name is not a string"},
				`[` + c.message("tools/list", "") + `]`:                                         {jsonrpc.InvalidRequest, "batches are not taken"},
				`{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"ping"}`:                {jsonrpc.InvalidRequest, "ambiguous"},
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"","Name":""}}`: {jsonrpc.InvalidRequest, "ambiguous"},
			} {
				a := c.send(withBody(c, body, "Mcp-Method", "tools/call", "Mcp-Name", "one__a"))
				if a.want(w, body, http.StatusBadRequest, tt.code); !strings.Contains(a.says(), tt.says) || a.status() != "detail=refused" {
					w.Errorf("%s is refused with %s, want one that says %q", body, a, tt.says)
				}
			}
		})
		if sent := records.of("tools/call"); len(sent) != 0 {
			w.Errorf("the server is sent %v", sent)
		}
	}, one)
}

// withBody returns a message of a client as written.
func withBody(c *caller, body string, header ...string) *http.Request {
	r := c.request(http.MethodPost, "/mcp", body, header...)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// long returns a call of a tool with so many bytes of arguments, whose length the client tells or not.
func long(c *caller, bytes int, told bool) *http.Request {
	body := c.message("tools/call", `"name":"one__tools_a","arguments":{"text":"`+strings.Repeat("a", bytes)+`"}`)
	r := withBody(c, body, "Mcp-Method", "tools/call", "Mcp-Name", "one__tools_a")
	if !told {
		r.ContentLength = -1
	}
	return r
}

// A server gets a long message as it is. The endpoint refuses one that there is no memory left for.
func TestMessagesUpToMaxCall(t *testing.T) {
	one := serves("one")
	runWith(t, setup{settings: func(s *Settings) { s.MaxCall, s.Memory = 3<<20, 16<<20 }}, func(w *world) {
		w.eachEra(func(c *caller) {
			for _, told := range []bool{true, false} {
				records := one.records()
				c.send(long(c, 200<<10, told)).wantOf(w, "one")
				if sent := records.of("tools/call"); len(sent) != 1 || !strings.Contains(sent[0].body, `"`+strings.Repeat("a", 200<<10)+`"`) {
					w.Errorf("the server gets %d messages, want the long one", len(sent))
				}
				a := c.send(long(c, 5<<19, told))
				a.want(w, "a message that there is no room for", http.StatusServiceUnavailable, jsonrpc.InternalError)
				if a.Header().Get("Retry-After") != "1" || !strings.Contains(a.says(), "no memory left") {
					w.Errorf("it is refused with %s", a)
				}
				if sent := records.of("tools/call"); len(sent) != 0 {
					w.Errorf("the server gets %d messages that are refused", len(sent))
				}
				c.send(long(c, 1<<20, told)).wantOf(w, "one") // what the others have taken is given back
			}
		})
	}, one)
}

// The endpoint refuses a message that is longer than max_call, whether or not the client says how long it is.
func TestMessagesLongerThanMaxCall(t *testing.T) {
	one := serves("one")
	runWith(t, setup{settings: func(s *Settings) { s.Memory = 64 << 20 }}, func(w *world) {
		w.eachEra(func(c *caller) {
			for _, told := range []bool{true, false} {
				length := len(c.message("tools/call", `"name":"one__tools_a","arguments":{"text":""}`))
				c.sent-- // the next message has that id
				c.send(long(c, 1<<20-length, told)).wantOf(w, "one")
				before := len(one.asked("tools/call"))
				a := c.send(long(c, 1<<20-length+1, told))
				a.want(w, "a message of a byte more than max_call", http.StatusRequestEntityTooLarge, jsonrpc.InvalidRequest)
				if len(one.asked("tools/call")) != before || !strings.Contains(a.says(), "larger than max_call") {
					w.Errorf("the server gets it, or the client is told %q", a.says())
				}
			}
		})
	}, one)
}

// The endpoint reads nothing of a message that is too long by what the client says.
func TestMessagesThatAreSaidToBeTooLong(t *testing.T) {
	run(t, func(w *world) {
		w.eachEra(func(c *caller) {
			r := long(c, 0, true)
			r.ContentLength, r.Body = 1<<20+1, io.NopCloser(iotest.ErrReader(errors.New("it is read")))
			c.send(r).want(w, "a message of 1 MiB and a byte", http.StatusRequestEntityTooLarge, jsonrpc.InvalidRequest)
		})
	}, serves("one"))
}

// Caddy is told with which status a request ends whose body breaks off. A status that a handler in front has found stays.
func TestBodiesThatBreakOff(t *testing.T) {
	run(t, func(w *world) {
		w.eachEra(func(c *caller) {
			for name, tt := range map[string]struct {
				err  error
				want int
			}{
				"a broken connection": {errors.New("cut off"), http.StatusBadRequest},
				"a handler in front":  {caddyhttp.Error(http.StatusTeapot, errors.New("no tea")), http.StatusTeapot},
			} {
				for _, bytes := range []int{0, 100, 100 << 10} {
					r := long(c, bytes, false)
					r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, int64(bytes)), iotest.ErrReader(tt.err)))
					a := c.send(r)
					if failed, ok := errors.AsType[caddyhttp.HandlerError](a.err); !ok || failed.StatusCode != tt.want || a.Body.Len() != 0 {
						w.Errorf("%s after %d bytes: %s, want an error with %d", name, bytes, a, tt.want)
					}
				}
			}
		})
	}, serves("one"))
}

// A modern client has to say the same of its request in the message and in the header. The endpoint refuses what it does
// not speak, and says what it speaks.
func TestModernRequestsAreChecked(t *testing.T) {
	meta := func(at string) string { return strings.Replace(modernMeta, modern.String(), at, 1) }
	const revisionAlone = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	const capabilities = `"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}`
	const version = "Mcp-Protocol-Version"
	one := serves("one")
	run(t, func(w *world) {
		c := w.calls(modern)
		for what, tt := range map[string]struct {
			meta   string
			header []string
			code   int
			says   string
		}{
			"all is well":           {modernMeta, nil, 0, ""},
			"no revision in _meta":  {capabilities, nil, jsonrpc.InvalidParams, "_meta has no io.modelcontextprotocol/protocolVersion"},
			"no _meta":              {`"a":1`, nil, jsonrpc.InvalidParams, "_meta has no io.modelcontextprotocol/protocolVersion"},
			"a future header":       {`"a":1`, []string{version, "2099-01-01"}, jsonrpc.UnsupportedVersion, "this endpoint speaks 2025"},
			"a future revision":     {meta("2099-01-01"), []string{version, "2099-01-01"}, jsonrpc.UnsupportedVersion, "this endpoint speaks"},
			"a legacy revision":     {meta("2025-11-25"), []string{version, "2025-11-25"}, jsonrpc.UnsupportedVersion, "this endpoint speaks"},
			"no revision in header": {modernMeta, []string{version, ""}, jsonrpc.HeaderMismatch, "MCP-Protocol-Version is not that of"},
			"another in header":     {modernMeta, []string{version, "2025-11-25"}, jsonrpc.HeaderMismatch, "MCP-Protocol-Version is not that of"},
			"no capabilities":       {revisionAlone, nil, jsonrpc.InvalidParams, "_meta has no io.modelcontextprotocol/clientCapabilities"},
			"no method in header":   {modernMeta, []string{"Mcp-Method", ""}, jsonrpc.HeaderMismatch, "Mcp-Method is not the method, tools/call"},
			"another method":        {modernMeta, []string{"Mcp-Method", "tools/list"}, jsonrpc.HeaderMismatch, "Mcp-Method is not the method"},
		} {
			before := len(one.asked("tools/call"))
			body := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"one__tools_a",` + tt.meta + `}}`
			a := c.post(body, append([]string{"Mcp-Method", "tools/call", "Mcp-Name", "one__tools_a"}, tt.header...)...)
			if tt.code == 0 {
				a.wantOf(w, "one")
				continue
			}
			a.want(w, what, http.StatusBadRequest, tt.code)
			if !strings.Contains(a.says(), tt.says) || string(a.response().ID) != `"x"` || len(one.asked("tools/call")) != before {
				w.Errorf("%s: %s", what, a)
			}
			speaks := tt.code == jsonrpc.UnsupportedVersion
			if told := strings.Contains(a.Body.String(), fmt.Sprintf(`"supported":["%s"]`, strings.Join(supported, `","`))); told != speaks {
				w.Errorf("%s: the client is told %s", what, a.Body)
			}
		}
	}, one)
}

// A header that says something more than once is never taken for either.
func TestHeadersThatSayItTwice(t *testing.T) {
	one := serves("one")
	run(t, func(w *world) {
		c := w.calls(modern)
		for name, meta := range map[string]string{"Mcp-Protocol-Version": modernMeta, "Mcp-Method": modernMeta, "mcp-protocol-version": `"a":1`} {
			name, body := http.CanonicalHeaderKey(name), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one__tools_a",`+meta+`}}`
			r := withBody(c, body, "Mcp-Method", "tools/call", "Mcp-Name", "one__tools_a")
			r.Header[name] = append(r.Header[name], r.Header[name][0])
			if a := c.send(r); a.Code != http.StatusBadRequest || a.code() == jsonrpc.InvalidRequest || len(one.asked("tools/call")) > 0 {
				w.Errorf("with two of %s and %s: %s", name, meta, a)
			}
		}
	}, one)
}

// The endpoint accepts notifications of modern clients, of which no server needs any. It refuses answers, as no server asks.
func TestModernClientsOnlyAsk(t *testing.T) {
	one := serves("one")
	run(t, func(w *world) {
		records, c := one.records(), w.calls(modern)
		for _, method := range []string{"notifications/cancelled", "notifications/initialized", "tools/call"} {
			a := c.post(`{"jsonrpc":"2.0","method":"` + method + `","params":{"name":"one__tools_a",` + modernMeta + `}}`)
			if a.want(w, method, http.StatusAccepted, 0); a.Body.Len() != 0 || a.status() != "detail=own" {
				w.Errorf("%s is answered with %s", method, a)
			}
		}
		for _, answer := range []string{`"result":{}`, `"error":{"code":1,"message":""}`} {
			a := c.post(`{"jsonrpc":"2.0","id":7,` + answer + `}`)
			if a.want(w, answer, http.StatusBadRequest, jsonrpc.InvalidRequest); a.says() != "no request of a server waits for an answer" {
				w.Errorf("%s is refused with %q", answer, a.says())
			}
		}
		if sent := records.take(); len(sent) != 0 {
			w.Errorf("the server is sent %v", sent)
		}
	}, one)
}

// A client is told that a method does not exist here. That does not end the session of a legacy one.
func TestUnknownMethodsAreRefused(t *testing.T) {
	one := serves("one")
	run(t, func(w *world) {
		records := one.records()
		w.eachEra(func(c *caller) {
			methods, status := []string{"made/up", "resources/subscribe", "Tools/call", "tools/call "}, http.StatusOK
			if c.at == modern {
				methods, status = append(methods, "ping", "logging/setLevel", "initialize"), http.StatusNotFound
			} else {
				methods = append(methods, "server/discover", "subscriptions/listen")
			}
			for _, method := range methods {
				a := c.ask(method, `"name":"one__tools_a","uri":"one://resources_a"`)
				if a.want(w, method, status, jsonrpc.MethodNotFound); a.says() != "Method not found" {
					w.Errorf("%s of a %s client is refused with %q", method, c.at.Era(), a.says())
				}
			}
			c.call("one__tools_a").wantOf(w, "one")
		})
		if len(records.of("tools/call")) != 2 {
			w.Error("the server is not called once by each client")
		}
	}, one)
}
