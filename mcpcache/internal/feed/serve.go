package feed

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	var listening sync.WaitGroup
	defer listening.Wait()
	defer lose(nil)
	if s.Listens() {
		opened := make(chan struct{})
		listening.Go(func() { f.listen(ctx, s, lose, opened) })
		sleep(ctx, acknowledgeTimeout, opened)
	}
	f.hydrate(s)
	for {
		next, lost := f.step(ctx, s, lose)
		if lost != nil {
			return lost
		}
		if f.isIn(Ready) {
			retry.Reset()
		}
		if sleep(ctx, next, f.wake); ctx.Err() != nil {
			return context.Cause(ctx)
		}
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
	tried := sync.OnceFunc(func() { close(opened) })
	retry, refusals := newRetry(), newRetry()
	refusals.MaxInterval = maxRefusedPause
	cut := false // a stream has ended, and none was refused since
	for {
		begun := time.Now()
		var wasOpen atomic.Bool
		err := s.Listen(ctx, func() {
			wasOpen.Store(true)
			f.trust(begun)
			if s.AnnouncesAny() {
				f.setListening(true, false)
				f.fetchAll(s) // the first time, hydrating does that
			}
			tried()
		}, func() { f.Recheck(revision.Discover) })
		tried()
		refused := client.IsAnswer(err)
		f.setListening(false, refused)
		if ctx.Err() != nil || errors.Is(err, client.ErrNoStream) {
			return
		}
		ask := cut && refused
		if wasOpen.Load() || ask && s.Lost(err) {
			f.doubt()
		}
		if wasOpen.Load() {
			ask, cut = true, true
			f.fetchAll(s)
			refusals.Reset()
		}
		if time.Since(begun) >= steady {
			retry.Reset()
		}
		if ask {
			f.Recheck(revision.Discover) // which a server that was redeployed may answer otherwise
		}
		// The answer to a POST decides whether the session goes on, once after the end of
		// a stream, and once after the first refusal of another.
		if ask && !f.fetchOne(s) && s.Lost(err) {
			lose(err)
			return
		}
		pause := retry
		if refused {
			pause, cut = refusals, false
		}
		sleep(ctx, max(pause.NextBackOff(), client.RetryAfter(err)), f.retryNow)
	}
}

// maxRefusedPause is the longest pause between two tries to open a stream that the
// server refuses. Some take no new one for minutes after a stream was cut, as they have
// not missed that yet (render-mcp-server#26, mcp-sap-docs#75); others have none at all,
// and say so by another status than 405.
const maxRefusedPause = 10 * time.Minute

// errDescribed says that the upstream has described itself otherwise than at the beginning.
var errDescribed = errors.New("upstream offers or announces something else now")

// describe takes over what a modern upstream says of itself now. If that is about other
// lists or changes than before, such as after it was redeployed, the feed begins anew. If
// it has refused to be listened to, it is asked again. The caller holds f.mu.
func (f *Feed) describe(now *client.ServerInfo) {
	f.server.Store(now)
	before := f.session.Server()
	switch {
	case !maps.Equal(before.Capabilities, now.Capabilities), !maps.Equal(before.ListChanged, now.ListChanged):
		f.end(errDescribed)
	case f.session.Listens() && f.refused:
		signal(f.retryNow)
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
	restored := f.restored()
	for _, k := range revision.Kinds() {
		f.offer(k, f.policy().Kinds.Has(k) && s.Offers(k))
		if restored {
			f.slots[k].attempted, f.slots[k].settled = true, true
		} else {
			f.try(s, k)
		}
	}
	state, failure := f.derive()
	f.mu.Unlock()
	f.enter(state, failure)
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
		switch wanted := p.Kinds.Has(k) && (slot.offered || f.session.Offers(k)); {
		case wanted != slot.offered:
			f.offer(k, wanted)
		case wanted && slot.failure == nil && slot.times != Times{} && slot.times != p.Of(k):
			slot.ask(p.Refresh)
		}
		f.try(f.session, k)
	}
	f.mu.Unlock()
	f.noteProgress()
	signal(f.wake)
}

// offer has kind k fetched, or forgets it. The caller holds f.mu.
func (f *Feed) offer(k revision.Kind, offered bool) {
	slot := &f.slots[k]
	slot.offered, slot.attempted = offered, !offered
	slot.delivered, slot.trial, slot.learned = false, false, false
	slot.failure = nil
	slot.come(nil, ErrNotFeeding)
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
// whether the server still knows the session. It returns false if there is none.
func (f *Feed) fetchOne(s *client.Session) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := range f.slots {
		if slot := &f.slots[k]; slot.offered && !slot.trial && f.session == s {
			slot.ask(f.policy().Refresh)
			signal(f.wake)
			return true
		}
	}
	return false
}

// step starts what is due and returns how long nothing will be. It returns
// why the session is over, if a fetch has found out.
//
// One list is fetched at a time: a bridge to a slow program answers one after another
// (supergateway#142), and some servers count requests (cartesia-mcp#80).
func (f *Feed) step(ctx context.Context, s *client.Session, lose context.CancelCauseFunc) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := time.Hour
	now := time.Now()
	var most *slot // the one that has been due for longest
	var kind revision.Kind
	busy := false
	for k := range f.slots {
		slot := &f.slots[k]
		if !slot.offered {
			continue
		}
		if err := f.lostBy(ctx, s, slot, lose); err != nil {
			return 0, err
		}
		if wait := f.refreshVariants(ctx, s, revision.Kind(k), now); wait > 0 {
			next = min(next, wait)
		}
		busy = busy || slot.turning || slot.refreshing()
		switch wait := slot.due.Sub(now); {
		case slot.due.IsZero():
		case wait > 0:
			next = min(next, wait)
		case f.rests(revision.Kind(k)): // until it is woken
		case most == nil || most.trial && !slot.trial || slot.trial == most.trial && slot.due.Before(most.due):
			most, kind = slot, revision.Kind(k)
		}
	}
	switch {
	case most == nil || busy:
	case f.aged(kind) != nil:
		f.takeTurn(ctx, s, kind, f.aged(kind))
	default:
		f.fetch(ctx, s, kind, nil)
	}
	return next, nil // the end of a fetch wakes whoever waits for its turn
}

// early returns a moment somewhat before d is over, so that a list is fresh
// again before it goes stale, and instances do not ask all at once.
func early(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + 0.15*rand.Float64()))
}
