package toolkit

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	aResult   = `{"jsonrpc":"2.0","id":<id>,"result":{"resultType":"complete","content":[{"type":"text","text":"<b>"}], "n":1.0}}`
	aProgress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`
)

// anError is an error of a server.
func anError(code int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":<id>,"error":{"code":%d,"message":"no","data":[1]}}`, code)
}

// TestAnswersAreGivenAsTheyAre: a client is given a message of a server of its own era byte by byte. A status of 404,
// which would end the session of a legacy client, becomes 200.
func TestAnswersAreGivenAsTheyAre(t *testing.T) {
	for name, tt := range map[string]struct {
		status         int
		media, body    string
		legacy, modern int
	}{
		"a result":              {200, "application/json", aResult, 200, 200},
		"a result of UTF-8":     {200, "application/json; charset=UTF-8", aResult, 200, 200},
		"a stream":              {200, "text/event-stream", "id: 1\ndata: " + aResult + "\n\n", 200, 200},
		"a stream with a space": {200, " Text/Event-Stream ;charset=utf-8", "data: " + aResult + "\n\n", 200, 200},
		"an error":              {200, "application/json", anError(-32000), 200, 200},
		"an error and 400":      {400, "application/json", anError(-32602), 400, 400},
		"an error and 404":      {404, "application/json", anError(-32601), 200, 404},
		"an error and 500":      {500, "application/json", anError(-32603), 500, 500},
	} {
		for era, want := range map[revision.Revision]int{legacy: tt.legacy, modern: tt.modern} {
			for _, flushed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, flushed %v", name, era, flushed), func(t *testing.T) {
					run(t, func(w *world) {
						sent, c, m := "", w.calls(era), w.members[0]
						m.On("tools/call", func(w http.ResponseWriter, _ *http.Request, c clienttest.Call) error {
							w.Header().Set("Content-Type", tt.media)
							w.WriteHeader(http.StatusEarlyHints) // which is for nobody
							w.WriteHeader(tt.status)
							if flushed {
								_ = http.NewResponseController(w).Flush()
							}
							sent = strings.ReplaceAll(tt.body, "<id>", string(c.ID))
							_, err := w.Write([]byte(sent))
							return err
						})
						if a := c.call("one__tools_a"); a.Code != want || a.Body.String() != sent || a.err != nil || a.Header().Get("Content-Type") != tt.media {
							w.Errorf("a client is given %s (%q), want %d and %s", a, a.Header(), want, sent)
						}
					}, serves("one", era))
				})
			}
		}
	}
}

// TestHeadersOfServersStayBehind: a client is given those fields of a server's header that are about the answer. Cookies,
// sessions, credentials and addresses of a server are not for clients.
func TestHeadersOfServersStayBehind(t *testing.T) {
	given := http.Header{
		"Content-Language": {"en"}, "Cache-Control": {"no-store"}, "X-Accel-Buffering": {"no"}, "Retry-After": {"7"},
		"Date": {"Thu, 01 Jan 2026 00:00:00 GMT"}, "Vary": {"Accept", "Cookie"}, "Warning": {"199 - x"},
	}
	eachPair(t, func(w *world, c *caller, m *member) {
		for _, status := range []int{200, 503} {
			m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
				maps.Copy(w.Header(), given)
				for _, name := range []string{
					"Set-Cookie", "Mcp-Session-Id", "Www-Authenticate", "Access-Control-Allow-Origin", "X-Secret", "Server", "Location", "Cache-Status",
				} {
					w.Header().Set(name, "canary")
				}
				return replies(status, "application/json", aResult)(w, r, c)
			})
			a := c.call("one__tools_a")
			for name, values := range given {
				if got := a.Header()[name]; !slices.Equal(got, values) {
					w.Errorf("%d: a client is given %s: %q, want %q", status, name, got, values)
				}
			}
			if all := fmt.Sprint(a.Header()); strings.Contains(all, "canary") {
				w.Errorf("%d: a client is given %s", status, all)
			}
		}
	})
}

