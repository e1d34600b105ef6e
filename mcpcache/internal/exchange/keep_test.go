package exchange

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// as sends a modern request with that Authorization, for which the upstream has
// that answer.
func (f *face) as(t *testing.T, authorization string, r *http.Request, answer stand) *httptest.ResponseRecorder {
	t.Helper()
	f.upstreamIs(answer)
	r.Header.Set("Authorization", authorization)
	return f.serve(t, r)
}

// letIn has the upstream answer a list to whoever has that Authorization.
func (f *face) letIn(t *testing.T, authorizations ...string) {
	t.Helper()
	for _, authorization := range authorizations {
		f.as(t, authorization, modernRequest("prompts/list", ""), resultOf(`"prompts":[],"ttlMs":0`))
	}
	f.asked()
}

// refusing is an upstream that must not be asked.
func refusing(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusTeapot)
	return nil
}

func resultOf(members string) stand {
	return answering(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":1,"result":{`+members+`}}`)
}

// TestWhatIsKept has a caller read a list through, and asks again: for the same
// caller and for another whom the upstream has accepted too. Whatever the answer
// says, it may repeat what the caller sent: no other is given it.
func TestWhatIsKept(t *testing.T) {
	const list = `"tools":[{"name":"a"}]`
	for name, c := range map[string]struct {
		answer stand
		scope  string
		own    bool // a hit for the same caller; never for another
	}{
		"private":           {answer: resultOf(list + `,"ttlMs":60000,"cacheScope":"private"`), own: true},
		"public":            {answer: resultOf(list + `,"ttlMs":60000,"cacheScope":"public"`), own: true},
		"no scope":          {answer: resultOf(list + `,"ttlMs":60000`), own: true},
		"unknown scope":     {answer: resultOf(list + `,"ttlMs":60000,"cacheScope":"shared"`), own: true},
		"scope in capitals": {answer: resultOf(list + `,"ttlMs":60000,"cacheScope":"PUBLIC"`), own: true},
		"no scope, public":  {answer: resultOf(list + `,"ttlMs":60000`), scope: "public", own: true},
		"private, public":   {answer: resultOf(list + `,"ttlMs":60000,"cacheScope":"private"`), scope: "public", own: true},
		"no TTL":            {answer: resultOf(list), own: true},
		"TTL 0":             {answer: resultOf(list + `,"ttlMs":0,"cacheScope":"public"`)},
		"TTL below 0":       {answer: resultOf(list + `,"ttlMs":-5,"cacheScope":"public"`)},
		"complete":          {answer: resultOf(list + `,"resultType":"complete"`), own: true},
		"needs input":       {answer: resultOf(list + `,"resultType":"input_required"`)},
		"unknown type":      {answer: resultOf(list + `,"resultType":"task"`)},
		"a first page":      {answer: resultOf(list + `,"nextCursor":"2"`), own: true},
		"an empty list":     {answer: resultOf(`"tools":[]`), own: true},
		"no list":           {answer: resultOf(`"prompts":[]`)},
		"a name twice":      {answer: resultOf(`"tools":[{"name":"a"},{"name":"a"}]`), own: true},
		"an error":          {answer: answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}`)},
		"another's answer":  {answer: answering(200, "application/json", `{"jsonrpc":"2.0","id":"1","result":{`+list+`}}`)},
		"not 200":           {answer: answering(203, "application/json", `{"jsonrpc":"2.0","id":1,"result":{`+list+`}}`)},
		"cut off":           {answer: answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{`+list+`}`)},
		"and more":          {answer: answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{`+list+`}} {}`)},
		"JSON-RPC 1.0":      {answer: answering(200, "application/json", `{"jsonrpc":"1.0","id":1,"result":{`+list+`}}`)},
		"no JSON-RPC":       {answer: answering(200, "application/json", `{"id":1,"result":{`+list+`}}`)},
		"compressed": {answer: func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Encoding", "gzip")
			return resultOf(list)(w, r)
		}},
		"a stream":           {answer: answering(200, "text/event-stream", noticeOf("message")+"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{"+list+"}}\n\n"), own: true},
		"a stream, cut off":  {answer: answering(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{"+list+"}}")},
		"a stream of others": {answer: answering(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{"+list+"}}\n\n")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0), Scope: c.scope})
			f.letIn(t, "Bearer a", "Bearer b")
			if w := f.as(t, "Bearer a", modernRequest("tools/list", ""), c.answer); !strings.HasPrefix(w.Header().Get("Cache-Status"), "mcp_cache; fwd=uri-miss") {
				t.Fatalf("reading through gave %q", w.Header().Get("Cache-Status"))
			}
			own := f.as(t, "Bearer a", modernRequest("tools/list", ""), refusing)
			another := f.as(t, "Bearer b", modernRequest("tools/list", ""), refusing)
			if got := own.Code == http.StatusOK; got != c.own {
				t.Errorf("the same caller got %d, %s", own.Code, own.Body)
			}
			if another.Code == http.StatusOK {
				t.Errorf("another caller got %d, %s", another.Code, another.Body)
			}
		})
	}
}

// TestListSizes reads lists through that are as large as may be, and larger.
func TestListSizes(t *testing.T) {
	const limit = 4000
	envelope := len(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":""}]}}`)
	for _, told := range []bool{true, false} {
		for size, want := range map[int]bool{limit: true, limit + 1: false} {
			f := newFace(t, config{Gate: duration(0), MaxList: limit})
			f.letIn(t, "Bearer a")
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"%s"}]}}`, strings.Repeat("x", size-envelope))
			w := f.as(t, "Bearer a", modernRequest("tools/list", ""), func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "application/json")
				if told {
					w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				}
				_, err := io.WriteString(w, body)
				return err
			})
			if w.Body.String() != body {
				t.Errorf("%d bytes (told: %v) arrived as %d", size, told, w.Body.Len())
			}
			if got := f.as(t, "Bearer a", modernRequest("tools/list", ""), refusing).Code == http.StatusOK; got != want {
				t.Errorf("%d bytes (told: %v): kept %v, want %v", size, told, got, want)
			}
		}
	}
}

// TestSingleResources reads resources through: they are kept only if the server
// says for how long.
func TestSingleResources(t *testing.T) {
	read := func(uri string) *http.Request {
		return withName(modernRequest("resources/read", fmt.Sprintf(`"uri":%q`, uri)), uri)
	}
	f := newFace(t, config{Gate: duration(0)})
	f.letIn(t, "Bearer a")
	const contents = `"contents":[{"uri":"a:b","text":"x"}]`
	f.as(t, "Bearer a", read("a:b"), resultOf(contents))
	if w := f.as(t, "Bearer a", read("a:b"), resultOf(contents+`,"ttlMs":60000`)); w.Header().Get("Cache-Status") == "" || f.asked() != 2 {
		t.Error("what has no ttlMs was kept")
	}
	if w := f.as(t, "Bearer a", read("a:b"), refusing); w.Code != http.StatusOK {
		t.Errorf("what has a ttlMs gave %d", w.Code)
	}
	if w := f.as(t, "Bearer a", read("a:c"), refusing); w.Code != http.StatusTeapot {
		t.Errorf("another resource gave %d, %s", w.Code, w.Body)
	}
	f.backend.Cache.Bump(revision.SetOf(revision.Reads))
	if w := f.as(t, "Bearer a", read("a:b"), refusing); w.Code != http.StatusTeapot {
		t.Errorf("a changed resource gave %d, %s", w.Code, w.Body)
	}
}

// TestPages reads pages through. A cursor that the server does not know any
// more takes the other pages of the walk with it.
func TestPages(t *testing.T) {
	page := func(cursor string) *http.Request { return modernRequest("tools/list", `"cursor":"`+cursor+`"`) }
	f := newFace(t, config{Gate: duration(0)})
	f.as(t, "Bearer a", page("2"), resultOf(`"tools":[{"name":"b"}],"nextCursor":"3"`))
	f.as(t, "Bearer a", page(""), resultOf(`"tools":[{"name":"a"}],"nextCursor":"2"`))
	for cursor, want := range map[string]string{"2": `"b"`, "": `"a"`} {
		if w := f.as(t, "Bearer a", page(cursor), refusing); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) || !strings.Contains(w.Body.String(), "nextCursor") {
			t.Errorf("page %q gave %d, %s", cursor, w.Code, w.Body)
		}
	}
	for _, cursor := range []string{"3", "02"} {
		if w := f.as(t, "Bearer a", page(cursor), refusing); w.Code != http.StatusTeapot {
			t.Errorf("page %q gave %d, %s", cursor, w.Code, w.Body)
		}
	}
	if w := f.as(t, "Bearer a", modernRequest("tools/list", ""), refusing); w.Code != http.StatusTeapot {
		t.Errorf("the list without a cursor gave %d, %s", w.Code, w.Body)
	}
	f.as(t, "Bearer a", page("3"), answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"bad cursor"}}`))
	for _, cursor := range []string{"2", ""} {
		if w := f.as(t, "Bearer a", page(cursor), refusing); w.Code != http.StatusTeapot {
			t.Errorf("after a bad cursor, page %q gave %d", cursor, w.Code)
		}
	}
}

