// Package inboundtest has requests that deviate from one that every server understands alike.
// Tests send all of them to each way of a request: to one server, to several servers, and to a
// program.
package inboundtest

import (
	"context"
	"net/http"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// Request is a request of a modern client that asks for the tools, with one thing wrong.
type Request struct {
	Name      string
	Deviation inbound.Deviation
	body      string
	header    map[string][]string // in place of the right fields; nil: the field is missing
}

const (
	revision     = `"` + message.MetaRevision + `":"2026-07-28"`
	capabilities = `"` + message.MetaCapabilities + `":{}`
	right        = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + revision + `,` + capabilities + `}}}`

	versionField, methodField = "Mcp-Protocol-Version", "Mcp-Method"
)

// Right is a request with nothing wrong.
var Right = Request{Name: "right", body: right}

// Deviating returns requests with all deviations that a request has by itself, each with one.
func Deviating() []Request {
	edited := func(old, replacement string) string { return strings.Replace(right, old, replacement, 1) }
	return []Request{
		{"batch of one", inbound.Batch, "[" + right + "]", nil},
		{"empty batch", inbound.Batch, "[]", nil},
		{"method twice", inbound.Ambiguous, edited(`"method"`, `"method":"tools/list","method"`), nil},
		{"method in another case", inbound.Ambiguous, edited(`"method"`, `"Method":"tools/call","method"`), nil},
		{"cursor twice", inbound.Ambiguous, edited(`"_meta"`, `"cursor":"a","cursor":"b","_meta"`), nil},
		{"revision twice", inbound.Ambiguous, edited(revision, revision+","+revision), nil},
		{"empty", inbound.Invalid, "", nil},
		{"no JSON", inbound.Invalid, "tools/list", nil},
		{"cut off", inbound.Invalid, right[:len(right)-1], nil},
		{"two messages", inbound.Invalid, right + right, nil},
		{"another JSON-RPC", inbound.Invalid, edited(`"2.0"`, `"1.0"`), nil},
		{"id is null", inbound.Invalid, edited(`"id":1`, `"id":null`), nil},
		{"params is an array", inbound.Invalid, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, nil},
		{"no _meta", inbound.NoRevision, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil},
		{"no revision in _meta", inbound.NoRevision, edited(revision+",", ""), nil},
		{"no revision in the header", inbound.OtherRevision, right, map[string][]string{versionField: nil}},
		{"another revision in the header", inbound.OtherRevision, right, map[string][]string{versionField: {"2025-11-25"}}},
		{"two revisions in the header", inbound.OtherRevision, right, map[string][]string{versionField: {"2026-07-28", "2026-07-28"}}},
		{"no capabilities", inbound.NoCapabilities, edited(","+capabilities, ""), nil},
		{"no method in the header", inbound.OtherMethod, right, map[string][]string{methodField: nil}},
		{"another method in the header", inbound.OtherMethod, right, map[string][]string{methodField: {"prompts/list"}}},
		{"two methods in the header", inbound.OtherMethod, right, map[string][]string{methodField: {"tools/list", "tools/list"}}},
	}
}

// To returns the request as it is sent to a URL.
func (q *Request) To(ctx context.Context, url string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(q.body))
	if err != nil {
		panic(err) // the URL is a test's
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		versionField: {"2026-07-28"}, methodField: {"tools/list"},
	}
	for field, values := range q.header {
		if r.Header[field] = values; values == nil {
			delete(r.Header, field)
		}
	}
	return r
}
