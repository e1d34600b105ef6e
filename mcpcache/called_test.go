package mcpcache

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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
			f := newFace(t, &Handler{Gate: duration(0)})
			f.pinned(t, legacy, cache.Public, time.Hour, 0, "cached")
			f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, "cached")
			f.session(t, "misled", legacy)
			f.session(t, "other", legacy)
			f.letIn(t, "Bearer misled", "Bearer other")
			mark := f.shared.cache.Mark(revision.Tools)
			f.upstreamIs(c.answer)
			f.serve(t, legacyRequest(legacy, "misled", c.method))
			call := modernRequest(c.method, "")
			f.as(t, "Bearer misled", call, c.answer)
			f.serve(t, modernRequest(c.method, "")) // an anonymous caller, who cannot be told apart
			if !f.shared.cache.Current(revision.Tools, mark) {
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
	}
}

// TestReadOnlyTools reads which tools say that they change nothing.
func TestReadOnlyTools(t *testing.T) {
	const legacy = revision.V20251125
	f := newFace(t, &Handler{Gate: duration(0)})
	pin := func(items string) {
		page, err := message.ParsePage([]byte(`{"tools":[`+items+`]}`), revision.Tools)
		if err != nil {
			t.Fatal(err)
		}
		f.shared.cache.Pin(&cache.Entry{
			Kind: revision.Tools, Revision: legacy, Partition: cache.Public, Body: message.Single(revision.Tools, page),
			Fetched: time.Now(), Lifetime: time.Hour, Mark: f.shared.cache.Mark(revision.Tools),
		})
	}
	if f.shared.readOnly(legacy, "read") {
		t.Error("without a list, a tool is read-only")
	}
	pin(`{"name":"read","annotations":{"readOnlyHint":true}},{"name":"write","annotations":{"readOnlyHint":false}},` +
		`{"name":"odd","annotations":{"readOnlyHint":"true"}},{"name":"said","description":"readOnlyHint: true"}`)
	for tool, want := range map[string]bool{"read": true, "write": false, "odd": false, "said": false, "none": false, "": false} {
		if got := f.shared.readOnly(legacy, tool); got != want {
			t.Errorf("%q is read-only: %v", tool, got)
		}
	}
	pin(`{"name":"write","annotations":{"readOnlyHint":true}}`)
	if f.shared.readOnly(legacy, "read") || !f.shared.readOnly(legacy, "write") {
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
	for name, request := range requests {
		for _, tokens := range [][2]string{{"", ""}, {"Bearer a", "Bearer b"}, {"Bearer a", ""}, {"", "Bearer a"}} {
			f := newFace(t, &Handler{Gate: duration(0), Scope: "public"})
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
