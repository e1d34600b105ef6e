package exchange

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// answering is an upstream that answers with a status, a type and a body.
func answering(status int, contentType, body string) stand {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, err := w.Write([]byte(body))
		return err
	}
}

const rpcResult = `{"jsonrpc":"2.0","id":1,"result":{}}`

// TestWhoIsAdmitted has the upstream answer in every way to a caller with a token
// and to a session that nobody has seen opened: only the result of a list lets
// them in.
func TestWhoIsAdmitted(t *testing.T) {
	const failed = `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}`
	for name, c := range map[string]struct {
		method string
		answer stand
		want   bool
	}{
		"call":                 {"tools/call", answering(200, "application/json", rpcResult), false},
		"call, an error":       {"tools/call", answering(200, "application/json", failed), false},
		"call, a stream":       {"tools/call", answering(200, "text/event-stream", "data: "+rpcResult+"\n\n"), false},
		"read":                 {"resources/read", resultOf(`"contents":[],"ttlMs":60000`), false},
		"list":                 {"tools/list", listing("a"), true},
		"list, empty":          {"prompts/list", resultOf(`"prompts":[]`), true},
		"list, compressed":     {"tools/list", encodedAs("gzip", listing("a")), false},
		"list, an error":       {"tools/list", answering(200, "application/json", failed), false},
		"list, another's":      {"tools/list", answering(200, "application/json", `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`), false},
		"list, no list":        {"tools/list", answering(200, "application/json", rpcResult), false},
		"list, a page of HTML": {"tools/list", answering(200, "text/html", "<title>Sign in</title>"), false},
		"202":                  {"tools/list", answering(202, "application/json", ""), false},
		"204":                  {"tools/list", answering(204, "application/json", ""), false},
		"302":                  {"tools/list", answering(302, "text/html", ""), false},
		"400":                  {"tools/list", answering(400, "application/json", rpcResult), false},
		"401":                  {"tools/list", answering(401, "application/json", rpcResult), false},
		"403":                  {"tools/list", answering(403, "application/json", rpcResult), false},
		"500":                  {"tools/list", answering(500, "application/json", rpcResult), false},
		"failure":              {"tools/list", func(http.ResponseWriter, *http.Request) error { return errors.New("down") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			f.upstreamIs(c.answer)
			r := modernRequest(c.method, "")
			if c.method == "resources/read" {
				r = withName(modernRequest(c.method, `"uri":"test://a"`), "test://a")
			}
			r.Header.Set("Authorization", "Bearer a")
			context := f.contextOf(r)
			_ = f.ServeHTTP(&wire{header: make(http.Header)}, r, nil)
			r = legacyRequest(revision.V20251125, "session", c.method)
			if c.method == "resources/read" {
				r = reading(revision.V20251125, `"test://a"`)
			}
			_ = f.ServeHTTP(&wire{header: make(http.Header)}, r, nil)
			ledger := f.backend.Admission
			for who, caller := range map[string]*admission.Caller{
				"the context": ledger.Context(context, revision.V20260728),
				"the session": ledger.Session("session"),
			} {
				if got := caller != nil && caller.Admitted(revision.Tools, time.Now()); got != c.want {
					t.Errorf("%s is admitted %v, want %v", who, got, c.want)
				}
			}
			if got, _ := ledger.Count(); got > 2 {
				t.Errorf("%d callers are remembered", got)
			}
		})
	}
}

// encodedAs is an upstream that says its answer is compressed.
func encodedAs(coding string, answer stand) stand {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Encoding", coding)
		return answer(w, r)
	}
}

