package exchange

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestMisledCaller has a call fail for what the client took from a list: its next
// list comes from the upstream, and nobody else's does.
func TestMisledCaller(t *testing.T) {
	const legacy = revision.V20251125
	failed := func(code int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"x"}}`, code)
	}
	for name, c := range map[string]struct {
		method string
		answer stand
		want   bool
	}{
		"unknown tool":        {"tools/call", answering(200, "application/json", failed(-32602)), true},
		"header mismatch":     {"tools/call", answering(400, "application/json", failed(-32020)), true},
		"streamed":            {"tools/call", answering(200, "text/event-stream", "event: message\ndata: "+failed(-32602)+"\n\n"), true},
		"streamed, later":     {"tools/call", answering(200, "text/event-stream", noticeOf("progress")+"data: "+failed(-32602)+"\n\n"), true},
		"another error":       {"tools/call", answering(200, "application/json", failed(-32603)), false},
		"another method":      {"prompts/get", answering(200, "application/json", failed(-32602)), false},
		"text in a result":    {"tools/call", answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"error\":{\"code\":-32602}}"}]}}`), false},
		"code in a result":    {"tools/call", answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"error":{"code":-32602,"message":"x"},"structuredContent":-32602}}`), false},
		"text in a stream":    {"tools/call", answering(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"-32602\"}}\n\n"), false},
		"a notification says": {"tools/call", answering(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"error\":{\"code\":-32602}}}\n\ndata: "+rpcResult+"\n\n"), false},
		"result and error":    {"tools/call", answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":-32602,"message":"x"}}`), false},
		"not JSON":            {"tools/call", answering(200, "text/plain", "-32602"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFace(t, config{Gate: duration(0)})
				f.pinned(t, legacy, cache.Public, time.Hour, 0, "cached")
				f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "cached")
				f.session(t, "misled", legacy)
				f.session(t, "other", legacy)
				f.letIn(t, "Bearer misled", "Bearer other")
				mark := f.backend.Cache.Mark(revision.Tools)
				f.upstreamIs(c.answer)
				f.serve(t, legacyRequest(legacy, "misled", c.method))
				call := modernRequest(c.method, "")
				f.as(t, "Bearer misled", call, c.answer)
				f.serve(t, modernRequest(c.method, "")) // an anonymous caller, who cannot be told apart
				time.Sleep(noticeLag + 1)               // what a call may have changed would have been announced
				if !f.backend.Cache.Current(revision.Tools, mark) {
					t.Error("the mistake has outdated everybody's list")
				}
				f.upstreamIs(refusing)
				for who, request := range map[string]*http.Request{
					"the session": legacyRequest(legacy, "misled", "tools/list"), "another session": legacyRequest(legacy, "other", "tools/list"),
				} {
					misled := who == "the session" && c.want
					if w := f.serve(t, request); (w.Code == http.StatusTeapot) != misled {
						t.Errorf("%s then got %d, %q", who, w.Code, w.Header().Get("Cache-Status"))
					}
				}
				for token, misled := range map[string]bool{"Bearer misled": c.want, "Bearer other": false} {
					f.as(t, token, modernRequest("tools/list", `"cursor":"2"`), answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[{"name":"b"}]}}`))
					if w := f.as(t, token, modernRequest("tools/list", ""), refusing); (w.Code == http.StatusTeapot) != misled {
						t.Errorf("%s then got %d, %q", token, w.Code, w.Header().Get("Cache-Status"))
					}
				}
				f.upstreamIs(listing("new"))
				f.serve(t, legacyRequest(legacy, "misled", "tools/list"))
				f.upstreamIs(refusing)
				if w := f.serve(t, legacyRequest(legacy, "misled", "tools/list")); w.Code != http.StatusOK {
					t.Errorf("after a list of its own, the session got %d", w.Code)
				}
			})
		})
	}
}

// TestDoubtedList has a call of a session change what the upstream does not announce:
// its lists come from the upstream until the feed has asked since, and are then given from the
// cache again. Others keep their hits.
func TestDoubtedList(t *testing.T) {
	const legacy = revision.V20251125
	list := func(session string) *http.Request { return legacyRequest(legacy, session, "tools/list") }
	f := newFace(t, config{Gate: duration(0)})
	f.pinned(t, legacy, cache.Public, time.Hour, 0, "old")
	for _, session := range []string{"caller", "other"} {
		f.open(t, session, `{}`, "c")
		f.forwarded(t, list(session), "old")
	}
	caller := f.backend.Admission.Session("caller")
	caller.NotePending(revision.Tools, &admission.PendingChange{Mark: f.backend.Cache.Suspect(revision.Tools), Silent: true})
	if f.forwarded(t, list("other"), "new") {
		t.Error("another session lost its hit")
	}
	if f.backend.SetHanging(time.Now().Add(time.Minute)); f.forwarded(t, list("caller"), "new") {
		t.Error("an upstream that does not answer was asked")
	}
	if f.backend.SetHanging(time.Time{}); !f.forwarded(t, list("caller"), "new") {
		t.Error("the caller was given the list from before its call")
	}
	if !f.forwarded(t, list("caller"), "new") {
		t.Error("after its list the caller was given the one from before its call again")
	}
	f.pinned(t, legacy, cache.Public, time.Hour, 0, "new")
	f.forwarded(t, list("other"), "new") // what such clients are given since
	if f.forwarded(t, list("caller"), "newer") || caller.Pending(revision.Tools, time.Now()) != nil {
		t.Error("the feed has asked since the call, and the upstream was asked again")
	}
}

// TestListsRightAfterACall has a tool change lists on an upstream whose notice
// comes later than its answer: until then the caller's lists come from the
// upstream, and nobody else's do.
func TestListsRightAfterACall(t *testing.T) {
	const legacy = revision.V20251125
	type caller struct{ session, token string }
	const tools = `{"name":"look","annotations":{"readOnlyHint":true}},{"name":"grow"}`
	for name, c := range map[string]struct {
		caller
		tool   string
		answer stand
		want   bool
	}{
		"a session":                {caller{session: "s"}, "grow", answering(200, "application/json", rpcResult), true},
		"a session, by a stream":   {caller{session: "s"}, "grow", answering(200, "text/event-stream", "data: "+rpcResult+"\n\n"), true},
		"credentials":              {caller{token: "Bearer a"}, "grow", answering(200, "application/json", rpcResult), true},
		"a tool that is read-only": {caller{session: "s"}, "look", answering(200, "application/json", rpcResult), false},
		"an error, half way":       {caller{session: "s"}, "grow", answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}`), true},
		"not accepted":             {caller{session: "s"}, "grow", answering(202, "", ""), false},
		"anybody":                  {caller{}, "grow", answering(200, "application/json", rpcResult), false},
		"anybody, a made-up session": {
			caller{session: "modern"}, "grow", answering(200, "application/json", rpcResult), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFace(t, config{Gate: duration(0)})
				request := func(who caller, method, params string) *http.Request {
					r := modernRequest(method, params)
					if who.session == "s" || who.session == "other" {
						r = legacyRequest(legacy, who.session, method)
						r.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`))
					} else if who.session != "" {
						r.Header.Set("Mcp-Session-Id", who.session)
					}
					if who.token != "" {
						r.Header.Set("Authorization", who.token)
					}
					return r
				}
				list := func(who caller) *http.Request { return request(who, "tools/list", "") }
				pin := func() {
					for _, r := range []revision.Revision{legacy, revision.V20260728} {
						f.pin(t, r, tools)
					}
				}
				pin()
				f.session(t, "s", legacy)
				f.session(t, "other", legacy)
				f.letIn(t, "Bearer a", "Bearer b")
				f.forwarded(t, modernRequest("tools/list", ""), "old")
				call := func() {
					f.upstreamIs(c.answer)
					f.serve(t, withName(request(c.caller, "tools/call", `"name":"`+c.tool+`"`), c.tool))
				}
				call()
				for _, other := range []caller{{session: "other"}, {token: "Bearer b"}} {
					if f.forwarded(t, list(other), "new") {
						t.Errorf("%v lost its hit", other)
					}
				}
				for range 2 { // the copy that others are given is as old as before
					if got := f.forwarded(t, list(c.caller), "new"); got != c.want {
						t.Errorf("right after its call, the caller's list was forwarded: %v", got)
					}
				}
				f.backend.SetHanging(time.Now().Add(time.Minute))
				if f.forwarded(t, list(c.caller), "new") {
					t.Error("an upstream that does not answer was asked")
				}
				f.backend.SetHanging(time.Time{})
				time.Sleep(noticeLag)
				if got := f.forwarded(t, list(c.caller), "new"); got != c.want {
					t.Errorf("at %s, the caller's list was forwarded: %v", noticeLag, got)
				}
				time.Sleep(time.Nanosecond)
				if f.forwarded(t, list(c.caller), "new") {
					t.Errorf("after %s, the caller's list was forwarded", noticeLag)
				}
				call()
				if pin(); f.forwarded(t, list(c.caller), "new") {
					t.Error("the feed has asked since the call, and the upstream was asked again")
				}
			})
		})
	}
}

// A variant's list that was fetched before is not given again, once a client of the
// variant was given another one.
func TestVariantsListDoesNotComeBack(t *testing.T) {
	const legacy = revision.V20251125
	list := func() *http.Request { return legacyRequest(legacy, "s", "tools/list") }
	f := newFace(t, config{Gate: duration(0)})
	own := f.pinned(t, legacy, cache.Anonymous, time.Hour, 0, "plain")
	f.open(t, "s", `{"sampling":{}}`, "c")
	f.forwarded(t, list(), "old")
	key, _ := f.backend.Admission.Session("s").Variant()
	old := *own
	page, err := message.ParsePage([]byte(`{"tools":[{"name":"old"}]}`), revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	old.Variant, old.Body, old.Mark = key, message.Single(revision.Tools, page), f.backend.Cache.Mark(revision.Tools)
	f.backend.Cache.Put(&old)
	if f.forwarded(t, list(), "new") {
		t.Fatal("what the feed has brought for the variant was not given")
	}
	caller := f.backend.Admission.Session("s")
	caller.NotePending(revision.Tools, &admission.PendingChange{Mark: f.backend.Cache.Suspect(revision.Tools), Silent: true})
	if !f.forwarded(t, list(), "new") {
		t.Error("after a call, the variant's list from before it was given")
	}
	if !f.forwarded(t, list(), "new") {
		t.Error("after the new list, the one from before it was given again")
	}
}

// Two clients of one caller have lists of their own. Right after a call of the caller's both are given what is from
// after the call, whichever of them asks first.
func TestCalledForAllClientsOfACaller(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	list := func(capabilities string) *http.Request {
		r := modernRequest("tools/list", "")
		editBody(r, `Capabilities":{}`, `Capabilities":`+capabilities)
		r.Header.Set("Authorization", "Bearer caller")
		return r
	}
	const one, another = `{}`, `{"sampling":{}}`
	old := f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "old")
	f.letIn(t, "Bearer caller")
	f.forwarded(t, list(another), "another")
	caller := f.backend.Admission.Context(f.contextOf(list(one)), revision.V20260728)
	caller.NotePending(revision.Tools, &admission.PendingChange{Mark: f.backend.Cache.Suspect(revision.Tools), Until: time.Now().Add(time.Hour)})
	x, _ := f.question(t, list(another))
	x.findVariant(&x.search, caller)
	page, err := message.ParsePage([]byte(`{"tools":[{"name":"another"}]}`), revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	since := *old
	since.Partition, since.Variant = x.context, x.question.variant
	since.Mark, since.Body = f.backend.Cache.Mark(revision.Tools), message.Single(revision.Tools, page)
	f.backend.Cache.Put(&since)
	if f.forwarded(t, list(another), "new") {
		t.Error("a client was not given a list from after the call")
	}
	if !f.forwarded(t, list(one), "new") {
		t.Error("the caller's other client was given the list from before the call")
	}
}

// pin makes a public list of those items the feed's snapshot.
func (f *face) pin(t *testing.T, r revision.Revision, items string) {
	t.Helper()
	page, err := message.ParsePage([]byte(`{"tools":[`+items+`]}`), revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	f.backend.Cache.Pin(&cache.Entry{
		Kind: revision.Tools, Revision: r, Partition: cache.Public, Body: message.Single(revision.Tools, page),
		Fetched: time.Now(), Lifetime: time.Hour, Mark: f.backend.Cache.Mark(revision.Tools),
	})
}

// TestReadOnlyTools reads which tools say that they change nothing.
func TestReadOnlyTools(t *testing.T) {
	const legacy = revision.V20251125
	f := newFace(t, config{Gate: duration(0)})
	pin := func(items string) { f.pin(t, legacy, items) }
	if f.backend.ReadOnly(legacy)["read"] {
		t.Error("without a list, a tool is read-only")
	}
	pin(`{"name":"read","annotations":{"readOnlyHint":true}},{"name":"write","annotations":{"readOnlyHint":false}},` +
		`{"name":"odd","annotations":{"readOnlyHint":"true"}},{"name":"said","description":"readOnlyHint: true"}`)
	for tool, want := range map[string]bool{"read": true, "write": false, "odd": false, "said": false, "none": false, "": false} {
		if got := f.backend.ReadOnly(legacy)[tool]; got != want {
			t.Errorf("%q is read-only: %v", tool, got)
		}
	}
	pin(`{"name":"write","annotations":{"readOnlyHint":true}}`)
	if f.backend.ReadOnly(legacy)["read"] || !f.backend.ReadOnly(legacy)["write"] {
		t.Error("the tools of the list before are remembered")
	}
}

// TestNobodyIsGivenWhatAnotherSent has an upstream repeat what it was sent: what
// one caller brought is given to no other, whatever its cacheScope says.
func TestNobodyIsGivenWhatAnotherSent(t *testing.T) {
	repeating := func(w http.ResponseWriter, r *http.Request) error {
		return respond(w, r, fmt.Appendf(nil, `{"resultType":"complete","tools":[{"name":"a","description":%q}],"contents":[{"text":%q}],"ttlMs":60000,"cacheScope":"public"}`,
			r.Header.Get("User-Agent"), r.Header.Get("User-Agent")))
	}
	requests := map[string]func() *http.Request{
		"a list": func() *http.Request { return modernRequest("tools/list", "") },
		"a page": func() *http.Request { return modernRequest("tools/list", `"cursor":"2"`) },
		"a read": func() *http.Request {
			return withName(modernRequest("resources/read", `"uri":"test://a"`), "test://a")
		},
	}
	for name, request := range maps.Clone(requests) {
		requests[name+" of a query"] = func() *http.Request {
			r := request()
			r.URL.RawQuery = "toolsets=a"
			return r
		}
		requests[name+" of a header"] = func() *http.Request {
			r := request()
			r.Header.Set("X-Mcp-Toolsets", "a")
			return r
		}
	}
	for name, request := range requests {
		for _, tokens := range [][2]string{{"", ""}, {"Bearer a", "Bearer b"}, {"Bearer a", ""}, {"", "Bearer a"}} {
			f := newFace(t, config{Gate: duration(0), Scope: "public"})
			ask := func(agent, token string) string {
				r := request()
				r.Header.Set("User-Agent", agent)
				if token != "" {
					r.Header.Set("Authorization", token)
				}
				f.upstreamIs(repeating)
				return f.serve(t, r).Body.String()
			}
			for range 3 {
				if got := ask("the first", tokens[0]); !strings.Contains(got, "the first") {
					t.Errorf("%s as %q: the first got %s", name, tokens, got)
				}
			}
			if got := ask("the second", tokens[1]); strings.Contains(got, "the first") {
				t.Errorf("%s as %q: the second got %s", name, tokens, got)
			}
		}
	}
}

// TestMisledBeforeItsFirstList misleads a caller who was given a list without
// the upstream having let anybody in: handlers in front do that.
func TestMisledBeforeItsFirstList(t *testing.T) {
	f := newFace(t, config{Gate: duration(0), Admit: "all"})
	f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "cached")
	f.as(t, "Bearer misled", modernRequest("tools/call", ""),
		answering(400, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"x"}}`))
	for token, misled := range map[string]bool{"Bearer misled": true, "Bearer other": false} {
		if w := f.as(t, token, modernRequest("tools/list", ""), refusing); (w.Code == http.StatusTeapot) != misled {
			t.Errorf("%s got %d, %q", token, w.Code, w.Header().Get("Cache-Status"))
		}
	}
}

