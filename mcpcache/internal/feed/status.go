package feed

import (
	"context"
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
		Listening: f.listening, Failure: f.failure, Unanswered: f.client.Unanswered(),
	}
	now := time.Now()
	for k := range f.slots {
		slot := &f.slots[k]
		if slot.notices.Caught(now) && slot.offered {
			status.Silent = append(status.Silent, revision.Kind(k))
		}
		if slot.notices.InVain() && slot.offered {
			status.InVain = append(status.InVain, revision.Kind(k))
		}
		if f.hydrated && slot.triedFor != nil && !slot.offered {
			status.NotOffered = append(status.NotOffered, revision.Kind(k))
		}
		if slot.failure != nil && status.Failure == nil {
			status.Failure = slot.failure
		}
		next, asks := slot.due, slot.offered && !f.rests(revision.Kind(k))
		if slot.refreshing() {
			next, asks = slot.started, true
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
	for k := range f.slots {
		slot := &f.slots[k]
		pinned := f.cache.Pinned(f.revision, revision.Kind(k)) != nil
		if slot.offered && !slot.attempted && !pinned {
			return false
		}
		copies = copies || pinned
	}
	return copies || f.state == Ready
}

// Struggling reports whether the upstream does not deliver a kind: it cannot be
// reached, its last answer could not be used, or the next has not come yet. A feed that
// yields does not ask.
func (f *Feed) Struggling(k revision.Kind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	slot := &f.slots[k]
	return !slot.attempted && f.state != Yielding || slot.failure != nil || slot.refreshing()
}

// Offers reports whether the upstream has kind k, as far as the feed knows.
func (f *Feed) Offers(k revision.Kind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.session == nil || f.slots[k].offered && !f.slots[k].trial
}

// Lacks reports whether the upstream is known not to have kind k: it does not offer it, or
// does not speak the feed's revision.
func (f *Feed) Lacks(k revision.Kind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unsupported.Load() || f.hydrated && !f.slots[k].offered
}

// Sessionless reports whether the upstream has opened the feed's session without an id: it
// tells no session from another.
func (f *Feed) Sessionless() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.session != nil && !f.session.HasID()
}

// Owner is the authorization context of the feed itself.
func (f *Feed) Owner() cache.Partition { return f.policy().owner() }

// connected records that the session is open.
func (f *Feed) connected(ctx context.Context, s *client.Session, end context.CancelCauseFunc, ended chan struct{}) {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	f.session, f.ctx, f.end, f.ended = s, ctx, end, ended
	f.opened, f.listened = time.Now(), time.Time{}
	f.failure, f.absence, f.replacing = nil, absence{}, false
	f.doubted.Store(0)
	f.server.Store(s.Server())
	f.mu.Unlock()
	f.enter(Hydrating, nil)
}

// disconnected records that the session is over.
func (f *Feed) disconnected() {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	f.session, f.ctx, f.end, f.ended, f.listening, f.hydrated = nil, nil, nil, nil, false, false
	for k := range f.slots {
		f.slots[k].due, f.slots[k].attempted = time.Time{}, false
		f.slots[k].come(nil, errDisconnected)
	}
	f.mu.Unlock()
	f.enter(Connecting, nil)
}

func (f *Feed) setListening(on, refused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = refused
	if f.listening = on; on {
		f.listened = time.Now()
	}
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
	f.doubtAfter(err, state)
	f.enter(state, failure)
}

// noteProgress derives the state and enters it, if the feed is connected.
func (f *Feed) noteProgress() {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	state, failure := f.derive()
	hydrated := f.hydrated
	f.mu.Unlock()
	if hydrated {
		f.enter(state, failure)
	}
}

// derive derives the state of a connected feed from its kinds. The caller holds f.mu.
func (f *Feed) derive() (State, *Failure) {
	var failure *Failure
	offered, failing := 0, 0
	for k := range f.slots {
		slot := &f.slots[k]
		switch {
		case !slot.offered:
			continue
		case !slot.attempted:
			return Hydrating, nil
		case slot.failure != nil:
			failing++
			if failure == nil || client.Refused(slot.failure.Err) {
				failure = slot.failure
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

// enter changes the state, and reports and logs that if it is another one. The first that
// does not lead on to another by itself ends the first attempt. The caller holds f.changing.
func (f *Feed) enter(state State, failure *Failure) {
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
