package session

import (
	"container/list"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

// Table has an entry for each client's session for which anything is open at a server, or remembered.
// It outlives the configurations that use it. Its methods may be called from several
// goroutines at once.
type Table struct {
	// Secret is of this table alone: what seals while there is no other.
	Secret secret.Secret

	mu       sync.Mutex
	limit    int
	sessions map[ID]*Entry
	used     list.List // of *Entry; the one used longest ago is last
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

// Use returns the entry of a client's session, which is in use until [Entry.Leave]. The session ends
// at the time until, if that is not zero. If there is no room, Use ends the idle entry that was used
// longest ago. It returns [ErrFull] if no entry is idle, and [ErrEnded] if the session has ended.
func (t *Table) Use(id ID, until time.Time) (*Entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ended := t.ended[id]; ended {
		return nil, ErrEnded
	}
	e := t.sessions[id]
	if e == nil {
		for len(t.sessions) >= t.limit {
			idle := t.idle()
			if idle == nil {
				return nil, ErrFull
			}
			t.remove(idle)
		}
		e = &Entry{table: t, id: id, servers: make(map[string]*Upstream), calls: make(map[string]*Call)}
		e.place = t.used.PushFront(e)
		t.sessions[id] = e
		if !until.IsZero() {
			e.expiry = time.AfterFunc(time.Until(until), func() { t.expire(e) })
		}
	}
	t.used.MoveToFront(e.place)
	e.users++
	return e, nil
}

// idle returns the entry that nobody uses and that was used longest ago, or nil.
func (t *Table) idle() *Entry {
	for last := t.used.Back(); last != nil; last = last.Prev() {
		if e := last.Value.(*Entry); e.users == 0 {
			return e
		}
	}
	return nil
}

// expire ends the entry of a session whose time is over, once nobody uses it any more.
func (t *Table) expire(e *Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.over = true
	t.endIfOver(e)
}

func (t *Table) endIfOver(e *Entry) {
	if e.over && e.users == 0 && t.sessions[e.id] == e {
		t.remove(e)
	}
}

// remove takes an entry out of the table, and ends its sessions with servers.
func (t *Table) remove(e *Entry) {
	t.drop(e)
	for _, u := range e.close() {
		t.closing.add(u)
	}
}

func (t *Table) drop(e *Entry) {
	if t.sessions[e.id] == e {
		delete(t.sessions, e.id)
		t.used.Remove(e.place)
	}
	if e.expiry != nil {
		e.expiry.Stop()
	}
}

// forget takes an entry out of the table whose session has ended.
func (t *Table) forget(e *Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(e)
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
	if e := t.sessions[id]; e != nil {
		e.over = true
		t.endIfOver(e)
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
	e := t.sessions[id]
	t.mu.Unlock()
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.calls[string(request)]
	if c == nil {
		return nil
	}
	delete(e.calls, c.id)
	c.cancelled = true
	if c.upstream == nil {
		c.cancel()
	}
	return c.upstream
}
