package inbound

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// Deviation is how a request deviates from one that every server understands alike.
type Deviation uint8

const (
	// None: it does not deviate.
	None Deviation = iota

	// TooLarge: its body is larger than the limit. NoRoom: there is no memory for the body now.
	TooLarge
	NoRoom

	// Batch, Ambiguous, Invalid: its body is one of those. See the errors of package message.
	Batch
	Ambiguous
	Invalid

	// Deviations of modern requests. NoRevision, NoCapabilities: _meta does not have it. OtherRevision,
	// OtherMethod: the header does not have it, or has another one than the message.
	NoRevision
	OtherRevision
	NoCapabilities
	OtherMethod
)

// deviationOf returns the deviation that an error of decoding stands for.
func deviationOf(err error) Deviation {
	switch {
	case err == nil:
		return None
	case errors.Is(err, message.ErrBatch):
		return Batch
	case errors.Is(err, message.ErrAmbiguous):
		return Ambiguous
	}
	return Invalid
}

// Mismatch returns the first deviation of a modern request whose message has been decoded: what _meta has to
// say, and what the header has to repeat (2026-07-28, "Streamable HTTP", "Request Metadata"). It looks neither
// at which revision that is, nor at Mcp-Name: see [NameIs].
func (q *Request) Mismatch(h http.Header) Deviation {
	meta := &q.Message.Meta
	switch {
	case meta.Revision == nil:
		return NoRevision
	case !isOnly(h["Mcp-Protocol-Version"], meta.Revision):
		return OtherRevision
	case meta.Capabilities == nil:
		return NoCapabilities
	case !isOnly(h["Mcp-Method"], q.Message.Method):
		return OtherMethod
	}
	return None
}

// OtherName returns what a client is told whose Mcp-Name is not the name that its modern request has in that member
// of params: see [NameIs].
func OtherName(member, name string) *jsonrpc.Problem {
	return jsonrpc.Invalid(jsonrpc.HeaderMismatch, "Mcp-Name is not params."+member+" of the message, "+strconv.Quote(name))
}

// Refusal returns what a client is told of a [Request.Mismatch]; nil if there is none.
func (q *Request) Refusal(d Deviation) *jsonrpc.Problem {
	switch d {
	case NoRevision:
		return jsonrpc.Invalid(jsonrpc.InvalidParams, "_meta has no "+message.MetaRevision)
	case OtherRevision:
		return jsonrpc.Invalid(jsonrpc.HeaderMismatch, "MCP-Protocol-Version is not that of _meta, "+string(q.Message.Meta.Revision))
	case NoCapabilities:
		return jsonrpc.Invalid(jsonrpc.InvalidParams, "_meta has no "+message.MetaCapabilities)
	case OtherMethod:
		return jsonrpc.Invalid(jsonrpc.HeaderMismatch, "Mcp-Method is not the method, "+q.Method)
	default:
		return nil
	}
}