// TestOtherAnswersBecomeErrors: a client is given an error that names the server in the place of an answer that is no
// message. A status that says to come again, or with less, is kept.
func TestOtherAnswersBecomeErrors(t *testing.T) {
	answered := func(status int) string {
		return fmt.Sprintf(`the MCP server "one" answered with HTTP status %d`, status)
	}
	refuses := func(status int) string {
		return fmt.Sprintf(`the MCP server "one" refuses requests without credentials: HTTP status %d`, status)
	}
	for name, tt := range map[string]struct {
		answer clienttest.Script
		status int
		says   string
	}{
		"a page and 200":             {replies(200, "text/html", "<html>"), 502, answered(200)},
		"JSON in another charset":    {replies(200, "application/json; charset=latin1", aResult), 502, answered(200)},
		"no type":                    {replies(200, "", "x"), 502, answered(200)},
		"accepted":                   {replies(202, "", ""), 502, answered(202)},
		"nothing":                    {replies(204, "", ""), 502, answered(204)},
		"a part":                     {replies(206, "application/json", aResult), 502, answered(206)},
		"a redirect":                 {replies(302, "application/json", aResult, "Location", "/x"), 502, answered(302)},
		"a page and 404":             {replies(404, "text/html", "<html>"), 502, answered(404)},
		"a page and 500":             {replies(500, "text/html", "<html>"), 502, answered(500)},
		"another protocol":           {replies(101, "application/json", ""), 502, answered(101)},
		"no credential":              {replies(401, "application/json", anError(1)), 502, refuses(401)},
		"a wrong credential":         {replies(403, "application/json", anError(1)), 502, refuses(403)},
		"no credential of the proxy": {replies(407, "application/json", anError(1)), 502, answered(407)},
		"too many":                   {replies(429, "text/plain", "x"), 429, answered(429)},
		"unavailable":                {replies(503, "text/plain", "x"), 503, answered(503)},
		"too late":                   {replies(504, "text/plain", "x"), 504, answered(504)},
		"too large":                  {replies(413, "text/plain", "x"), 413, answered(413)},
	} {
		eachPairNamed(t, name, func(w *world, c *caller, m *member) {
			m.On("tools/call", tt.answer)
			a := c.call("one__tools_a")
			a.want(w, name, tt.status, -32603)
			wantSaid(w, a, tt.says)
			if length := fmt.Sprint(a.Body.Len()); a.Header().Get("Content-Length") != length || len(a.messages()) != 1 {
				w.Errorf("a client is given %s, whose length is said to be %q", a, a.Header()["Content-Length"])
			}
		})
	}
}

// TestAnswersToOthersAreNotUnderstood: a client is given an error in the place of a JSON answer that has nothing for it,
// whatever length and coding the server has said of that answer.
func TestAnswersToOthersAreNotUnderstood(t *testing.T) {
	for name, body := range map[string]string{
		"a result of another":     `{"jsonrpc":"2.0","id":"another","result":{}}`,
		"a notification":          aProgress,
		"an ambiguous id":         `{"jsonrpc":"2.0","id":<id>,"result":{},"id":"another"}`,
		"notifications in a list": "[" + aProgress + "]",
	} {
		eachPairNamed(t, name, func(w *world, c *caller, m *member) {
			m.On("tools/call", replies(http.StatusOK, "application/json", body, "Content-Length", "1000"))
			a := c.call("one__tools_a")
			a.want(w, name, http.StatusBadGateway, -32603)
			wantSaid(w, a, `the MCP server "one" gave no answer that could be understood`)
			if got := a.Header().Get("Content-Length"); got != fmt.Sprint(a.Body.Len()) {
				w.Errorf("a client is told of %s bytes and given %s", got, a)
			}
		})
	}
}

const theToken = "a-token-of-guards"

// guarded has a guard put a credential on all requests to a server.
func guarded(m *member) {
	guard := &clienttest.Guard{Put: func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+theToken)
		return nil
	}}
	m.of.Credentials.Guard, m.settings.Feed.Guard = guard, guard
}