// TestWhatRenewsASession has a session that has been let in by its initialize
// call and read until its admission would be over: results renew it, nothing else
// does, and nothing renews what was refused.
func TestWhatRenewsASession(t *testing.T) {
	const r = revision.V20251125
	long := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"content":%q}}`, strings.Repeat("x", 2*maxResult))
	failed := `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"\"result\":{}"}}`
	for name, c := range map[string]struct {
		answer stand
		before func(f *face, t *testing.T)
		want   bool
	}{
		"a result":      {answering(200, "application/json", rpcResult), nil, true},
		"a long result": {answering(200, "application/json", long), nil, true},
		"a long result of known length": {func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Length", fmt.Sprint(len(long)))
			return answering(200, "application/json", long)(w, r)
		}, nil, true},
		"a result, id last":       {answering(200, "application/json", `{"result":{},"id":1,"jsonrpc":"2.0"}`), nil, true},
		"a streamed result":       {answering(200, "text/event-stream", "event: message\ndata: "+rpcResult+"\n\n"), nil, true},
		"a long streamed result":  {answering(200, "text/event-stream", "event: message\ndata: "+long+"\n\n"), nil, true},
		"progress, then a result": {answering(200, "text/event-stream", noticeOf("progress")+"data: "+rpcResult+"\n\n"), nil, true},
		"an error":                {answering(200, "application/json", failed), nil, false},
		"a streamed error":        {answering(200, "text/event-stream", "data: "+failed+"\n\n"), nil, false},
		"no JSON":                 {answering(200, "text/html", "<title>Sign in</title>"), nil, false},
		"a notification":          {answering(200, "application/json", `{"jsonrpc":"2.0","method":"x","params":{"result":{}}}`), nil, false},
		"after a refused list": {answering(200, "application/json", rpcResult), func(f *face, t *testing.T) {
			f.upstreamIs(answering(200, "application/json", failed))
			r := legacyRequest(r, "s", "tools/list")
			f.serve(t, r)
		}, false},
		"after DELETE": {answering(200, "application/json", rpcResult), func(f *face, t *testing.T) {
			f.upstreamIs(answering(405, "text/plain", ""))
			r := legacyRequest(r, "s", "")
			r.Method = http.MethodDelete
			f.serve(t, r)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFace(t, config{Gate: duration(0)})
				caller := f.session(t, "s", r)
				if c.before != nil {
					time.Sleep(backend.Defaults().AdmitFor + time.Second) // so that the list is forwarded
					c.before(f, t)
				} else {
					time.Sleep(backend.Defaults().AdmitFor - time.Second)
				}
				f.upstreamIs(c.answer)
				f.serve(t, legacyRequest(r, "s", "tools/call"))
				time.Sleep(time.Minute)
				if got := caller.Admitted(revision.Tools, time.Now()); got != c.want {
					t.Errorf("admitted %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A GET opens a stream: it says nothing of who may list.
func TestGetAdmitsNobody(t *testing.T) {
	f := newFace(t, config{})
	f.upstreamIs(answering(200, "text/event-stream", ": open\n\n"))
	r := legacyRequest(revision.V20251125, "session", "")
	r.Method = http.MethodGet
	f.serve(t, r)
	if c := f.backend.Admission.Session("session"); c != nil {
		t.Errorf("the session is known: %+v", c)
	}
}

// session has the upstream open a session at that revision.
func (f *face) session(t *testing.T, id string, r revision.Revision) *admission.Caller {
	t.Helper()
	f.initialize(t, id, r.String(), "application/json")
	c := f.backend.Admission.Session(id)
	if c != nil { // a client that is shown what the feed is
		ledger := f.backend.Admission
		ledger.OpenSession(id, c.Context, r, cache.Variant{}, ledger.Ticket(), time.Now().Add(backend.Defaults().AdmitFor))
	}
	if c == nil || !c.Admitted(revision.Tools, time.Now()) || c.Revision != r {
		t.Fatalf("the session is known as %+v", c)
	}
	return c
}

func (f *face) initialize(t *testing.T, id, version, contentType string) {
	t.Helper()
	result := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":%q,"capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, version)
	if contentType == "text/event-stream" {
		result = ": hello\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\ndata: " + result + "\n\n"
	}
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Mcp-Session-Id", id)
		return answering(http.StatusOK, contentType, result)(w, r)
	})
	f.serve(t, initializing())
}

func initializing() *http.Request {
	return post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
}

// Some legacy clients name their method in a header, as modern ones do.
func TestInitializeNamedInAHeader(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Mcp-Session-Id", "s")
		return answering(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)(w, r)
	})
	r := initializing()
	r.Header.Set("Mcp-Method", "initialize")
	f.serve(t, r)
	if c := f.backend.Admission.Session("s"); c == nil || !c.Admitted(revision.Tools, time.Now()) {
		t.Errorf("the session is known as %+v", c)
	}
}

func TestInitializeOpensASession(t *testing.T) {
	for _, contentType := range []string{"application/json", "text/event-stream"} {
		for _, r := range legacyRevisions {
			f := newFace(t, config{Gate: duration(0)})
			f.initialize(t, "s", r.String(), contentType)
			if c := f.backend.Admission.Session("s"); c == nil || c.Revision != r || !c.Context.IsAnonymous() || !c.Admitted(revision.Tools, time.Now()) {
				t.Errorf("%s at %v: the session is known as %+v", contentType, r, c)
			}
		}
	}
	for _, version := range []string{"2026-07-28", "2024-11-05", ""} {
		f := newFace(t, config{Gate: duration(0)})
		f.initialize(t, "s", version, "application/json")
		if c := f.backend.Admission.Session("s"); c != nil {
			t.Errorf("at %q, the session is known as %+v", version, c)
		}
	}
}

// A server that opens no session has let in nobody by answering initialize.
func TestInitializeWithoutASession(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	f.initialize(t, "", "2025-06-18", "application/json")
	if c := f.backend.Admission.Context(cache.Anonymous, revision.V20250618); c != nil {
		t.Errorf("the caller is known as %+v", c)
	}
}

const unknownSession = `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"Session not found"}}`

// A session that the server may not know any more has its next list answered by
// the server, which lets it in again: that is all that the doubt costs.
func TestDoubtedSessionIsLetInAgain(t *testing.T) {
	const r = revision.V20251125
	for name, c := range map[string]struct {
		method string
		answer stand
	}{
		"400 to a call":        {"tools/call", answering(400, "text/plain", "")},
		"400 to a ping":        {"ping", answering(400, "text/plain", "")},
		"-32001 to a ping":     {"ping", answering(200, "application/json", unknownSession)},
		"-32001 to a list":     {"tools/list", answering(200, "application/json", strings.Replace(unknownSession, `"id":1`, `"id":null`, 1))},
		"-32001 to a read":     {"resources/read", answering(200, "application/json", unknownSession)},
		"-32001 to an opening": {"initialize", answering(200, "application/json", unknownSession)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			f.session(t, "s", r)
			f.session(t, "other", r)
			f.upstreamIs(c.answer)
			doubtful := legacyRequest(r, "s", c.method)
			if c.method == "tools/list" || c.method == "resources/read" { // forwarded while nothing is there
				f.serve(t, doubtful)
				f.pinned(t, r, cache.Public, time.Hour, 0, "cached")
			} else {
				f.pinned(t, r, cache.Public, time.Hour, 0, "cached")
				f.serve(t, doubtful)
			}
			f.upstreamIs(listing("cached"))
			f.asked()
			for range 3 {
				if w := f.serve(t, legacyRequest(r, "s", "tools/list")); w.Code != http.StatusOK {
					t.Fatalf("a list gave %d", w.Code)
				}
			}
			if n := f.asked(); n != 1 {
				t.Errorf("of three lists the upstream got %d, want 1", n)
			}
			f.serve(t, legacyRequest(r, "other", "tools/list"))
			if n := f.asked(); n != 0 {
				t.Error("the doubt has cost another session a hit")
			}
		})
	}
}

// rpcError is an answer with an error of that code.
func rpcError(code int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"x"}}`, code)
}

