package session

import (
	"container/list"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

// Table has the sessions of clients for which anything is open at a server, or remembered.
// It outlives the configurations that use it. Its methods may be called from several
// goroutines at once.
type Table struct {
	// Secret is of this table alone: what seals while there is no other.
	Secret secret.Secret

	mu       sync.Mutex
	limit    int
	sessions map[ID]*Entry
	used     list.List // of *Session; the one used longest ago is last
	ended    map[ID]struct{}
	endings  []ID // as a ring, once there are as many as are remembered
	next     int  // in it
	closing  endings
	numbers  atomic.Int64
}

// maxEnded is of how many sessions it is remembered that they have ended.
const maxEnded = 100_000

// ErrFull says that as many sessions as there may be are all in use.
var ErrFull = errors.New("there are too many sessions in use")

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{Secret: secret.New(), sessions: make(map[ID]*Entry), ended: make(map[ID]struct{})}
}

// SetLimit sets how many sessions there may be.
func (t *Table) SetLimit(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = n
}

// Len returns how many sessions there are.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sessions)
}

// Use returns a client's session, which is in use until [Entry.Leave] and ends at a time, if that is not zero.
// If there is no room for it, the idle one that was used longest ago ends. With none, it is [ErrFull]. It is [ErrEnded]
// if the session is known to have been ended.
func (t *Table) Use(id ID, until time.Time) (*Entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ended := t.ended[id]; ended {
		return nil, ErrEnded
	}
	s := t.sessions[id]
	if s == nil {
		for len(t.sessions) >= t.limit {
			idle := t.idle()
			if idle == nil {
				return nil, ErrFull
			}
			t.remove(idle)
		}
		s = &Entry{table: t, id: id, servers: make(map[string]*Upstream), calls: make(map[string]*Call)}
		s.place = t.used.PushFront(s)
		t.sessions[id] = s
		if !until.IsZero() {
			s.expiry = time.AfterFunc(time.Until(until), func() { t.expire(s) })
		}
	}
	t.used.MoveToFront(s.place)
	s.users++
	return s, nil
}

// idle returns the session that nobody uses and that was used longest ago, or nil.
func (t *Table) idle() *Entry {
	for e := t.used.Back(); e != nil; e = e.Prev() {
		if s := e.Value.(*Entry); s.users == 0 {
			return s
		}
	}
	return nil
}

// expire ends a session whose time is over, once nobody uses it any more.
func (t *Table) expire(s *Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.over = true
	t.endIfOver(s)
}

func (t *Table) endIfOver(s *Entry) {
	if s.over && s.users == 0 && t.sessions[s.id] == s {
		t.remove(s)
	}
}

// remove takes a session out of the table, and ends it with the servers.
func (t *Table) remove(s *Entry) {
	t.drop(s)
	for _, o := range s.close() {
		t.closing.add(o)
	}
}

func (t *Table) drop(s *Entry) {
	if t.sessions[s.id] == s {
		delete(t.sessions, s.id)
		t.used.Remove(s.place)
	}
	if s.expiry != nil {
		s.expiry.Stop()
	}
}

// forget takes a session out of the table that has ended.
func (t *Table) forget(s *Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(s)
}

// Number returns a number that no request has had that was sent in place of a client's. They
// are above those of our own requests in a session.
func (t *Table) Number() int64 { return firstNumber + t.numbers.Add(1) }

const firstNumber = 1_000_000

// End ends a client's session for good, as long as this process remembers that: a hundred
// thousand more have to end before it is forgotten. What is open at servers ends once nobody uses it any more.
func (t *Table) End(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[id]; s != nil {
		s.over = true
		t.endIfOver(s)
	}
	if _, has := t.ended[id]; has {
		return
	}
	t.ended[id] = struct{}{}
	if len(t.endings) < maxEnded {
		t.endings = append(t.endings, id)
		return
	}
	delete(t.ended, t.endings[t.next])
	t.endings[t.next] = id
	t.next = (t.next + 1) % maxEnded
}

// Ended reports whether a client's session is known to have been ended.
func (t *Table) Ended(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ended := t.ended[id]
	return ended
}

// Cancel returns the session with the server that works on a request of a client, or nil. It
// does so once. If the server does not have the request yet, it is never sent.
func (t *Table) Cancel(id ID, request []byte) *Upstream {
	t.mu.Lock()
	s := t.sessions[id]
	t.mu.Unlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[string(request)]
	if c == nil {
		return nil
	}
	delete(s.calls, c.id)
	c.cancelled = true
	if c.upstream == nil {
		c.cancel()
	}
	return c.upstream
}
