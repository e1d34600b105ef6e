package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

const (
	// maxURIs is how many single resources are announced at once. Where there are more, all count.
	maxURIs = 64
	// longest is how long somebody waits for others at most: for the store's answer, and then for
	// those who have not confirmed.
	longest = 2 * life
)

// everything is the set of all kinds.
const everything = revision.KindSet(1<<revision.NumKinds - 1)

// round is what is announced at once.
type round struct {
	cache.Change

	done chan struct{}
}

// message is a [cache.Change] as others are told of it.
type message struct {
	Kinds []string `json:"kinds,omitempty"`
	URIs  []string `json:"uris,omitempty"`
	Told  bool     `json:"told,omitempty"`
	Again bool     `json:"again,omitempty"`
}

// encode returns a change as a message.
func encode(c cache.Change) []byte {
	var m message
	for k := range revision.Kind(revision.NumKinds) {
		if c.Kinds.Has(k) {
			m.Kinds = append(m.Kinds, k.String())
		}
	}
	m.URIs, m.Told, m.Again = c.URIs, c.Told, c.Again
	data, _ := json.Marshal(m) // of texts alone
	return data
}

// decode returns the change of a message. What is not understood may have changed anything.
func decode(data []byte) cache.Change {
	var m message
	if json.Unmarshal(data, &m) != nil {
		return cache.Change{Kinds: everything}
	}
	c := cache.Change{URIs: m.URIs, Told: m.Told, Again: m.Again}
	for _, name := range m.Kinds {
		k := named(name)
		if k == 0 {
			return cache.Change{Kinds: everything}
		}
		c.Kinds |= k
	}
	return c
}

// named returns the set of the kind of that name, which is empty if there is none.
func named(name string) (s revision.KindSet) {
	for k := range revision.Kind(revision.NumKinds) {
		if k.String() == name {
			s |= revision.SetOf(k)
		}
	}
	return s
}

// add adds a change to another, which is empty if it is of nothing.
func add(c *cache.Change, more cache.Change) {
	c.Again = more.Again && (c.Again || isEmpty(*c))
	c.Kinds, c.Told = c.Kinds|more.Kinds, c.Told || more.Told
	if c.URIs = append(c.URIs, more.URIs...); len(c.URIs) > maxURIs {
		c.Kinds, c.URIs = c.Kinds|revision.SetOf(revision.Reads), nil
	}
}

func isEmpty(c cache.Change) bool { return c.Kinds == 0 && len(c.URIs) == 0 }

// tell has a change announced.
func (m *Member) tell(c cache.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.store != nil {
		m.announceNext(c)
	}
}

// announceNext has a change announced. The caller holds m.mu.
func (m *Member) announceNext(c cache.Change) {
	if m.next == nil {
		m.next = &round{done: make(chan struct{})}
	}
	add(&m.next.Change, c)
	signal(m.wake)
}

// sendAgain has announced what could not be before.
func (m *Member) sendAgain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.unsent; !isEmpty(c) {
		m.unsent = cache.Change{}
		m.announceNext(c)
	}
}

// Settle waits until all others have outdated what was announced here before, or are not
// [Member.Together] any more: then clients may hear of it. It waits for two seconds at most, and
// not at all while this instance is alone.
func (m *Member) Settle(ctx context.Context) {
	m.mu.Lock()
	last := m.next
	if last == nil {
		last = m.current
	}
	m.mu.Unlock()
	if last == nil {
		return
	}
	limit := time.NewTimer(longest)
	defer limit.Stop()
	select {
	case <-last.done:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// send announces changes until ctx ends.
func (m *Member) send(ctx context.Context) {
	for {
		select {
		case <-m.wake:
		case <-ctx.Done():
			m.silence()
			return
		}
		m.mu.Lock()
		store, now := m.store, m.next
		m.current, m.next = now, nil
		m.mu.Unlock()
		if now == nil {
			continue
		}
		var err error
		if store != nil {
			err = m.announce(ctx, store, now.Change)
		}
		m.mu.Lock()
		if m.current = nil; err != nil {
			add(&m.unsent, now.Change)
		}
		m.mu.Unlock()
		close(now.done)
	}
}

// silence has nothing be announced any more.
func (m *Member) silence() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.store = nil; m.next != nil {
		close(m.next.done)
		m.next = nil
	}
}

// announced is what became of an announcement.
type announced struct {
	number    uint64
	confirmed bool // all others have done so already
}

// firstAgain and lastAgain are the pauses before an announcement that failed is tried again.
const firstAgain, lastAgain = 5 * time.Millisecond, 50 * time.Millisecond

// announce announces a change, and waits for the others. An announcement that fails is tried again
// until all others are known to be cut off as this instance is, for two seconds at most.
func (m *Member) announce(ctx context.Context, store stores.Fleet, c cache.Change) error {
	place, err := m.place()
	if err != nil {
		return err
	}
	last := time.Now().Add(longest)
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		is, err := ask(ctx, func(ctx context.Context) (is announced, err error) {
			is.number, is.confirmed, err = store.Announce(ctx, place, m.name, encode(c), life)
			return is, err
		})
		if err == nil && !is.confirmed {
			wait(ctx, time.Now().Add(life), m.confirmation(is.number))
		}
		again := time.Now().Add(pause)
		if err == nil || ctx.Err() != nil || again.After(last) || again.After(m.untilAlone()) {
			return err
		}
		wait(ctx, again, nil)
	}
}

// untilAlone returns until when others may be members, if the store is away for all: for a life
// after this instance has ceased to be one.
func (m *Member) untilAlone() time.Time {
	m.lives.Lock()
	defer m.lives.Unlock()
	return m.until.Add(life)
}

// wait waits until then, or for something sooner.
func wait(ctx context.Context, until time.Time, sooner <-chan struct{}) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-sooner:
	case <-ctx.Done():
	}
}

// confirmation returns what is closed when all have confirmed everything up to a number.
func (m *Member) confirmation(number uint64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.awaited, m.awaiting = number, make(chan struct{})
	m.concludeWait()
	return m.awaiting
}

// confirmedTo notes that all have confirmed everything up to a number.
func (m *Member) confirmedTo(number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.confirmed = max(m.confirmed, number)
	m.concludeWait()
}

// concludeWait ends the wait for what is confirmed. The caller holds m.mu.
func (m *Member) concludeWait() {
	if m.awaited != 0 && m.confirmed >= m.awaited {
		m.awaited = 0
		close(m.awaiting)
	}
}
