// Package exchange handles one request to the MCP endpoint in front of one server. It answers a
// list from memory only if it understands the whole request. It forwards everything else as it is:
//
//	origin ─ POST ─ read ─ decode ─┬─ list, admitted, entry usable ─► view ─► answer: id, ttlMs, stored bytes
//	                               ├─ list, admitted, no entry ─────► one shared fetch ─► view ─► answer, keep
//	                               └─ everything else ─ guard ──────► upstream handler ─► tap ─► filter ─► client
//	origin ─ GET, DELETE, other ─────────── guard ──────────────────► upstream handler ─► tap ─► filter ─► client
//
// The exchange reads a request, finds out who sends it (identity), and asks the catalog for the
// list that this caller may see. Then it answers with the list, or forwards the request.
//
// The guard and the filter take part if rules hide something. The guard reads the names in a
// request. It rejects the request unless it is certain of the names and the caller may see them.
// It does so at every path, and for reads of resources from memory, too. The filter takes hidden
// items out of an answer. The tap learns from the whole answer before that. It learns of sessions
// that open and end, of admissions, and of change notices before their bytes leave. It tells the
// backend.
//
// Each stage has a type of its own, and returns its result. A search looks a list up. A guard
// finds out what a request names. A forwarding asks the upstream, a tap passes the answer on, and
// a learner learns from it.
//
// The package knows nothing of configuration, and nothing of how a backend gets its lists.
package exchange

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/site"
)

// exchange is one request to the MCP endpoint, on its way through the handler.
type exchange struct {
	search

	endpoint *Endpoint
	w        http.ResponseWriter
	r        *http.Request
	replacer *caddy.Replacer // of the request; nil if there is none
	// sessions are all session IDs in the request, in whatever era: of several,
	// servers differ in which one they take.
	sessions []string
	// ticket orders what is learned from the answer.
	ticket admission.Ticket

	elsewhere bool // the request is for another path than the endpoint's

	in     inbound.Request // what has been read of the request
	cursor string          // one of our own, unquoted; "" if there is none

	// What became of the exchange, for metrics, logs and placeholders.
	outcome  outcome.Outcome
	took     time.Duration // from its arrival to its end
	reason   bypass
	apart    identity.Difference // what keeps the caller from a public list of the feed; "" if nothing does
	toolName string              // the tool that is called, once somebody asked
	hasTool  bool                // somebody has asked; the tool may be ""

	view      *policy.View // what the caller may see and call; nil without rules
	wantsList bool         // some message of the request asks for a list; set if rules hide anything

	answered lookupResult  // what the cache has answered with
	left     time.Duration // of its freshness
	values   header.Values // of the answer
}

// bypass is why a request is forwarded without a look into the cache. It is a
// closed set: it appears in Cache-Status.
type bypass string

const (
	understood      bypass = ""
	bypassMethod    bypass = "method"    // not a method that is cached
	bypassKind      bypass = "kind"      // a kind the operator does not cache
	bypassType      bypass = "type"      // the body is not plain JSON
	bypassSize      bypass = "size"      // the body is larger than max_request
	bypassBatch     bypass = "batch"     // the body is a batch
	bypassAmbiguous bypass = "ambiguous" // parsers may disagree about the body
	bypassInvalid   bypass = "invalid"   // the body is not a valid message
	bypassParams    bypass = "params"    // a parameter the cache does not know
	bypassMeta      bypass = "meta"      // a _meta key the cache does not know
	bypassCursor    bypass = "cursor"    // a cursor of a legacy session
	bypassAccept    bypass = "accept"    // not both content types are accepted
	bypassSigned    bypass = "signed"    // a signature covers the header, which is not to be understood by us
	bypassRevision  bypass = "revision"  // headers and body do not agree on one
	bypassAdmission bypass = "admission" // the upstream has not let this caller in
	bypassHeader    bypass = "header"    // the same, because a header has a new value each time
	bypassHost      bypass = "host"      // the caller reaches the server by another Host than the feed
	bypassChanged   bypass = "changed"   // the caller has seen a notice of a change of its own
)

// understand finds out who asks, and for what. It returns understood, or why the
// request cannot be answered from the cache.
func (x *exchange) understand() (bypass, error) {
	x.context = x.identify()
	if x.r.Method != http.MethodPost {
		return bypassMethod, nil
	}
	// Modern requests, and those of some legacy clients, name their method in a
	// header too. If it is not a cached method the request is forwarded whatever
	// its body says, and the upstream finds out if the two disagree. The body of
	// an initialize has to be read, because it opens a session.
	if named := x.r.Header["Mcp-Method"]; len(named) == 1 {
		if _, cached := revision.KindOf(named[0]); !cached && named[0] != "initialize" {
			x.in.Method = named[0]
			return bypassMethod, nil
		}
	}
	if !inbound.PlainJSON(x.r.Header) {
		return bypassType, nil
	}
	if x.r.ContentLength > x.endpoint.Settings.MaxRequest {
		return bypassSize, nil
	}
	if err := x.in.ReadBeginning(x.r, x.endpoint.Settings.MaxRequest); err != nil {
		return "", site.Unreadable(err)
	}
	if !x.in.Body.Whole {
		return bypassSize, nil
	}
	if reason := x.decode(); reason != understood {
		return reason, nil
	}
	return x.formQuestion(), nil
}