// TestOwnListFromBeforeACall has a caller's call change lists on an upstream that
// does not say so: the list that was kept for this caller from before is not
// given to it again, and after a second, if the upstream hangs, it is.
func TestOwnListFromBeforeACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0)})
		f.letIn(t, "Bearer a")
		old, changed := resultOf(`"tools":[{"name":"old"}],"ttlMs":600000`), resultOf(`"tools":[{"name":"new"}],"ttlMs":600000`)
		list := func(answer stand) *httptest.ResponseRecorder {
			return f.as(t, "Bearer a", modernRequest("tools/list", ""), answer)
		}
		list(old)
		if w := list(refusing); w.Code != http.StatusOK {
			t.Fatalf("nothing was kept: %d", w.Code)
		}
		r := modernRequest("tools/list", "")
		r.Header.Set("Authorization", "Bearer a")
		caller := f.backend.Admission.Context(f.contextOf(r), revision.V20260728)
		calls := func() {
			caller.NotePending(revision.Tools, &admission.PendingChange{Mark: f.backend.Cache.Suspect(revision.Tools), Silent: true})
		}
		calls()
		if w := list(changed); !strings.Contains(w.Body.String(), `"new"`) {
			t.Errorf("after its call, the caller got %s", w.Body)
		}
		calls()
		began := time.Now()
		w := list(hanging)
		if took := time.Since(began); took != time.Second || !strings.HasSuffix(w.Header().Get("Cache-Status"), "; detail=stale") {
			t.Errorf("after %s, the caller got %d, %q", took, w.Code, w.Header().Get("Cache-Status"))
		}
	})
}

