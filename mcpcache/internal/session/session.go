package session

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
)

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