// identify finds out who asks.
func (x *exchange) identify() cache.Partition { return x.backend.Identity.Of(x.r, x.placeholders()) }

// placeholders returns those of the request, or nil.
func (x *exchange) placeholders() identity.Placeholders {
	if x.replacer == nil {
		return nil
	}
	return x.replacer
}

// decode decodes the body. Of a message that is neither for the cache nor opens a
// session, only the method is read: it is forwarded whatever else it says.
func (x *exchange) decode() bypass {
	if x.in.Recall(&x.endpoint.requests) {
		return understood
	}
	if method := outcome.NameOf(message.Method(x.in.Body.Bytes)); method != "" && method != "initialize" {
		if _, cached := revision.KindOf(method); !cached {
			x.in.Method = method
			return bypassMethod
		}
	}
	d, _ := x.in.Decode(&x.endpoint.requests)
	return reasons[d]
}

// reasons say why a request is forwarded that deviates.
var reasons = [...]bypass{
	inbound.None: understood, inbound.TooLarge: bypassSize, inbound.NoRoom: bypassSize,
	inbound.Batch: bypassBatch, inbound.Ambiguous: bypassAmbiguous, inbound.Invalid: bypassInvalid,
	inbound.NoRevision: bypassRevision, inbound.OtherRevision: bypassRevision, inbound.NoCapabilities: bypassRevision, inbound.OtherMethod: bypassRevision,
}

// formQuestion makes the question for the cache of a decoded request, or returns the reason why there is
// none.
func (x *exchange) formQuestion() bypass {
	q := &x.question
	kind, cached := revision.KindOf(x.in.Method)
	if !cached {
		return bypassMethod
	}
	q.kind = kind
	switch {
	case header.IsSigned(x.r.Header):
		return bypassSigned // each request has a signature of its own, so none would be a hit
	case x.in.Message.ID == nil || x.in.Message.ExtraMembers:
		return bypassInvalid
	case x.in.Message.UnsafeInteger, x.r.Header["Last-Event-Id"] != nil:
		// Some servers refuse such an integer and others round it; only a GET can
		// resume a stream.
		return bypassInvalid
	case !x.backend.Settings.Caches(kind):
		return bypassKind
	case x.r.URL.RawPath != "":
		return bypassAmbiguous // servers differ in whether /%6dcp is /mcp
	case x.in.Message.ExtraParams || (x.in.Message.URI != nil) != (kind == revision.Reads):
		return bypassParams
	case x.in.Message.Meta.Extra, x.in.Message.Meta.Baggage != nil && !identity.IsTracers(string(x.in.Message.Meta.Baggage)):
		return bypassMeta
	}
	if reason := x.readRevision(); reason != understood {
		return reason
	}
	q.detail = x.in.Message.URI
	if x.in.Message.Cursor != nil && !x.isOwnCursor() {
		if q.revision.Era() == revision.Legacy || kind == revision.Discover || kind == revision.Reads {
			return bypassCursor // a legacy cursor may mean something to its session only
		}
		q.detail = x.in.Message.Cursor
	}
	var ok bool
	if q.stream, ok = inbound.Accepts(x.r.Header["Accept"]); !ok {
		return bypassAccept
	}
	q.mark = x.backend.Cache.Mark(kind)
	return understood
}

// readRevision finds out which revision a request is made at, and checks that its
// headers and its body agree about it.
func (x *exchange) readRevision() bypass {
	meta := &x.in.Message.Meta
	if meta.Revision == nil && meta.Capabilities == nil {
		return x.readLegacyRevision()
	}
	if d := x.in.Mismatch(x.r.Header); d != inbound.None {
		return reasons[d]
	}
	r := revision.Parse(string(meta.Revision))
	switch {
	case r.Era() != revision.Modern,
		x.context != cache.Anonymous && header.HasPrefixed(x.r.Header, "Mcp-Param-"),
		!x.nameMatches():
		return bypassRevision
	}
	x.question.revision, x.question.capabilities = r, meta.Capabilities
	x.session = "" // modern servers ignore the header (2026-07-28, "Streamable HTTP")
	return understood
}

// nameMatches checks the Mcp-Name header: it has the URI of a resources/read, and
// lists do not have it.
func (x *exchange) nameMatches() bool {
	name := x.r.Header["Mcp-Name"]
	if x.question.kind != revision.Reads {
		return name == nil
	}
	return len(name) == 1 && inbound.Quotes(x.in.Message.URI, name[0])
}

func (x *exchange) readLegacyRevision() bypass {
	if session := x.r.Header["Mcp-Session-Id"]; session != nil && x.session == "" {
		return bypassRevision // several, or an empty one
	}
	r, ok := inbound.LegacyRevision(x.r.Header)
	if !ok || !x.question.kind.In(r) ||
		x.r.Header["Mcp-Method"] != nil && x.r.Header["Mcp-Method"][0] != x.in.Method {
		return bypassRevision
	}
	x.question.revision = r
	return understood
}
