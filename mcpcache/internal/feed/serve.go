package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// acknowledgeTimeout is how long hydrating waits for the stream of notices to
// open. Should it open later, everything is fetched once more.
const acknowledgeTimeout = time.Second

// steady is how long a stream of notices must have lasted for the next one to be
// opened without delay: some servers end every stream after a while.
const steady = 5 * time.Second

// serve keeps the kinds right for as long as the session lasts, and returns
// why it ended.
func (f *Feed) serve(ctx context.Context, s *client.Session, retry *backoff.ExponentialBackOff) error {
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer lose(nil)
	if s.Listens() {
		opened := make(chan struct{})
		listening.Go(func() { f.listen(ctx, s, lose, opened) })
		f.await(ctx, opened)
	}
	f.hydrate(s)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, lost := f.step(ctx, s)
		if lost != nil {
			return lost
		}
		if f.isReady() {
			retry.Reset()
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-f.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// await waits until the stream of notices is open, or acknowledgeTimeout has passed.
func (f *Feed) await(ctx context.Context, opened <-chan struct{}) {
	timer := time.NewTimer(acknowledgeTimeout)
	defer timer.Stop()
	select {
	case <-opened:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// listen keeps a stream of notices open. Whenever one opens, everything is
// fetched: what changed before that was announced to nobody.
func (f *Feed) listen(ctx context.Context, s *client.Session, lose context.CancelCauseFunc, opened chan struct{}) {
	defer func() {
		if p := recover(); p != nil {
			lose(fmt.Errorf("listening panicked: %v", p))
		}
	}()
	var once sync.Once
	retry := newRetry()
	for {
		begun := time.Now()
		var wasOpen atomic.Bool
		err := s.Listen(ctx, func() {
			wasOpen.Store(true)
			f.trust(begun)
			if s.AnnouncesAny() {
				f.setListening(true)
				f.fetchAll(s) // the first time, hydrating does that
			}
			once.Do(func() { close(opened) })
		})
		f.setListening(false)
		if wasOpen.Load() && ctx.Err() == nil {
			f.doubt()
		}
		switch {
		case ctx.Err() != nil:
			return
		case isClosed(opened) && s.Lost(err):
			lose(err)
			return
		case errors.Is(err, client.ErrNoStream), s.Lost(err):
			// On a session that never had a stream, 404 is how some servers
			// say that they have none. If they mean the session, the fetches
			// will find out.
			once.Do(func() { close(opened) })
			return
		}
		if time.Since(begun) >= steady {
			retry.Reset()
		}
		if wasOpen.Load() {
			// What ended the stream may have ended more: the fetches find out.
			f.fetchAll(s)
			f.fetchOne(s)
		}
		f.wait(ctx, max(retry.NextBackOff(), client.RetryAfter(err)))
	}
}

// isClosed reports whether c is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// hydrate marks every kind that the upstream offers and the operator wants as
// due now. What failed on an earlier session is forgotten with it. However fast
// callers have the kinds fetched, nobody sees a later state before this one.
func (f *Feed) hydrate(s *client.Session) {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	f.hydrated = true
	for _, k := range revision.Kinds() {
		f.offer(k, f.wants(s, k))
	}
	state, failure := f.derive()
	f.mu.Unlock()
	f.progress(state, failure)
}

// reconsider takes over a change of the kinds that the operator wants, and of how
// long they are fresh: what was fetched before lives by what counted then.
func (f *Feed) reconsider() {
	f.mu.Lock()
	if !f.hydrated {
		f.mu.Unlock()
		return // the next hydrate takes it over
	}
	p := f.policy()
	for _, k := range revision.Kinds() {
		slot := &f.slots[k]
		switch wanted := f.wants(f.session, k); {
		case wanted != slot.offered:
			f.offer(k, wanted)
		case wanted && slot.failure == nil && slot.times != Times{} && slot.times != p.Of(k):
			slot.ask(p.Refresh)
		}
	}
	f.mu.Unlock()
	f.noteProgress()
	signal(f.wake)
}

// wants reports whether kind k is to be kept: the upstream offers it and the
// operator wants it.
func (f *Feed) wants(s *client.Session, k revision.Kind) bool {
	return f.policy().Kinds.Has(k) && s.Offers(k)
}

// offer has kind k fetched, or forgets it. The caller holds f.mu.
func (f *Feed) offer(k revision.Kind, offered bool) {
	slot := &f.slots[k]
	slot.offered, slot.attempted = offered, !offered
	slot.failure = nil
	slot.empty.Full()
	slot.due = later(time.Now(), slot.notBefore)
	if !offered {
		f.cache.Unpin(f.revision, k)
	}
}

// fetchAll marks every offered kind as due now.
func (f *Feed) fetchAll(s *client.Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != s {
		return
	}
	for k := range f.slots {
		if slot := &f.slots[k]; slot.offered && s.Announces(revision.Kind(k)) {
			slot.ask(f.policy().Refresh)
			slot.variantsDue = later(time.Now(), slot.variantsStarted.Add(f.policy().Refresh))
		}
	}
	signal(f.wake)
}

// fetchOne marks the first offered kind as due now: that is enough to find out
// whether the server still knows the session.
func (f *Feed) fetchOne(s *client.Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != s {
		return
	}
	for k := range f.slots {
		if slot := &f.slots[k]; slot.offered {
			slot.ask(f.policy().Refresh)
			break
		}
	}
	signal(f.wake)
}

// step starts what is due and returns how long nothing will be. It returns
// why the session is over, if a fetch has found out.
func (f *Feed) step(ctx context.Context, s *client.Session) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := time.Hour
	now := time.Now()
	for k := range f.slots {
		slot := &f.slots[k]
		if !slot.offered {
			continue
		}
		if slot.failure != nil && s.Lost(slot.failure.Err) {
			err := slot.failure.Err
			slot.failure = nil
			return 0, err
		}
		if wait := f.refreshVariants(ctx, s, revision.Kind(k), now); wait > 0 {
			next = min(next, wait)
		}
		if slot.due.IsZero() {
			continue
		}
		if wait := slot.due.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		if !slot.refreshing() {
			f.fetch(ctx, s, revision.Kind(k), nil)
		}
	}
	return next, nil
}

// early returns a moment somewhat before d is over, so that a list is fresh
// again before it goes stale, and instances do not ask all at once.
func early(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + 0.15*rand.Float64()))
}
