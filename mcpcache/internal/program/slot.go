package program

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// owner is what a process runs for: a session, all sessions, or all requests without one. Its
// methods but greet are called by the goroutine that reads, which must not wait.
type owner interface {
	// greet has a process that was started say what it is: its answer as written.
	greet(c *child, timeout time.Duration) ([]byte, error)
	// greeted returns what the process has to be sent then. Nobody waits for the answers.
	greeted() [][]byte
	// asks takes a request of the process.
	asks(c *child, line []byte, e message.Envelope)
	// hears takes a notification of the process, but for those of progress.
	hears(c *child, line []byte, method string)
	// lost says that the process has ended.
	lost(c *child)
}

// slot has one process at most, which is started when it is needed.
type slot struct {
	program *Program
	owner   owner

	mu     sync.Mutex
	child  *child // nil: none runs
	answer []byte // with which it has said what it is
	waking *waking
	closed bool
}

// waking is a start that requests wait for.
type waking struct {
	done   chan struct{}
	child  *child
	answer []byte // with which the process was greeted
	err    error
}

var errForgotten = errors.New("session has ended")

// awake returns the process, and how it was greeted. It is started if there is none; the start goes
// on if ctx ends.
func (s *slot) awake(ctx context.Context) (*child, []byte, error) {
	s.mu.Lock()
	if c := s.child; c != nil {
		if _, state := c.use(); state != ending {
			answer := s.answer
			s.mu.Unlock()
			return c, answer, nil
		}
	}
	if s.closed {
		s.mu.Unlock()
		return nil, nil, errForgotten
	}
	w := s.waking
	if w == nil {
		w = &waking{done: make(chan struct{})}
		s.waking = w
		go s.wake(w, s.child)
	}
	s.mu.Unlock()
	select {
	case <-w.done:
		return w.child, w.answer, w.err
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// wake starts a process, and has it know what the one before knew.
func (s *slot) wake(w *waking, before *child) {
	if before != nil {
		<-before.gone // two at a time might not bear each other
	}
	c, answer, err := s.program.open(s)
	if errors.Is(err, errPinged) {
		c, answer, err = s.program.open(s)
	}
	s.mu.Lock()
	s.waking = nil
	if err == nil && s.closed {
		c.stop()
		err = errForgotten
	}
	var again [][]byte
	if err == nil {
		w.child, w.answer = c, answer
		again = s.owner.greeted()
		select {
		case <-c.gone:
		default:
			s.child, s.answer = c, answer
		}
	}
	w.err = err
	s.mu.Unlock()
	for _, line := range again {
		c.repeat(line)
	}
	close(w.done)
}

// repeat sends a message that a process before this one was sent. Nobody waits for its answer.
func (c *child) repeat(line []byte) {
	if _, isRequest := message.ValueAt(line, "id"); !isRequest {
		_ = c.tell(context.Background(), line)
		return
	}
	_ = c.ask(context.Background(), line, &call{answer: newStream(), left: true})
}

// running returns the process, nil if none runs.
func (s *slot) running() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// forget forgets a process that has ended.
func (s *slot) forget(c *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == c {
		s.child = nil
	}
}

// asleep reports whether no process runs, and none is about to.
func (s *slot) asleep() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child == nil && s.waking == nil
}

// close ends the process. There will be no other.
func (s *slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.child != nil {
		s.child.stop()
	}
}