// TestOwnListOfAMisledCaller has the list that misled a caller be one that is
// kept for it, beside a snapshot of the feed that is not fresh: what the upstream
// answers instead takes its place, or, if it cannot be kept, removes it.
func TestOwnListOfAMisledCaller(t *testing.T) {
	for name, c := range map[string]struct {
		answer stand
		kept   bool
	}{
		"another list":      {resultOf(`"tools":[{"name":"new"}],"ttlMs":600000`), true},
		"not to be kept":    {resultOf(`"tools":[{"name":"new"}],"ttlMs":0`), false},
		"of another length": {resultOf(`"tools":[],"ttlMs":600000`), true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			f.letIn(t, "Bearer a")
			list := func(answer stand) *httptest.ResponseRecorder {
				return f.as(t, "Bearer a", modernRequest("tools/list", ""), answer)
			}
			list(resultOf(`"tools":[{"name":"old"}],"ttlMs":600000`))
			f.pinned(t, revision.V20260728, cache.Public, 0, time.Minute, "feed")
			f.as(t, "Bearer a", modernRequest("tools/call", ""),
				answering(400, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"x"}}`))
			list(c.answer)
			w := list(refusing)
			if strings.Contains(w.Body.String(), `"old"`) || (w.Code == http.StatusOK) != c.kept {
				t.Errorf("then the caller got %d, %s", w.Code, w.Body)
			}
		})
	}
}
