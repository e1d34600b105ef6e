// Package notices tells the clients of an endpoint that lists have changed, each on a stream
// of its own. A client is told once the new list is there, so that it finds it.
//
// It knows nothing of requests, and of how lists are made.
package notices

import (
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Digest is that of the items of a list.
type Digest = [sha256.Size]byte

// Kinds are those of lists that clients are told of.
var Kinds = [...]revision.Kind{revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates}

// Pause is how long clients are not told of another change that no server has announced:
// some servers make up their lists anew each time, and whoever is told asks again.
const Pause = time.Minute

// ErrFull says that as many clients listen as may.
var ErrFull = errors.New("too many clients listen")

// Board has the lists as clients see them, and the clients that listen for changes. It
// outlives the configurations that publish on it. Its methods may be called from several
// goroutines at once.
type Board struct {
	mu         sync.Mutex
	most       int
	ended      bool
	publishers []*Publisher // the last one counts
	lists      [2][revision.NumKinds]list
	listeners  map[*Listener]struct{}
	ofSession  map[[16]byte][]*Listener // the newest is last
	numbers    int64
}

// list is what clients of an era see of a kind.
type list struct {
	known bool
	now   Digest
	told  Digest // of which they have been told
	quiet time.Time
	later *time.Timer // when they are told of what changed in the pause; nil: of nothing
}

// NewBoard returns a board of which nothing is known.
func NewBoard() *Board {
	return &Board{listeners: make(map[*Listener]struct{}), ofSession: make(map[[16]byte][]*Listener), numbers: time.Now().UnixNano()}
}

// SetMost sets how many clients may listen.
func (b *Board) SetMost(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = n
}

// Len returns how many clients listen.
func (b *Board) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.listeners)
}

// Publisher publishes the lists of one configuration.
type Publisher struct {
	board *Board
	again func()
}

// Publisher returns one that counts from now on, until it is closed, or another one is
// there. again is called when it counts once more; it must return at once.
func (b *Board) Publisher(again func()) *Publisher {
	p := &Publisher{b, again}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.publishers = append(b.publishers, p)
	return p
}

// Close has the one before it count again, if there is one.
func (p *Publisher) Close() {
	b := p.board
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

// Publish says which items clients of an era see of a kind from now on, and tells those who
// listen if they are others than before. announced says that a server has announced a change
// since the last time, perhaps one that was found before that, or that servers are there, or
// are not, all of a sudden.
func (p *Publisher) Publish(e revision.Era, k revision.Kind, items Digest, announced bool) {
	b := p.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || len(b.publishers) == 0 || b.publishers[len(b.publishers)-1] != p {
		return
	}
	l := &b.lists[e][k]
	switch known := l.known; {
	case known && l.now == items:
		if announced && l.later != nil {
			b.tell(e, k)
		}
		return
	case !known:
		l.known, l.now, l.told = true, items, items
		return
	}
	l.now = items
	wait := time.Until(l.quiet)
	switch {
	case announced:
		b.tell(e, k)
	case wait <= 0:
		b.tell(e, k)
		l.quiet = time.Now().Add(Pause)
	case l.later == nil:
		l.later = time.AfterFunc(wait, func() { b.tellLater(e, k) })
	}
}

// tellLater tells of what has changed in the pause.
func (b *Board) tellLater(e revision.Era, k revision.Kind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.lists[e][k]
	if l.later == nil || b.ended { // they have been told meanwhile
		return
	}
	l.later = nil
	if l.told != l.now {
		b.tell(e, k)
		l.quiet = time.Now().Add(Pause)
	}
}

// tell tells those who listen that a list has changed. The caller holds b.mu.
func (b *Board) tell(e revision.Era, k revision.Kind) {
	l := &b.lists[e][k]
	if l.told = l.now; l.later != nil {
		l.later.Stop()
		l.later = nil
	}
	for listener := range b.listeners {
		if listener.era == e && b.isNewest(listener) {
			listener.add(topicOf(k))
		}
	}
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
func (b *Board) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for l := range b.listeners {
		l.end()
	}
	for e := range b.lists {
		for k := range b.lists[e] {
			if later := b.lists[e][k].later; later != nil {
				later.Stop()
			}
		}
	}
}

// EndSession ends the streams of a session.
func (b *Board) EndSession(id [16]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.ofSession[id] {
		l.end()
	}
}
