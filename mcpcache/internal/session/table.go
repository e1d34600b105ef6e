package session

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

// Table has the sessions of clients for which anything is open at a server, or remembered.
// It outlives the configurations that use it. Its methods may be called from several
// goroutines at once.
type Table struct {
	// Secret is of this table alone: what seals while there is no other.
	Secret secret.Secret

	mu       sync.Mutex
	most     int
	sessions map[ID]*Session
	used     list.List // of *Session; the one used longest ago is last
	ended    map[ID]struct{}
	endings  []ID // in order
	closing  chan struct{}
}

// maxClosing is how many sessions are ended with servers at a time. A server ends others by
// itself after a while.
const maxClosing = 16

// ErrFull says that as many sessions as there may be are all in use.
var ErrFull = errors.New("there are too many sessions in use")

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{Secret: secret.New(), sessions: make(map[ID]*Session), ended: make(map[ID]struct{}), closing: make(chan struct{}, maxClosing)}
}

// SetMost sets how many sessions there may be.
func (t *Table) SetMost(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.most = n
}

// Len returns how many sessions there are.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sessions)
}

// Use returns a client's session, which is in use until [Session.Leave]. If there is no room
// for it, the idle one that was used longest ago ends. With none, it is [ErrFull].
func (t *Table) Use(id ID) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[id]
	if s == nil {
		for len(t.sessions) >= t.most {
			idle := t.idle()
			if idle == nil {
				return nil, ErrFull
			}
			t.remove(idle)
		}
		s = &Session{table: t, id: id, servers: make(map[string]*Opened), calls: make(map[string]*Opened)}
		s.place = t.used.PushFront(s)
		t.sessions[id] = s
	}
	t.used.MoveToFront(s.place)
	s.users++
	return s, nil
}

// idle returns the session that nobody uses and that was used longest ago, or nil.
func (t *Table) idle() *Session {
	for e := t.used.Back(); e != nil; e = e.Prev() {
		if s := e.Value.(*Session); s.users == 0 {
			return s
		}
	}
	return nil
}

// remove takes a session out of the table, and ends it with the servers.
func (t *Table) remove(s *Session) {
	delete(t.sessions, s.id)
	t.used.Remove(s.place)
	for _, o := range s.close() {
		t.end(o)
	}
}

// end ends a session with a server in the background.
func (t *Table) end(o *Opened) {
	select {
	case t.closing <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-t.closing }()
		defer func() { _ = recover() }() // the server ends the session by itself
		<-o.ready
		if o.err == nil {
			o.end(o.Session)
		}
	}()
}

// End ends a client's session for good, as long as this process remembers that.
func (t *Table) End(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[id]; s != nil {
		t.remove(s)
	}
	if _, has := t.ended[id]; has {
		return
	}
	if len(t.endings) >= t.most {
		delete(t.ended, t.endings[0])
		t.endings = slices.Delete(t.endings, 0, 1)
	}
	t.ended[id] = struct{}{}
	t.endings = append(t.endings, id)
}

// Ended reports whether a client's session is known to have been ended.
func (t *Table) Ended(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ended := t.ended[id]
	return ended
}

// Cancel returns the session with the server that works on a request of a client, or nil. It
// does so once.
func (t *Table) Cancel(id ID, request []byte) *Opened {
	t.mu.Lock()
	s := t.sessions[id]
	t.mu.Unlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.calls[string(request)]
	delete(s.calls, string(request))
	return o
}

// Destruct implements [github.com/caddyserver/caddy/v2.Destructor]. The servers end their
// sessions by themselves: there may be more than can be ended in the time that there is.
func (*Table) Destruct() error { return nil }

// Session is what is open for the session of a client, and remembered of it.
type Session struct {
	table *Table
	id    ID
	place *list.Element
	users int // the table's mu is held

	mu      sync.Mutex
	closed  bool
	level   string // of log messages; "" for none chosen
	servers map[string]*Opened
	calls   map[string]*Opened // by the ids of requests, as written
	// abandoned are the ids of requests that nobody waits for any more, in order.
	abandoned []string
}