func TestSessionsEnd(t *testing.T) {
	const r = revision.V20251125
	for name, c := range map[string]struct {
		answer stand
		change func(*http.Request)
		alive  bool
	}{
		"404":               {answering(404, "text/plain", "gone"), func(*http.Request) {}, false},
		"404, nothing":      {answering(404, "", ""), func(*http.Request) {}, false},
		"404, no method":    {answering(404, "application/json", rpcError(-32601)), func(*http.Request) {}, true},
		"404, bad params":   {answering(404, "application/json", rpcError(-32602)), func(r *http.Request) { editBody(r, "tools/call", "ping") }, true},
		"404, not found":    {answering(404, "application/json", unknownSession), func(*http.Request) {}, false},
		"404, another":      {answering(404, "application/json", rpcError(-32600)), func(*http.Request) {}, false},
		"404, a result":     {answering(404, "application/json", rpcResult), func(*http.Request) {}, false},
		"404, events":       {answering(404, "text/event-stream", "data: "+rpcError(-32601)+"\n\n"), func(*http.Request) {}, false},
		"404, another's":    {answering(404, "application/json", strings.Replace(rpcError(-32601), `"id":1`, `"id":2`, 1)), func(*http.Request) {}, false},
		"404, nobody's":     {answering(404, "application/json", strings.Replace(rpcError(-32601), `"id":1`, `"id":null`, 1)), func(*http.Request) {}, false},
		"404, as text":      {answering(404, "text/plain", rpcError(-32601)), func(*http.Request) {}, false},
		"400, no method":    {answering(400, "application/json", rpcError(-32601)), func(*http.Request) {}, true},
		"401":               {answering(401, "text/plain", ""), func(*http.Request) {}, false},
		"403":               {answering(403, "text/plain", ""), func(*http.Request) {}, false},
		"404 to a GET":      {answering(404, "text/plain", ""), func(r *http.Request) { r.Method = http.MethodGet }, false},
		"DELETE":            {answering(200, "text/plain", ""), func(r *http.Request) { r.Method = http.MethodDelete }, false},
		"DELETE, refused":   {answering(405, "text/plain", ""), func(r *http.Request) { r.Method = http.MethodDelete }, false},
		"400":               {answering(400, "text/plain", ""), func(*http.Request) {}, false},
		"500":               {answering(500, "text/plain", ""), func(*http.Request) {}, true},
		"405 to a GET":      {answering(405, "text/plain", ""), func(r *http.Request) { r.Method = http.MethodGet }, true},
		"another's 404":     {answering(404, "text/plain", ""), setHeader("Mcp-Session-Id", "other"), true},
		"nobody's 404":      {answering(404, "text/plain", ""), setHeader("Mcp-Session-Id"), true},
		"two sessions' 404": {answering(404, "text/plain", ""), setHeader("Mcp-Session-Id", "other", "session"), false},
		"400 to a GET":      {answering(400, "text/plain", ""), func(r *http.Request) { r.Method = http.MethodGet }, false},
		"400, an error":     {answering(400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID"},"id":null}`), func(*http.Request) {}, false},
		"not found":         {answering(200, "application/json", unknownSession), func(*http.Request) {}, false},
		"not found, no id":  {answering(200, "application/json", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"x"},"id":null}`), func(*http.Request) {}, false},
		"not found, events": {answering(200, "text/event-stream", "data: "+unknownSession+"\n\n"), func(*http.Request) {}, false},
		"not found, other":  {answering(200, "application/json", unknownSession), setHeader("Mcp-Session-Id", "other"), true},
		"not found, two":    {answering(200, "application/json", unknownSession), setHeader("Mcp-Session-Id", "other", "session"), false},
		"another error":     {answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"x"}}`), func(r *http.Request) { editBody(r, "tools/call", "ping") }, true},
		"two sessions' 401": {answering(401, "text/plain", ""), setHeader("Mcp-Session-Id", "session", "other"), false},
		"two sessions' DELETE": {answering(200, "text/plain", ""), func(r *http.Request) {
			setHeader("Mcp-Session-Id", "other", "session")(r)
			r.Method = http.MethodDelete
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			caller := f.session(t, "session", r)
			f.pinned(t, r, cache.Public, time.Hour, 0, "cached")
			f.upstreamIs(c.answer)
			req := legacyRequest(r, "session", "tools/call")
			c.change(req)
			f.serve(t, req)
			if caller.Alive() != c.alive {
				t.Errorf("alive %v, want %v", caller.Alive(), c.alive)
			}
			f.upstreamIs(answering(404, "text/plain", ""))
			w := f.serve(t, legacyRequest(r, "session", "tools/list"))
			if hit := w.Code == http.StatusOK; hit != c.alive {
				t.Errorf("a list then gave %d, %q", w.Code, w.Header().Get("Cache-Status"))
			}
		})
	}
}

