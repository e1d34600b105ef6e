package outcome

import (
	"context"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Observer is told what becomes of requests. Its methods must not block.
type Observer interface {
	// Answered is called when a request has been answered, streams at their end.
	Answered(a Answered)
	// Noticed is called when a change has been noticed on the way of a request.
	Noticed(kinds revision.KindSet, source Source)
}

// Source is where a change was noticed. It is a closed set: it labels metrics.
type Source string

// The sources of changes besides the feeds.
const (
	// FromClient: a notice passed on its way to a client.
	FromClient Source = "client"
	// FromCall: a server has refused a call, as the client may have known an older list.
	FromCall Source = "call"
)

// Answered is a request that has been answered. It is valid until the call with it
// as an argument returns.
type Answered interface {
	// Context is the request's.
	Context() context.Context
	// Method is the index of the method's label in [Methods].
	Method() int
	// MethodName is the JSON-RPC method that the request names; "" if it is not known.
	MethodName() string
	// Outcome is what became of the request.
	Outcome() Outcome
	// Revision is the one that the request names.
	Revision() revision.Revision
	// Kind is what was asked for, where the answer came from the cache.
	Kind() revision.Kind
	// Tool is the tool that was called, if any. The body is read for it only if
	// somebody asks.
	Tool() string
	// Server is the name of the server of a toolkit that the request was handed to, if any.
	Server() string
	// Took is the time since the request arrived.
	Took() time.Duration
}
