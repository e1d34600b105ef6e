package feed

import (
	"maps"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
)

// trial is what is known of a list that the server does not offer.
type trial struct {
	on bool // it is asked for all the same: see [List.try]
	// offered is what the server offered when it was asked for last; nil: it was not.
	offered map[string]bool
	learned bool // a client was given it, and the feed has not been yet: see [List.Learn]
}

// try has the list asked for once, if the server does not offer it: some servers write
// their capabilities otherwise than as objects, or leave them out, and have the list all
// the same (codebase-memory#1185, batpred#3501). It is asked for again when the server
// offers something else. The caller holds the feed's mu.
func (l *List) try() {
	switch offers := l.feed.conn.Server().Capabilities; {
	case !l.feed.policy().Kinds.Has(l.kind):
		l.trial.offered = nil
	case l.offered, !l.kind.In(l.feed.revision), l.trial.offered != nil && maps.Equal(l.trial.offered, offers):
	default:
		l.trial.offered = offers
		l.offered, l.trial.on = true, true
		l.due = later(time.Now(), l.notBefore)
	}
}

// Learn tells the feed that the server has given a client the list: some offer
// kinds only to clients that can do something themselves (crush#1447).
func (l *List) Learn() {
	f := l.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.conn.isHydrated() || l.offered || !f.policy().Kinds.Has(l.kind) {
		return
	}
	l.offered, l.trial.learned = true, true
	l.due = later(time.Now(), l.notBefore)
	flight.Signal(f.wake)
}

// Learned reports whether the server has given clients the list, and not the feed.
func (l *List) Learned() bool {
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	return l.trial.learned
}
