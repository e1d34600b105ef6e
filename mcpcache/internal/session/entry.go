package session

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
)

// Entry is the table's entry for a client's session: the sessions that are open for it at servers,
// its requests under way, and the level of its log messages.
type Entry struct {
	table *Table
	id    ID
	place *list.Element
	// The table's mu is held for these.
	users  int
	over   bool        // the session's time is over: the entry ends once nobody uses it
	expiry *time.Timer // nil: it has no end

	mu      sync.Mutex
	closed  bool
	level   string // of log messages; "" for none chosen
	servers map[string]*Upstream
	calls   map[string]*Call // by the ids of requests, as written
	// abandoned are requests that nobody waits for any more, in order.
	abandoned []*Call
}

// Upstream is the session with a server that is open for a client.
type Upstream struct {
	// Server is the name of the server.
	Server string
	// Session is the session as our client has it, and ID the server's id of it; "" if there is none.
	Session *client.Session
	ID      string

	key        any
	endSession func(*client.Session)
	ready      chan struct{} // closed when the session is open, or cannot be opened
	err        error

	takesLevel   bool       // the server takes a level of log messages
	sendingLevel sync.Mutex // is held while the server gets the level that is wanted
	sentLevel    string     // the last level that the server got; sendingLevel is held

	checking sync.Mutex
	trusted  time.Time // until when it is not looked at again; checking is held
	noPings  bool      // pings have shown nothing; checking is held
	lost     bool      // checking is held
}

// Dialer opens sessions with one server, and ends them.
type Dialer struct {
	Name string
	// Key tells the server from others of the same name, before and after a reload.
	Key any
	// Open opens a session, and End ends it.
	Open func(context.Context) (*client.Session, error)
	End  func(*client.Session)
	// Ping reports whether the server answers a ping in a session, and whether it refuses it. Without an answer it does
	// neither.
	Ping func(context.Context, *client.Session) (answered, refused bool)
}

// Leave ends one use of the entry.
func (e *Entry) Leave() {
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	e.users--
	e.table.endIfOver(e)
}

// ErrEnded says that a client's session was ended.
var ErrEnded = errors.New("the session was ended")

// Dial returns the session with a server. If there is none, it opens one, once for all who wait for
// it. It returns [ErrEnded] if the client has ended its own session.
func (e *Entry) Dial(ctx context.Context, server Dialer) (*Upstream, error) {
	u := e.upstream(server)
	if u == nil {
		return nil, ErrEnded
	}
	select {
	case <-u.ready:
		return u, u.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (e *Entry) upstream(server Dialer) *Upstream {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	u := e.servers[server.Name]
	if u != nil && u.key == server.Key {
		return u
	}
	if u != nil {
		e.table.closing.add(u) // of what the server was before a reload
	}
	u = newUpstream(server)
	e.servers[server.Name] = u
	go e.open(u, server)
	return u
}

func newUpstream(server Dialer) *Upstream {
	return &Upstream{Server: server.Name, key: server.Key, endSession: server.End, ready: make(chan struct{})}
}

// errPanicked says that opening a session has panicked.
var errPanicked = errors.New("opening a session panicked")

// open opens a session with a server. It does not end with the request that asked for it, as
// others may wait for it too.
func (e *Entry) open(u *Upstream, server Dialer) {
	func() {
		defer close(u.ready)
		u.err = errPanicked
		defer func() { _ = recover() }() // the error says so
		if u.Session, u.err = server.Open(context.Background()); u.err == nil {
			u.ID, u.takesLevel = u.Session.ID(), u.Session.Server().Capabilities["logging"]
			u.Session.Trim()
			e.sendLevel(u) // before it is called for the first time
		}
	}()
	if u.err != nil {
		e.forget(u)
		return
	}
	e.sendLevel(u) // what has changed meanwhile
}

// forget has the next request to the server open another session with it.
func (e *Entry) forget(u *Upstream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.servers[u.Server] == u {
		delete(e.servers, u.Server)
	}
}

// maxAbandoned is of how many requests that a client has gone away from it is remembered who
// works on them: in the legacy era, a client that gives up may go first, and then say so.
const maxAbandoned = 32

// Call is a request of a client that waits for its answer.
type Call struct {
	session   *Entry
	id        string
	cancel    context.CancelFunc // while no server has the request
	upstream  *Upstream          // the session of the server that has it; nil: none does yet
	cancelled bool
}

// Begin notes that a request waits for its answer, until [Call.Done]. Before [Call.Send], who
// cancels it has cancel called.
func (e *Entry) Begin(request []byte, cancel context.CancelFunc) *Call {
	c := &Call{session: e, id: string(request), cancel: cancel}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[c.id] = c
	return c
}

// Send notes that the request goes to a server now, or with nil that it has none any more. It reports false if it was cancelled, and
// must not.
func (c *Call) Send(u *Upstream) bool {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	c.upstream = u
	return !c.cancelled
}

// Cancelled reports whether the request was cancelled.
func (c *Call) Cancelled() bool {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return c.cancelled
}

// Done ends the wait. If there was no answer, the request can still be cancelled.
func (c *Call) Done(answered bool) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[c.id] != c {
		return
	}
	if answered || c.upstream == nil {
		delete(s.calls, c.id)
		return
	}
	s.abandoned = append(s.abandoned, c)
	if len(s.abandoned) > maxAbandoned {
		if first := s.abandoned[0]; s.calls[first.id] == first {
			delete(s.calls, first.id)
		}
		s.abandoned = s.abandoned[1:]
	}
}

// SetLevel has the servers that the client has sessions with, now or later, send messages of
// that level and above. They are told in the background.
func (e *Entry) SetLevel(level string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.level = level
	for _, u := range e.servers {
		select {
		case <-u.ready:
			if u.err == nil {
				go e.sendLevel(u)
			}
		default: // it is told when it is open
		}
	}
}

// Level returns the level that the client has chosen last; "" for none.
func (e *Entry) Level() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.level
}

// End ends the sessions with servers in the background, and leaves the entry. The entry keeps its
// place until the servers have ended their sessions. End is for claims that are used once.
func (e *Entry) End() {
	go func() {
		defer e.Leave()
		for _, u := range e.close() {
			u.finish()
		}
		e.table.forget(e)
	}()
}

// finish ends the session with the server.
func (u *Upstream) finish() {
	defer func() { _ = recover() }() // the server ends the session by itself
	<-u.ready
	if u.err == nil {
		u.endSession(u.Session)
	}
}

// sendLevel sends a server the level that is wanted now, if the server can log and does not have it.
func (e *Entry) sendLevel(u *Upstream) {
	defer func() { _ = recover() }() // the level is as it was
	if !u.takesLevel {
		return
	}
	u.sendingLevel.Lock()
	defer u.sendingLevel.Unlock()
	e.mu.Lock()
	level, closed := e.level, e.closed
	e.mu.Unlock()
	if level != u.sentLevel && !closed {
		u.sentLevel = level
		_ = u.Session.SetLevel(context.Background(), level) // the client is not told what single servers make of it
	}
}

// close returns the sessions with servers, and takes them out of the entry.
func (e *Entry) close() (open []*Upstream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, u := range e.servers {
		open = append(open, u)
	}
	clear(e.servers)
	return open
}
