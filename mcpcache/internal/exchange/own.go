package exchange

import (
	"context"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
)

// maxScouts bounds how many requests of single callers others wait for. Other callers ask for
// themselves.
const maxScouts = 256

// awaitOwn has one request at a time ask the upstream for a list of an
// authorization context's own of which there is no copy. Who comes meanwhile, with
// the same credentials, waits until it is kept, and looks again: nobody is given
// what would not be given a moment later too. Lists that are not kept are each
// caller's to ask for.
func (x *exchange) awaitOwn(f lookupResult) lookupResult {
	if !f.none || x.scout != nil || x.leftToFeed() || x.question.detail != nil || !x.worthKeeping() {
		return f
	}
	scout, first := x.endpoint.scouts.Join(string(x.question.in(x.context).Key()))
	switch {
	case scout == nil:
		return f
	case first:
		// One may have returned just before this one was sent.
		if again := x.lookup(x.r.Context(), x.caller()); !again.none || x.scout != nil {
			scout.Land(struct{}{}, nil)
			return again
		}
		x.scout = scout
		return f
	}
	ctx, cancel := context.WithDeadline(x.r.Context(), x.arrived.Add(freshness.Patience)) // it may have waited already
	defer cancel()
	if _, err := scout.WaitUpTo(ctx, freshness.Patience); err != nil {
		return f
	}
	x.now = time.Now()
	again := x.lookup(x.r.Context(), x.caller())
	again.fetched = again.entry != nil && !again.stale
	return again
}