// The first page of a legacy list is not kept: the others are its session's own.
func TestLegacyFirstPageIsNotKept(t *testing.T) {
	const r = revision.V20251125
	for cursor, want := range map[string]int{`,"nextCursor":"2"`: http.StatusTeapot, ``: http.StatusOK} {
		f := newFace(t, config{Gate: duration(0)})
		list := func(answer stand) *httptest.ResponseRecorder {
			req := legacyRequest(r, "session", "tools/list")
			req.Header.Set("Authorization", "Bearer a")
			f.upstreamIs(answer)
			return f.serve(t, req)
		}
		list(resultOf(`"tools":[{"name":"a"}]` + cursor))
		if w := list(refusing); w.Code != want {
			t.Errorf("with %q: got %d, want %d", cursor, w.Code, want)
		}
	}
}

// TestAnswerFromBeforeAChange has a list change while it is on its way: it is
// not given to anybody else.
func TestAnswerFromBeforeAChange(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	w := f.as(t, "Bearer a", modernRequest("tools/list", ""), func(w http.ResponseWriter, r *http.Request) error {
		f.backend.Cache.Bump(revision.SetOf(revision.Tools))
		return listing("old")(w, r)
	})
	if w.Code != http.StatusOK {
		t.Fatalf("got %d", w.Code)
	}
	if w := f.as(t, "Bearer a", modernRequest("tools/list", ""), refusing); w.Code != http.StatusTeapot {
		t.Errorf("the list from before the change was given: %s", w.Body)
	}
}

