// Package notices tells the clients of an endpoint that lists have changed, each on a stream of
// its own. A client gets a notice once the new list is there, so that it finds the new list.
//
// A [Broker] has the clients that listen. A [Publisher] publishes the lists of one configuration.
// The package knows nothing of requests, and of how lists are made.
package notices

import (
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Digest is the digest of a list's items.
type Digest = [sha256.Size]byte

// Kinds are the kinds of lists whose changes clients are notified of.
var Kinds = [...]revision.Kind{revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates}

// Pause is how long the broker does not notify clients of another change that no server has
// announced. Some servers make up their lists anew each time, and a client that is notified asks again.
const Pause = time.Minute

// ErrFull says that as many clients listen as may.
var ErrFull = errors.New("too many clients listen")

// Broker has the lists as clients see them, and the clients that listen for changes. It
// outlives the configurations that publish on it. Its methods may be called from several
// goroutines at once.
type Broker struct {
	mu         sync.Mutex
	limit      int
	ended      bool
	publishers []*Publisher // the last one counts
	lists      [2][revision.NumKinds]list
	listeners  map[*Listener]struct{}
	ofSession  map[[16]byte][]*Listener // the newest is last
	numbers    int64
}

// list is what clients of an era see of a kind.
type list struct {
	known    bool
	now      Digest
	notified Digest    // the list of the last notice
	quiet    time.Time // until then, the broker notifies clients only of changes that a server has announced
}

// NewBroker returns a broker that knows no lists and no clients.
func NewBroker() *Broker {
	return &Broker{listeners: make(map[*Listener]struct{}), ofSession: make(map[[16]byte][]*Listener), numbers: time.Now().UnixNano()}
}

// SetLimit sets how many clients may listen.
func (b *Broker) SetLimit(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = n
}

// Len returns how many clients listen.
func (b *Broker) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.listeners)
}

// Publisher publishes the lists of one configuration.
type Publisher struct {
	broker *Broker
	again  func()
}

// Publisher returns one that counts from now on, until it is closed, or another one is
// there. again is called when it counts once more; it must return at once.
func (b *Broker) Publisher(again func()) *Publisher {
	p := &Publisher{b, again}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.publishers = append(b.publishers, p)
	return p
}

// Close has the one before it count again, if there is one.
func (p *Publisher) Close() {
	b := p.broker
	b.mu.Lock()
	b.publishers = slices.DeleteFunc(b.publishers, func(other *Publisher) bool { return other == p })
	var last *Publisher
	if n := len(b.publishers); n > 0 {
		last = b.publishers[n-1]
	}
	b.mu.Unlock()
	if last != nil {
		last.again()
	}
}

// Publish says which items clients of an era see of a kind from now on, and reports whether those who
// listen are to be told: see [Publisher.Notify]. announced says that a server has announced a change
// since the last time, perhaps one that was found before that, or that servers are there, or
// are not, all of a sudden. It has to be called again after the pause.
func (p *Publisher) Publish(e revision.Era, k revision.Kind, items Digest, announced bool) (news bool) {
	b := p.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if !p.counts() {
		return false
	}
	l := &b.lists[e][k]
	if !l.known {
		l.known, l.notified = true, items
	}
	l.now = items
	switch {
	case l.notified == items:
		return false
	case announced:
		return true
	case time.Now().Before(l.quiet):
		return false
	}
	l.quiet = time.Now().Add(Pause)
	return true
}

// Notify gives the clients that listen a notice that a list has changed.
func (p *Publisher) Notify(e revision.Era, k revision.Kind) {
	b := p.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if !p.counts() {
		return
	}
	b.lists[e][k].notified = b.lists[e][k].now
	for listener := range b.listeners {
		if listener.era == e && b.isNewest(listener) {
			listener.add(topicOf(k))
		}
	}
}

// counts reports whether p is the last one. The caller holds b.mu.
func (p *Publisher) counts() bool {
	b := p.broker
	return !b.ended && len(b.publishers) > 0 && b.publishers[len(b.publishers)-1] == p
}

// topicOf returns the kind that stands for all of which a client is told in the same words:
// one notice is about resources and templates alike.
func topicOf(k revision.Kind) revision.Kind {
	if k == revision.ResourceTemplates {
		return revision.Resources
	}
	return k
}

// End ends all streams, and there are no more.
func (b *Broker) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for l := range b.listeners {
		l.end()
	}
}

// EndSession ends the streams of a session.
func (b *Broker) EndSession(id [16]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.ofSession[id] {
		l.end()
	}
}
