package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

const (
	// maxURIs is how many single resources are announced at once. Where there are more, all count.
	maxURIs = 64
	// maxURIBytes is how long they may be together. Caches look at no longer ones than these. In JSON, each
	// byte may take six: with all lists, that fits into [stores.MaxMessage].
	maxURIBytes = maxURIs * 2048
	// longest is how long somebody waits for others at most: for the store's answer, and then for
	// those who have not confirmed.
	longest = 2 * life
)

// everything is the set of all kinds.
const everything = revision.KindSet(1<<revision.NumKinds - 1)

// news is what an instance publishes at once: a change, and the marks of its secrets. Either may be
// missing.
type news struct {
	cache.Change

	marks []string
}

func (n news) isEmpty() bool {
	return n.Kinds == 0 && len(n.URIs) == 0 && len(n.Lists) == 0 && len(n.marks) == 0
}

// add adds other news.
func (n *news) add(more news) {
	if more.Kinds != 0 || len(more.URIs) > 0 {
		n.Again = more.Again && (n.Again || n.Kinds == 0 && len(n.URIs) == 0)
	}
	n.Kinds, n.Told = n.Kinds|more.Kinds, n.Told || more.Told
	if n.URIs = append(n.URIs, more.URIs...); len(n.URIs) > maxURIs || sizeOf(n.URIs) > maxURIBytes {
		n.Kinds, n.URIs = n.Kinds|revision.SetOf(revision.Reads), nil
	}
	for _, l := range more.Lists { // the last one of each counts
		n.Lists = slices.DeleteFunc(n.Lists, func(old cache.Listed) bool { return old.Revision == l.Revision && old.Kind == l.Kind })
		n.Lists = append(n.Lists, l)
	}
	if len(more.marks) > 0 {
		n.marks = more.marks
	}
}

// sizeOf returns how long texts are together, in bytes.
func sizeOf(texts []string) (n int) {
	for _, text := range texts {
		n += len(text)
	}
	return n
}

// round is what is announced at once.
type round struct {
	news

	done chan struct{}
}

// message is the form in which the others receive [news].
type message struct {
	Kinds   []string `json:"kinds,omitempty"`
	URIs    []string `json:"uris,omitempty"`
	Told    bool     `json:"told,omitempty"`
	Again   bool     `json:"again,omitempty"`
	Lists   []listed `json:"lists,omitempty"`
	Secrets []string `json:"secrets,omitempty"`
}

// listed is a [cache.Listed].
type listed struct {
	Revision string `json:"revision"`
	Kind     string `json:"kind"`
	Items    []byte `json:"items"`
	Outdated bool   `json:"outdated,omitempty"`
}

// encode returns news as a message.
func encode(n news) []byte {
	m := message{URIs: n.URIs, Told: n.Told, Again: n.Again, Secrets: n.marks}
	for k := range revision.Kind(revision.NumKinds) {
		if n.Kinds.Has(k) {
			m.Kinds = append(m.Kinds, k.String())
		}
	}
	for _, l := range n.Lists {
		m.Lists = append(m.Lists, listed{l.Revision.String(), l.Kind.String(), l.Items[:], l.Outdated})
	}
	data, _ := json.Marshal(m) // of texts and bytes alone
	return data
}

// decode returns the news of a message. What is not understood may have changed anything.
func decode(data []byte) news {
	var m message
	if len(data) > stores.MaxMessage || json.Unmarshal(data, &m) != nil {
		return news{Change: cache.Change{Kinds: everything}}
	}
	n := news{cache.Change{URIs: m.URIs, Told: m.Told, Again: m.Again}, m.Secrets}
	for _, name := range m.Kinds {
		k := named(name)
		if k == 0 {
			return news{Change: cache.Change{Kinds: everything}}
		}
		n.Kinds |= k
	}
	for _, l := range m.Lists {
		k, isKind := revision.ParseKind(l.Kind)
		r := revision.Parse(l.Revision)
		if !isKind || r == revision.Unknown || len(l.Items) != sha256.Size {
			return news{Change: cache.Change{Kinds: everything}}
		}
		n.Lists = append(n.Lists, cache.Listed{Revision: r, Kind: k, Items: [sha256.Size]byte(l.Items), Outdated: l.Outdated})
	}
	return n
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

// publish has a change announced to the other instances.
func (m *Member) publish(c cache.Change) { m.publishNews(news{Change: c}) }

// publishNews has news announced. Without a store it drops them.
func (m *Member) publishNews(n news) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.store == nil {
		return
	}
	if m.next == nil {
		m.next = &round{done: make(chan struct{})}
	}
	m.next.add(n)
	flight.Signal(m.wake)
}

// sendAgain has announced what could not be before.
func (m *Member) sendAgain() {
	m.mu.Lock()
	unsent := m.unsent
	m.unsent = news{}
	m.mu.Unlock()
	if !unsent.isEmpty() {
		m.publishNews(unsent)
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
			err = m.announce(ctx, store, now.news)
		}
		m.mu.Lock()
		if m.current = nil; err != nil {
			m.unsent.add(now.news)
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

// announce announces news, and waits for the others. An announcement that fails is tried again
// until all others are known to be cut off as this instance is, for two seconds at most.
func (m *Member) announce(ctx context.Context, store stores.Fleet, n news) error {
	place, err := m.place()
	if err != nil {
		return err
	}
	last := time.Now().Add(longest)
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		m.beginWait()
		is, err := callStore(ctx, func(ctx context.Context) (is announced, err error) {
			is.number, is.confirmed, err = store.Announce(ctx, place, m.name, encode(n), life)
			return is, err
		})
		if err == nil && !is.confirmed {
			wait(ctx, time.Now().Add(life), m.confirmation(is.number))
		}
		again := time.Now().Add(pause)
		if err == nil || ctx.Err() != nil || again.After(last) || again.After(m.membership.untilAlone()) {
			return err
		}
		wait(ctx, again, nil)
	}
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
