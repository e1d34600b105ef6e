package exchange

import (
	"context"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// answered is an exchange that is over, an [outcome.Answered].
type answered struct{ *exchange }

func (a answered) Context() context.Context    { return a.r.Context() }
func (a answered) Method() int                 { return outcome.LabelOf(a.r.Method, a.in.Method) }
func (a answered) MethodName() string          { return a.in.Method }
func (a answered) Outcome() outcome.Outcome    { return a.outcome }
func (a answered) Revision() revision.Revision { return a.revision() }
func (a answered) Kind() revision.Kind         { return a.question.kind }
func (a answered) Tool() string                { return a.tool() }
func (a answered) Server() string              { return "" }
func (a answered) Took() time.Duration         { return a.took }

// conclude reports what has become of the exchange.
func (x *exchange) conclude() {
	x.returnScout()
	x.took = time.Since(x.arrived)
	x.endpoint.Observer.Answered(answered{x})
	if c := x.endpoint.Logger.Check(zapcore.DebugLevel, "request decided"); c != nil {
		c.Write(zap.String("method", outcome.Methods[outcome.LabelOf(x.r.Method, x.in.Method)]), zap.Stringer("outcome", x.outcome),
			zap.String("reason", string(x.reason)), zap.Stringer("revision", x.revision()), zap.Duration("took", x.took))
	}
	x.in.Release()
}

// outcome returns what becomes of a request whose lookup found f.
func (f lookupResult) outcome() outcome.Outcome {
	switch {
	case f.reason != understood:
		return outcome.Bypass
	case f.entry == nil, f.fetched, f.status != "":
		return outcome.Miss
	case f.stale:
		return outcome.Stale
	}
	return outcome.Hit
}