// TestExcusedSession has an error about a request come with a 404: the session is over from
// its header on until the error is there. What else ends it meanwhile has the last word.
func TestExcusedSession(t *testing.T) {
	const r = revision.V20251125
	for name, c := range map[string]struct {
		between func(f *face)
		parts   []string
		alive   bool
	}{
		"in one part":     {func(*face) {}, []string{rpcError(-32601)}, true},
		"in two":          {func(*face) {}, []string{"{", rpcError(-32601)[1:]}, false},
		"ended otherwise": {func(f *face) { f.backend.Admission.EndSession("session") }, []string{rpcError(-32601)}, false},
		"let in again": {func(f *face) {
			f.backend.Admission.AdmitSession("session", cache.Anonymous, r, 0, f.backend.Admission.Ticket(), time.Now().Add(time.Hour))
		}, []string{rpcError(-32001)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			caller := f.session(t, "session", r)
			f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				if caller.Alive() {
					t.Error("the session goes on after a 404")
				}
				c.between(f)
				for _, part := range c.parts {
					if _, err := io.WriteString(w, part); err != nil {
						return err
					}
				}
				return nil
			})
			request := legacyRequest(r, "session", "tools/call")
			editBody(request, "tools/call", "ping")
			f.serve(t, request)
			if caller.Alive() != c.alive {
				t.Errorf("alive: %v", caller.Alive())
			}
		})
	}
}

