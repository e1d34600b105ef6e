package exchange

import (
	"context"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

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
	// FromCall: a server has refused a call for what the client took from a list.
	FromCall Source = "call"
)

// Answered is a request that has been answered. It is valid until the call with it
// as an argument returns.
type Answered struct {
	x *exchange
	// Took is the time since the request arrived.
	Took time.Duration
}

// Context is the request's.
func (a Answered) Context() context.Context { return a.x.r.Context() }

// Method is the index of the method's label in [Methods].
func (a Answered) Method() int { return a.x.methodLabel() }

// Outcome is what became of the request.
func (a Answered) Outcome() Outcome { return a.x.outcome }

// Revision is the one that the request names.
func (a Answered) Revision() revision.Revision { return a.x.revision() }

// Kind is what was asked for, where the answer came from the cache.
func (a Answered) Kind() revision.Kind { return a.x.question.kind }

// Tool is the tool that was called, if any. The body is read for it only if
// somebody asks.
func (a Answered) Tool() string { return a.x.tool() }

// end reports what has become of the exchange.
func (x *exchange) end() {
	x.returnScout()
	if x.screen != nil {
		x.screen.share.Release()
	}
	took := time.Since(x.arrived)
	x.endpoint.Observer.Answered(Answered{x, took})
	if c := x.endpoint.Logger.Check(zapcore.DebugLevel, "request decided"); c != nil {
		c.Write(zap.String("method", Methods[x.methodLabel()]), zap.Stringer("outcome", x.outcome),
			zap.String("reason", string(x.reason)), zap.Stringer("revision", x.revision()), zap.Duration("took", took))
	}
}