// TestTheGuardsCredentialIsHidden: a client is given asterisks where a server repeats the credential of its guard, in
// which part of an answer that may be, and in whatever pieces it comes.
func TestTheGuardsCredentialIsHidden(t *testing.T) {
	says := strings.Replace(aResult, "<b>", "Bearer "+theToken+" <b>", 1)
	fails := strings.Replace(anError(-32000), `"no"`, `"Bearer `+theToken+` <b>"`, 1)
	for name, tt := range map[string]struct{ media, body string }{
		"a result": {"application/json", says}, "an error": {"application/json", fails}, "a stream": {"text/event-stream", "data: " + says + "\n\n"},
		"the end of a stream": {"text/event-stream", "data: " + aResult + "\n\n: " + theToken},
	} {
		eachPairNamed(t, name, func(w *world, c *caller, m *member) {
			m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
				body := strings.ReplaceAll(tt.body, "<id>", string(c.ID))
				cut := strings.Index(body, theToken) + 5
				if err := replies(http.StatusOK, tt.media, body[:cut], "Warning", "199 - "+theToken)(w, r, c); err != nil {
					return err
				}
				_, err := w.Write([]byte(body[cut:]))
				return err
			})
			a := c.call("one__tools_a")
			if shown := fmt.Sprint(a.Header(), a); strings.Contains(shown, theToken[:8]) || a.Code != http.StatusOK || len(a.messages()) != 1 {
				w.Errorf("a client is given %s", shown)
			}
			if got := a.Header().Get("Warning"); got != "199 - [hidden]" {
				w.Errorf("a client is given the warning %q", got)
			}
			if asterisks := strings.Repeat("*", len(theToken)); strings.Contains(tt.body, "Bearer") && !strings.Contains(a.Body.String(), "Bearer "+asterisks+" <b>") {
				w.Errorf("a client is given %s", a)
			}
		}, guarded)
	}
}

// TestAnswersThatEndLikeACredential: a client is given all of an answer whose end could be the beginning of the guard's
// credential.
func TestAnswersThatEndLikeACredential(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		m.On("tools/call", replies(http.StatusOK, "application/json", aResult))
		c.call("one__tools_a").want(w, "a call", http.StatusOK, 0)
	}, func(m *member) {
		m.of.Credentials.Guard = &clienttest.Guard{Put: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer }-a-token-of-guards")
			return nil
		}}
	})
}

// TestNoServerEndsASession: a legacy client is never given the 404 of a server, which would end the client's session with
// the endpoint.
func TestNoServerEndsASession(t *testing.T) {
	for _, server := range []revision.Revision{legacy, modern} {
		for name, body := range map[string]string{
			"no message": `{"error":"not_found"}`, "an error": anError(-32001), "a result": aResult, "a batch": "[" + aResult + "]", "no JSON": "no",
		} {
			t.Run(fmt.Sprintf("%s, %s", name, server), func(t *testing.T) {
				run(t, func(w *world) {
					for _, media := range []string{"application/json", "text/plain"} {
						w.members[0].On("tools/call", replies(http.StatusNotFound, media, body))
						if a := w.calls(legacy).call("one__tools_a"); a.Code != http.StatusOK && a.Code != http.StatusBadGateway || len(a.messages()) != 1 {
							w.Errorf("as %s it is given as %s", media, a)
						}
					}
				}, serves("one", server))
			})
		}
	}
}

// TestCodedAnswersAreNotGiven: a client is given an error in the place of an answer in a content coding, which nobody has
// asked for. Nobody could find the guard's credential in it.
func TestCodedAnswersAreNotGiven(t *testing.T) {
	for says, change := range map[string]func(m *member){
		`the MCP server "one" gave no answer that could be understood`:                                                                 func(*member) {},
		`the MCP server "one" answered with content coding "gzip", which nobody asked for: the credential of its guard could be in it`: guarded,
	} {
		for _, media := range []string{"application/json", "text/event-stream"} {
			eachPairNamed(t, media, func(w *world, c *caller, m *member) {
				m.On("tools/call", replies(http.StatusOK, media, "\x1f\x8bcoded", "Content-Encoding", "GZIP", "Content-Length", "7"))
				a := c.call("one__tools_a")
				a.want(w, "an answer in a coding", http.StatusBadGateway, -32603)
				wantSaid(w, a, says)
				if got := a.Header(); got.Get("Content-Encoding") != "" || got.Get("Content-Length") != fmt.Sprint(a.Body.Len()) {
					w.Errorf("an error of %d bytes has the header %q", a.Body.Len(), got)
				}
				m.On("tools/call", replies(http.StatusOK, media, map[bool]string{true: "data: " + aResult + "\n\n", false: aResult}[media == "text/event-stream"],
					"Content-Encoding", "identity"))
				c.call("one__tools_a").want(w, "an answer without a coding", http.StatusOK, 0)
			}, change)
		}
	}
}

