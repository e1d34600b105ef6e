package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Which eras an upstream speaks is a property of the upstream, and asking is not free:
// some legacy servers exit at a server/discover (webclaw#107), others close the
// connection (copilot-cli#4809). So the legacy era is tried first, which such servers
// speak, and one that gave no answer for the other is asked for that ever more seldom.

// awaitFirstEra makes a modern feed wait until the legacy feeds have found out whether the upstream speaks
// the legacy era. The wait ends earlier if a client shows the modern era. If the upstream has shown it
// already, awaitFirstEra does not wait.
func (f *Feed) awaitFirstEra(ctx context.Context) {
	defer f.waits.Store(false)
	if f.revision.Era() == revision.Legacy || f.spoken() {
		return
	}
	f.waits.Store(true)
	for other := f.group.untried(revision.Modern); other != nil; other = f.group.untried(revision.Modern) {
		select {
		case <-other.Attempted():
		case <-f.retryNow:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hurry ends the wait in awaitFirstEra.
func (f *Feed) hurry() {
	if f.waits.Load() {
		flight.Signal(f.retryNow)
	}
}

// untried returns a feed of another era than that whose first attempt is not over, or nil.
func (g *Group) untried(e revision.Era) *Feed {
	for _, other := range g.except(e) {
		if !isClosed(other.Attempted()) {
			return other
		}
	}
	return nil
}

// works reports whether the upstream speaks this feed's revision with it.
func (f *Feed) works() bool { return f.isIn(Ready, Degraded, Yielding) }

// spoken reports whether the upstream is known to have spoken the feed's revision, in
// this process or before it.
func (f *Feed) spoken() bool {
	return f.server.Load() != nil || f.hasGiven()
}

// except returns the feeds of the other eras than that one.
func (g *Group) except(e revision.Era) []*Feed {
	return slices.DeleteFunc(g.All(), func(f *Feed) bool { return f.revision.Era() == e })
}

// notOfferedError says that the upstream failed to open a session at a revision while it
// spoke the other era: it counts as one that does not speak the revision.
type notOfferedError struct {
	revision revision.Revision
	cause    error
}

func (e *notOfferedError) Error() string {
	probe, speaks := "initialize", revision.Modern
	if e.revision.Era() == revision.Modern {
		probe, speaks = "server/discover", revision.Legacy
	}
	return fmt.Sprintf("upstream gave no usable answer to %s, and speaks the %s era: not offered: %v", probe, speaks, e.cause)
}

func (e *notOfferedError) Unwrap() error { return e.cause }

// isUnsupported reports whether err says that the upstream does not speak a revision.
func isUnsupported(err error) bool {
	_, said := errors.AsType[*client.UnsupportedError](err)
	_, shown := errors.AsType[*notOfferedError](err)
	return said || shown
}

// explainFailure decides what a failure to open a session means, and returns err or the error that takes
// its place. alone says that no feed of the other era worked when the attempt
// began: what fails then may be the whole upstream. An upstream that has failed that way
// once is not asked more often because its other era fails, too, as it does after an
// exit.
func (f *Feed) explainFailure(err error, alone bool) error {
	if isUnsupported(err) || client.RetryAfter(err) > 0 || f.spoken() || isOwnFault(err) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.absence.shown && client.Refused(err) {
		return err // the upstream let a client in, so it is the credential
	}
	if alone {
		if f.failure == nil {
			return err
		}
		if _, before := errors.AsType[*notOfferedError](f.failure.Err); !before {
			return err
		}
	}
	return &notOfferedError{revision: f.revision, cause: err}
}

// isOwnFault reports whether err is a guard's and nothing of the upstream's.
func isOwnFault(err error) bool {
	_, guard := errors.AsType[*client.GuardError](err)
	_, answered := errors.AsType[*client.StatusError](err)
	return guard && !answered
}

// absence is what is remembered of an upstream that does not speak the feed's revision.
type absence struct {
	// pause was the last one before it was asked again; 0 if there was none.
	pause time.Duration
	// patience is how old the last failure must be for a client to count that shows
	// the revision.
	patience time.Duration
	// shown says that a client has shown the revision.
	shown bool
}

// retryShownEra asks the upstream for the revision at once, because it has answered a client of that
// revision. For each time that was in vain, clients have to show it for twice as long, up to
// a lifetime: some servers answer such requests without speaking the revision. The caller
// holds f.mu.
func (f *Feed) retryShownEra(refresh time.Duration) {
	patience := max(refresh, f.absence.patience)
	if time.Since(f.failure.At) < patience {
		return
	}
	f.absence = absence{shown: true, patience: min(2*patience, max(refresh, f.policy().TTL))}
	flight.Signal(f.retryNow)
}
