package exchange

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// mapPlaceholders makes the placeholders of an exchange available to handlers, log formats
// and response headers. They are worked out only when they are used.
func (x *exchange) mapPlaceholders() {
	if x.replacer != nil {
		x.replacer.Map(answered{x}.placeholder)
	}
}

// replacerOf returns the replacer of a request, or nil.
func replacerOf(r *http.Request) *caddy.Replacer {
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	return repl
}

// placeholder is a [caddy.ReplacerFunc].
func (a answered) placeholder(key string) (any, bool) { return outcome.Placeholder(key, a) }

// revision returns the one that a request names, in its headers if not in its body.
func (x *exchange) revision() revision.Revision {
	if r := x.question.revision; r != revision.Unknown {
		return r
	}
	return revision.Parse(header.First(x.r.Header["Mcp-Protocol-Version"]))
}

// tool returns the tool that a tools/call names. The body is decoded for it only
// when it is used.
func (x *exchange) tool() string {
	if x.in.Method != "tools/call" {
		return ""
	}
	if !x.hasTool {
		x.toolName, x.hasTool = x.findTool(), true
	}
	return x.toolName
}

// findTool takes the name from the body, or else from the header that mirrors
// it.
func (x *exchange) findTool() string {
	r := x.in.Decoded()
	if r == nil || r.Name == nil {
		return x.r.Header.Get("Mcp-Name")
	}
	return message.Text(r.Name)
}