// Opened is a session of a client with a server.
type Opened struct {
	// Server is its name.
	Server string
	// Session is the server's, and ID what it calls it; "" if it does not.
	Session *client.Session
	ID      string

	key   any
	end   func(*client.Session)
	ready chan struct{} // closed when the session is open, or cannot be opened
	err   error

	telling sync.Mutex // the server which level is wanted
	told    string     // that it was told last; telling is held
}

// Server is one with which sessions are opened.
type Server struct {
	Name string
	// Key tells it from others of the same name, before and after a reload.
	Key any
	// Open opens a session, and End ends it.
	Open func(context.Context) (*client.Session, error)
	End  func(*client.Session)
}

// Leave ends a use of the session.
func (s *Session) Leave() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	s.users--
}

// ErrEnded says that a client's session was ended.
var ErrEnded = errors.New("the session was ended")

// With returns the session with a server. If there is none, it is opened, once for all who
// wait for it. It is [ErrEnded] if the client has ended its own.
func (s *Session) With(ctx context.Context, server Server) (*Opened, error) {
	o := s.with(server)
	if o == nil {
		return nil, ErrEnded
	}
	select {
	case <-o.ready:
		return o, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *Session) with(server Server) *Opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	o := s.servers[server.Name]
	if o != nil && o.key == server.Key {
		return o
	}
	if o != nil {
		s.table.end(o) // of what the server was before a reload
	}
	o = &Opened{Server: server.Name, key: server.Key, end: server.End, ready: make(chan struct{})}
	s.servers[server.Name] = o
	go s.open(o, server)
	return o
}

// errPanicked says that opening a session has.
var errPanicked = errors.New("opening a session panicked")

// open opens a session with a server. It does not end with the request that asked for it, as
// others may wait for it too.
func (s *Session) open(o *Opened, server Server) {
	func() {
		defer close(o.ready)
		o.err = errPanicked
		defer func() { _ = recover() }() // the error says so
		if o.Session, o.err = server.Open(context.Background()); o.err == nil {
			o.ID = o.Session.ID()
			s.tell(o) // before it is called for the first time
		}
	}()
	if o.err != nil {
		s.Forget(o)
		return
	}
	s.tell(o) // what has changed meanwhile
}

// Forget has the next request to the server open another session with it.
func (s *Session) Forget(o *Opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers[o.Server] == o {
		delete(s.servers, o.Server)
	}
}

// maxAbandoned is of how many requests that a client has gone away from it is remembered who
// works on them: in the legacy era, a client that gives up may go first, and then say so.
const maxAbandoned = 32

// Begin notes that a request waits for its answer from a server, until done is called. It is
// told whether there was an answer: if not, the request can still be cancelled.
func (s *Session) Begin(request []byte, o *Opened) (done func(answered bool)) {
	id := string(request)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[id] = o
	return func(answered bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !answered {
			if s.abandoned = append(s.abandoned, id); len(s.abandoned) > maxAbandoned {
				id, s.abandoned = s.abandoned[0], s.abandoned[1:]
				delete(s.calls, id)
			}
		} else if s.calls[id] == o {
			delete(s.calls, id)
		}
	}
}

// SetLevel has the servers that the client has sessions with, now or later, send messages of
// that level and above. They are told in the background.
func (s *Session) SetLevel(level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
	for _, o := range s.servers {
		select {
		case <-o.ready:
			if o.err == nil {
				go s.tell(o)
			}
		default: // it is told when it is open
		}
	}
}

// tell tells a server which level is wanted now, if it has not been told and can log.
func (s *Session) tell(o *Opened) {
	defer func() { _ = recover() }() // the level is as it was
	if !o.Session.Server().Capabilities["logging"] {
		return
	}
	o.telling.Lock()
	defer o.telling.Unlock()
	s.mu.Lock()
	level := s.level
	s.mu.Unlock()
	if level != o.told {
		o.told = level
		_ = o.Session.SetLevel(context.Background(), level) // the client is not told what single servers make of it
	}
}

// close returns what is open for the session, of which nothing is any more.
func (s *Session) close() (open []*Opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, o := range s.servers {
		open = append(open, o)
	}
	clear(s.servers)
	return open
}