// TestChangesAreHeardWithinAnswers: a server that says within an answer that its tools have changed is asked for them.
// All clients that listen are told once the tools are there.
func TestChangesAreHeardWithinAnswers(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		stream, leave := c.begin(c.listening("toolsListChanged"))
		defer leave()
		w.after(time.Minute)
		m.Set(revision.Tools, "another")
		m.On("tools/call", streams(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, aResult))
		a := c.call("one__tools_a")
		if a.want(w, "the call", http.StatusOK, 0); len(a.announced()) > 0 {
			w.Errorf("the caller is sent %s", a)
		}
		if !m.observed.noticed.Has(revision.Tools) {
			w.Errorf("those who watch the server were told of %v", m.observed.noticed)
		}
		w.after(time.Minute)
		c.list(revision.Tools).wantNames(w, revision.Tools, "one__another")
		if got := stream.announced(); !slices.Contains(got, "notifications/tools/list_changed") {
			w.Errorf("a client that listens was told of %q", got)
		}
	})
}

// listening makes a request by which a client listens. The names of what it wants to be told of are for modern clients
// alone.
func (c *caller) listening(wants ...string) *http.Request {
	if c.at.Era() == revision.Legacy {
		return c.request(http.MethodGet, "/mcp", "")
	}
	var members []string
	for _, name := range wants {
		members = append(members, fmt.Sprintf("%q:true", name))
	}
	body := c.message("subscriptions/listen", `"notifications":{`+strings.Join(members, ",")+`}`)
	return c.request(http.MethodPost, "/mcp", body, "Mcp-Method", "subscriptions/listen")
}

// TestStreamsComeAsTheyAreSent: a client is given each event of an answer before the server sends the next one.
func TestStreamsComeAsTheyAreSent(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		m.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			_ = streams(aProgress)(w, r, c)
			_ = http.NewResponseController(w).Flush()
			return clienttest.Hang(w, r, c)
		})
		a, leave := c.begin(c.calling("one__tools_a"))
		if got := a.announced(); !slices.Equal(got, []string{"notifications/progress"}) || !a.Flushed || a.isOver() {
			w.Errorf("a client is given %q meanwhile, flushed %v", got, a.Flushed)
		}
		leave()
	})
}

// TestLongResultsComeAsTheyAreSent: a client is given the beginning of a long result of a server of its own era before
// the server has sent the rest.
func TestLongResultsComeAsTheyAreSent(t *testing.T) {
	for _, era := range []revision.Revision{legacy, modern} {
		t.Run(era.String(), func(t *testing.T) {
			run(t, func(w *world) {
				w.members[0].On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
					begins, _, _ := strings.Cut(aResult, "<b>")
					_ = replies(http.StatusOK, "application/json", begins+strings.Repeat("x", 10_000))(w, r, c)
					return clienttest.Hang(w, r, c)
				})
				c := w.calls(era)
				a, leave := c.begin(c.calling("one__tools_a"))
				if a.Body.Len() < 10_000 || a.isOver() {
					w.Errorf("a client is given %d bytes meanwhile", a.Body.Len())
				}
				leave()
			}, serves("one", era))
		})
	}
}

// replies answers with a body in which <id> stands for the id of the request.
func replies(status int, mediaType, body string, header ...string) clienttest.Script {
	return func(w http.ResponseWriter, _ *http.Request, c clienttest.Call) error {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		return clienttest.Reply(w, status, mediaType, strings.ReplaceAll(body, "<id>", string(c.ID)))
	}
}

// streams answers with an event stream of messages in which <id> stands for the id of the request.
func streams(messages ...string) clienttest.Script {
	var body strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&body, "data: %s\n\n", m)
	}
	return replies(http.StatusOK, "text/event-stream", body.String())
}

// wantSaid checks what a client is told by an error.
func wantSaid(w *world, a *received, want string) {
	w.Helper()
	if a.says() != want {
		w.Errorf("a client is told %q, want %q", a.says(), want)
	}
}