func TestRefusalRevokesTheContext(t *testing.T) {
	for _, status := range []int{401, 403} {
		synctest.Test(t, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "cached")
			list := func(authorization string) int {
				f.upstreamIs(answering(418, "text/plain", ""))
				r := modernRequest("tools/list", "")
				r.Header.Set("Authorization", authorization)
				return f.serve(t, r).Code
			}
			admit := func(authorization string) {
				f.upstreamIs(listing("own"))
				r := modernRequest("tools/list", "")
				r.Header.Set("Authorization", authorization)
				f.serve(t, r)
			}
			call := func(authorization string, status int) {
				f.upstreamIs(answering(status, "application/json", rpcResult))
				r := modernRequest("tools/call", "")
				r.Header.Set("Authorization", authorization)
				if w := f.serve(t, r); w.Code != status {
					t.Fatalf("a call gave %d", w.Code)
				}
			}
			admit("Bearer a")
			admit("Bearer b")
			if a, b := list("Bearer a"), list("Bearer b"); a != 200 || b != 200 {
				t.Fatalf("lists give %d and %d", a, b)
			}
			call("Bearer a", status)
			if a, b := list("Bearer a"), list("Bearer b"); a != 418 || b != 200 {
				t.Errorf("after %d, lists give %d and %d", status, a, b)
			}
			call("Bearer a", 200)
			if a := list("Bearer a"); a != 418 {
				t.Errorf("a call was accepted again, a list gives %d", a)
			}
			admit("Bearer a")
			time.Sleep(noticeLag + 1) // what the call may have changed would have been announced
			if a := list("Bearer a"); a != 200 {
				t.Errorf("accepted again, a list gives %d", a)
			}
		})
	}
}

// TestNotices sends what announces a change, and what does not.
func TestNotices(t *testing.T) {
	all := []revision.Kind{revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates, revision.Discover, revision.Reads}
	stream := "text/event-stream"
	for name, c := range map[string]struct {
		method, contentType, body string
		want                      []revision.Kind
	}{
		"tools":              {"subscriptions/listen", stream, noticeOf("tools/list_changed"), []revision.Kind{revision.Tools}},
		"prompts":            {"subscriptions/listen", stream, noticeOf("prompts/list_changed"), []revision.Kind{revision.Prompts}},
		"resources":          {"subscriptions/listen", stream, noticeOf("resources/list_changed"), []revision.Kind{revision.Resources, revision.ResourceTemplates}},
		"a resource":         {"subscriptions/listen", stream, noticeOf("resources/updated"), []revision.Kind{revision.Reads}},
		"on a call's stream": {"tools/call", stream, noticeOf("tools/list_changed") + "data: " + rpcResult + "\n\n", []revision.Kind{revision.Tools}},
		"on a list's stream": {"prompts/list", stream, noticeOf("tools/list_changed"), []revision.Kind{revision.Tools}},
		"two":                {"subscriptions/listen", stream, noticeOf("tools/list_changed") + noticeOf("prompts/list_changed"), []revision.Kind{revision.Tools, revision.Prompts}},
		"escaped":            {"subscriptions/listen", stream, "data: {\"method\":\"notifications\\/tools\\/list_change\\u0064\"}\n\n", []revision.Kind{revision.Tools}},
		"progress":           {"subscriptions/listen", stream, noticeOf("progress"), nil},
		"not a stream":       {"tools/call", "application/json", `{"result":"notifications/tools/list_changed"}`, nil},
		"unknown tool":       {"tools/call", "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool"}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			marks := make(map[revision.Kind]cache.Mark)
			for _, k := range all {
				marks[k] = f.backend.Cache.Mark(k)
			}
			// In pieces, as small as they come.
			f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", c.contentType)
				for i := range len(c.body) {
					if _, err := io.WriteString(w, c.body[i:i+1]); err != nil {
						return err
					}
				}
				return nil
			})
			f.serve(t, modernRequest(c.method, ""))
			for _, k := range all {
				want := slices.Contains(c.want, k)
				if got := !f.backend.Cache.Current(k, marks[k]); got != want {
					t.Errorf("%s: changed %v, want %v", k, got, want)
				}
			}
		})
	}
}

func noticeOf(method string) string {
	return "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/" + method + "\"}\n\n"
}