// TestToldSession has a session be told of a change: it gets what the upstream
// says until the feed's list is what it was told of.
func TestToldSession(t *testing.T) {
	const r = revision.V20251125
	f := newFace(t, config{Gate: duration(0)})
	caller := f.session(t, "session", r)
	f.session(t, "another", r)
	f.pinned(t, r, cache.Public, time.Hour, 0, "old")
	list := func(session string, answer stand) string {
		t.Helper()
		f.upstreamIs(answer)
		return f.serve(t, legacyRequest(r, session, "tools/list")).Header().Get("Cache-Status")
	}
	f.upstreamIs(answering(200, "text/event-stream", noticeOf("tools/list_changed")))
	f.serve(t, legacyRequest(r, "session", "tools/call"))
	if caller.NoticeSeen(revision.Tools) == nil {
		t.Fatal("nothing is known of the notice")
	}
	// The feed's list is the same as before: the change was the session's own.
	f.pinned(t, r, cache.Public, time.Hour, 0, "old")
	if got := list("session", listing("own")); got != "mcp_cache; fwd=bypass; detail=changed" {
		t.Errorf("the told session got %q", got)
	}
	if got := list("another", refusing); !strings.HasPrefix(got, "mcp_cache; hit") {
		t.Errorf("another session got %q", got)
	}
	if caller.NoticeSeen(revision.Tools) == nil {
		t.Error("a list of its own has settled what the session was told")
	}
	// That the feed's list changes later settles nothing, until the two are equal.
	f.pinned(t, r, cache.Public, time.Hour, 0, "new")
	if got := list("session", listing("own")); got != "mcp_cache; fwd=bypass; detail=changed" {
		t.Errorf("after another change of the feed's list, the session got %q", got)
	}
	if got := list("session", listing("new")); got != "mcp_cache; fwd=bypass; detail=changed" {
		t.Errorf("before its list was the feed's again, the session got %q", got)
	}
	if caller.NoticeSeen(revision.Tools) != nil {
		t.Error("what the session was told is not settled")
	}
	if got := list("session", refusing); !strings.HasPrefix(got, "mcp_cache; hit") {
		t.Errorf("once its list was the feed's again, the session got %q", got)
	}
}

// The upstream giving a told session the feed's list settles it as well.
func TestToldSessionIsSettledByTheSameList(t *testing.T) {
	const r = revision.V20251125
	f := newFace(t, config{Gate: duration(0)})
	caller := f.session(t, "session", r)
	f.pinned(t, r, cache.Public, time.Hour, 0, "old")
	f.upstreamIs(answering(200, "text/event-stream", noticeOf("tools/list_changed")))
	f.serve(t, legacyRequest(r, "session", "tools/call"))
	f.pinned(t, r, cache.Public, time.Hour, 0, "old")
	f.upstreamIs(listing("old"))
	f.serve(t, legacyRequest(r, "session", "tools/list"))
	if caller.NoticeSeen(revision.Tools) != nil {
		t.Error("what the session was told is not settled")
	}
	f.upstreamIs(refusing)
	if w := f.serve(t, legacyRequest(r, "session", "tools/list")); w.Code != http.StatusOK {
		t.Errorf("the next list gave %d", w.Code)
	}
}
