package feed

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Status is what a feed tells operators.
type Status struct {
	Revision revision.Revision
	State    State
	// Since is when the state began.
	Since time.Time
	// Hydrated says that there is a copy of every list that the upstream offers and
	// has ever delivered.
	Hydrated bool
	// Listening says that the upstream announces changes to the feed.
	Listening bool
	// Silent are the kinds whose lists have changed without a notice.
	Silent []revision.Kind
	// InVain are the kinds of which changes are announced that are none.
	InVain []revision.Kind
	// NotOffered are the kinds that the operator wants and the upstream does not have.
	NotOffered []revision.Kind
	// Failure is a failure since which no attempt at the same has succeeded, or nil.
	Failure *Failure
	// Next is when the next refresh is due, or when the one began that is under way; zero if there is
	// none.
	Next time.Time
	// Unanswered is how many requests of the upstream got no answer, because it sent
	// too many at a time.
	Unanswered int64
}

// Status returns what the feed is doing.
func (f *Feed) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := Status{
		Revision: f.revision, State: f.state, Since: f.since, Hydrated: f.complete(),
		Listening: f.conn != nil && f.conn.listening, Failure: f.failure, Unanswered: f.client.Unanswered(),
	}
	now := time.Now()
	for _, l := range f.lists {
		if l.notices.Caught(now) && l.offered {
			status.Silent = append(status.Silent, l.kind)
		}
		if l.notices.InVain() && l.offered {
			status.InVain = append(status.InVain, l.kind)
		}
		if f.conn.isHydrated() && l.trial.offered != nil && !l.offered {
			status.NotOffered = append(status.NotOffered, l.kind)
		}
		if l.failure != nil && status.Failure == nil {
			status.Failure = l.failure
		}
		next, asks := l.due, l.offered && !l.rests()
		if l.refreshing() {
			next, asks = l.started, true
		}
		if asks && !next.IsZero() && (status.Next.IsZero() || next.Before(status.Next)) {
			status.Next = next
		}
	}
	return status
}

// complete reports whether there is a copy of every kind that could be fetched. The
// caller holds f.mu.
func (f *Feed) complete() bool {
	copies := false
	for _, l := range f.lists {
		pinned := f.cache.Pinned(f.revision, l.kind) != nil
		if l.offered && !l.attempted && !pinned {
			return false
		}
		copies = copies || pinned
	}
	return copies || f.state == Ready
}

// Struggling reports whether the upstream does not deliver the list: it cannot be
// reached, its last answer could not be used, or the next has not come yet. A feed that
// yields does not ask.
func (l *List) Struggling() bool {
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	return !l.attempted && l.feed.state != Yielding || l.failure != nil || l.refreshing()
}

// Offers reports whether the upstream has the list, as far as the feed knows.
func (l *List) Offers() bool {
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	return l.feed.conn == nil || l.offered && !l.trial.on
}

// Lacks reports whether the upstream is known not to have the list: it does not offer it, or
// does not speak the feed's revision.
func (l *List) Lacks() bool {
	f := l.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unsupported.Load() || f.conn.isHydrated() && !l.offered
}

// Sessionless reports whether the upstream has opened the feed's session without an id: it
// tells no session from another.
func (f *Feed) Sessionless() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conn != nil && !f.conn.HasID()
}

// Owner is the authorization context of the feed itself.
func (f *Feed) Owner() cache.Partition { return f.policy().owner() }

// connected records that a session is open.
func (f *Feed) connected(c *connection) {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	f.conn, f.failure, f.absence = c, nil, absence{}
	f.suspected.Store(0)
	f.server.Store(c.Server())
	f.mu.Unlock()
	f.setState(Hydrating, nil)
}

// disconnected records that the session is over.
func (f *Feed) disconnected() {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	f.conn = nil
	for _, l := range f.lists {
		l.due, l.attempted = time.Time{}, false
		l.come(nil, errDisconnected)
	}
	f.mu.Unlock()
	f.setState(Connecting, nil)
}

// fail records that the upstream could not be reached.
func (f *Feed) fail(stage string, err error) {
	err = client.Brief(err)
	state := Down
	switch {
	case isUnsupported(err):
		state = Unsupported
		// Before the end of the first attempt, for which the other era waits.
		if unsupported, ok := errors.AsType[*client.UnsupportedError](err); ok && unsupported.Offered != revision.Unknown {
			f.group.Start(unsupported.Offered)
		}
	case client.Refused(err):
		state = NeedsAuthorization
	}
	failure := &Failure{Stage: stage, Err: err, At: time.Now()}
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	f.failure = failure
	f.mu.Unlock()
	f.suspectAfter(err, state)
	f.setState(state, failure)
}

// noteProgress derives the state and enters it, if the feed is connected.
func (f *Feed) noteProgress() {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	state, failure := f.derive()
	hydrated := f.conn.isHydrated()
	f.mu.Unlock()
	if hydrated {
		f.setState(state, failure)
	}
}

// derive derives the state of a connected feed from its kinds. The caller holds f.mu.
func (f *Feed) derive() (State, *Failure) {
	var failure *Failure
	offered, failing := 0, 0
	for _, l := range f.lists {
		switch {
		case !l.offered:
			continue
		case !l.attempted:
			return Hydrating, nil
		case l.failure != nil:
			failing++
			if failure == nil || client.Refused(l.failure.Err) {
				failure = l.failure
			}
		}
		offered++
	}
	f.useless = failing > 0 && failing == offered
	switch {
	case failing == 0:
		return Ready, nil
	case client.Refused(failure.Err):
		return NeedsAuthorization, failure
	case f.useless && !client.Answered(failure.Err):
		return Down, failure
	}
	return Degraded, failure
}

// isIn reports whether the feed is in one of those states.
func (f *Feed) isIn(states ...State) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(states, f.state)
}

// setState changes the state, and reports and logs that if it is another one. The first that
// does not lead on to another by itself ends the first attempt. The caller holds f.changing.
func (f *Feed) setState(state State, failure *Failure) {
	if state != Connecting && state != Hydrating {
		defer f.firstOnce.Do(func() { close(f.first) })
	}
	f.mu.Lock()
	from := f.state
	f.down.Store(state == Down || state == Degraded && f.useless)
	if from != state {
		f.state, f.since = state, time.Now()
		f.unsupported.Store(state == Unsupported)
		if state == Ready || state == Yielding || state == Degraded && f.hasGiven() {
			f.delivered.Store(true)
		}
	}
	f.mu.Unlock()
	if from == state {
		return
	}
	if observer := f.policy().Observer; observer != nil {
		observer.StateChanged(from, f.Status())
	}
	level, fields := zap.InfoLevel, append(make([]zap.Field, 0, 5),
		zap.Stringer("revision", f.revision), zap.String("from", string(from)), zap.String("to", string(state)))
	if failure != nil {
		fields = append(fields, zap.String("stage", failure.Stage), zap.Error(failure.Err))
		if state != Unsupported {
			level = zap.WarnLevel
		}
	}
	f.group.logger.Load().Log(level, "feed changed state", fields...)
}
