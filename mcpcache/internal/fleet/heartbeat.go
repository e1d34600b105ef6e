package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// heartbeat is one period of membership: the instance listens to the store, and confirms in each beat
// what it has received.
type heartbeat struct {
	*Member

	store stores.Fleet
	at    string        // the place
	more  chan struct{} // something is to be confirmed
	// forgotten says that the store did not know of the last membership any more.
	forgotten bool
	// owed is the number of the last announcement that the store had at the time asked. It is 0 if the
	// instance has received all of them. The mutex receiving guards it.
	owed   uint64
	asked  time.Time
	logged time.Time // when the members were last logged, if that was news
}

var errDeaf = errors.New("the store has stopped listening")

// errLate says that memberships do not last.
var errLate = errors.New("the store answers too late for a membership to last")

// keepMembership joins the other instances, and stays a member until ctx ends or the store fails. It
// reports whether the membership has lasted for a while. With forgotten, the store has lost the last
// membership.
func (m *Member) keepMembership(ctx context.Context, store stores.Fleet, forgotten bool) (lasted bool, err error) {
	defer m.tried()
	place, err := m.place()
	if err != nil {
		return false, err
	}
	a := &heartbeat{Member: m, store: store, at: place, more: make(chan struct{}, 1), forgotten: forgotten}
	ctx, cancel := context.WithCancel(ctx)
	listening, deaf := make(chan struct{}), make(chan struct{})
	failure := errDeaf
	go func() {
		defer close(deaf)
		var once sync.Once
		if err := guard(func() error {
			return store.Listen(ctx, place, func() { once.Do(func() { close(listening) }) }, a.receive)
		}); err != nil {
			failure = err
		}
	}()
	defer func() { cancel(); <-deaf }()
	select {
	case <-listening:
		err = a.join(ctx)
	case <-deaf:
		return false, failure
	case <-time.After(joinTimeout):
		return false, fmt.Errorf("%w: waiting to listen", stores.ErrAway)
	}
	m.tried()
	for joined := time.Now(); err == nil; {
		if time.Since(joined) >= stable {
			lasted = true
			m.lasts()
		}
		a.log()
		select {
		case <-a.more:
			err = a.confirm(ctx, false)
		case <-time.After(beat):
			err = a.confirm(ctx, true)
		case <-deaf:
			return lasted, failure
		}
	}
	return lasted, err
}

// log says who is a member, if that is news: once in a beat at most, as whoever can write to the store can
// have that change at any time.
func (a *heartbeat) log() {
	if time.Since(a.logged) < beat {
		return
	}
	a.logged = time.Now()
	a.logMembers()
	a.warnOfStrangers()
}

// tried notes that joining has been.
func (m *Member) tried() { m.once.Do(func() { close(m.first) }) }

// join begins a membership.
func (a *heartbeat) join(ctx context.Context) error {
	since, goesOn := time.Now(), !a.membership.hasEnded()
	is, err := callStore(ctx, func(ctx context.Context) (stores.Standing, error) { return a.store.Join(ctx, a.at, a.name, life) })
	if err != nil {
		return err
	}
	a.meet(is.Members)
	a.proves(a.store, is.Last)
	a.receiving.Lock()
	defer a.receiving.Unlock()
	if is.Last != a.lastReceived {
		// While the membership went on, others have told their clients, unless the store counts anew.
		a.membership.missed(goesOn && !a.forgotten)
		a.lastReceived = is.Last
	}
	a.membership.renew(since)
	a.sendAgain()
	return nil
}

// receive takes an announcement from the store. The instance receives its own ones, too.
func (a *heartbeat) receive(h stores.Announcement) {
	if h.Confirmed {
		a.confirmedTo(a.store, h.Number)
		return
	}
	a.receiving.Lock()
	defer a.receiving.Unlock()
	if h.Member != a.name {
		if len(h.Message) == 0 || len(h.Message) > stores.MaxMessage {
			a.ignores("a message that is too long")
		}
		said := decode(h.Message)
		a.cache.Receive(said.Change)
		a.receiveSecrets(h.Member, said.marks)
	}
	if h.Number > a.lastReceived+1 {
		a.membership.missed(true)
	}
	a.received(h.Number)
	flight.Signal(a.more)
}

// received records that all announcements up to a number have outdated what they concern. The caller
// holds a.receiving.
func (a *heartbeat) received(number uint64) {
	a.lastReceived = max(a.lastReceived, number)
	if a.owed != 0 && a.owed <= a.lastReceived {
		a.owed = 0
		a.membership.renew(a.asked)
	}
}

// confirm tells the store the number up to which the instance has received announcements. With idle, it
// has received none for a beat: then an announcement that is still on its way does not come any more. A number that the store has not given out yet was not its own: others may
// write to the channel, and have a counter of their own. It may have hidden that something was lost.
func (a *heartbeat) confirm(ctx context.Context, idle bool) error {
	a.receiving.Lock()
	last := a.lastReceived
	a.receiving.Unlock()
	since := time.Now()
	is, err := callStore(ctx, func(ctx context.Context) (stores.Standing, error) {
		return a.store.Confirm(ctx, a.at, a.name, last, life)
	})
	switch {
	case err != nil && !errors.Is(err, stores.ErrNoMember):
		return err
	case a.membership.hasEnded() && time.Since(since) > tooLate:
		return errLate
	case err != nil, a.membership.hasEnded(): // we were paused, or the store has forgotten us
		return stores.ErrNoMember
	}
	a.meet(is.Members)
	a.proves(a.store, is.Last)
	a.sendAgain()
	a.receiving.Lock()
	defer a.receiving.Unlock()
	foreign := last > is.Last
	if foreign {
		a.lastReceived = is.Last
	}
	if foreign || idle && a.owed != 0 {
		a.membership.missed(true)
		a.received(is.Last)
		flight.Signal(a.more)
	}
	if a.owed == 0 {
		a.owed, a.asked = is.Last, since
		a.received(a.lastReceived)
	}
	return nil
}

// callStore calls the store, for no longer than a membership lasts.
func callStore[T any](ctx context.Context, do func(context.Context) (T, error)) (value T, err error) {
	ctx, cancel := context.WithTimeout(ctx, life)
	defer cancel()
	err = guard(func() error {
		value, err = do(ctx)
		return err
	})
	return value, err
}
