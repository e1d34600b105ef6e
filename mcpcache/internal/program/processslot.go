package program

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
)

// owner owns a process: a session, all sessions, or all requests without a session. The goroutine that
// reads calls its methods, except for greet. They must not wait.
type owner interface {
	// greet asks a started process what it is, and returns its answer as written.
	greet(c *child, timeout time.Duration) ([]byte, error)
	// greeted returns the messages that the process has to receive then.
	greeted(c *child) []*again
	// watches reports whether somebody waits for notices that only the process can send. Such a
	// process is not stopped while nobody calls.
	watches() bool
	// replaces reports whether a process takes the place of an earlier one, or of its answers.
	replaces() bool
	// restarted says that such a process runs. Nobody has announced the changes of the meantime, and
	// only clients can find them.
	restarted(c *child)
	// handleRequest handles a request of the process.
	handleRequest(c *child, line []byte, e message.Envelope)
	// handleNotification handles a notification of the process, except for one of progress.
	handleNotification(c *child, line []byte, method string)
	// handleExit is called when the process has ended.
	handleExit(c *child)
}

// processSlot has at most one process, and starts it when it is needed.
type processSlot struct {
	program *Program
	owner   owner

	mu     sync.Mutex
	child  *child                // nil: none runs
	answer []byte                // the answer of the process to initialize
	waking *flight.Flight[woken] // the start that requests wait for, nil: none
	closed bool
}

// woken is a process that has been started.
type woken struct {
	child  *child
	answer []byte // with which the process was greeted
}

var errForgotten = errors.New("session has ended")

// awake returns the process, and how it was greeted. It is started if there is none; the start goes
// on if ctx ends.
func (s *processSlot) awake(ctx context.Context) (*child, []byte, error) {
	var rests error
	if requesthint.IsUpkeep(ctx) {
		rests = s.program.rests()
	}
	s.mu.Lock()
	if c := s.child; c != nil && s.waking == nil {
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
	if w == nil && rests != nil {
		s.mu.Unlock()
		return nil, nil, rests
	}
	if w == nil {
		w = flight.New[woken]()
		s.waking = w
		go s.wake(w, s.child)
	}
	s.mu.Unlock()
	got, err := w.Wait(ctx)
	return got.child, got.answer, err
}

// wake starts a process, and sends it what the process before it knew.
func (s *processSlot) wake(w *flight.Flight[woken], before *child) {
	if before != nil {
		<-before.gone // two at a time might not bear each other
	}
	c, answer, err := s.program.open(s)
	if errors.Is(err, errPinged) || errors.Is(err, errRestarted) {
		c, answer, err = s.program.open(s)
	}
	s.mu.Lock()
	if err == nil && s.closed {
		c.stop()
		err = errForgotten
	}
	var got woken
	var again []*again
	if err == nil {
		got = woken{c, answer}
		again = s.owner.greeted(c)
		select {
		case <-c.gone:
		default:
			s.child, s.answer = c, answer
		}
	}
	s.mu.Unlock()
	if err == nil {
		s.settle(c, again)
	}
	s.mu.Lock()
	s.waking = nil
	s.mu.Unlock()
	w.Land(got, err)
}

// settling is how long a process may take to say that it has started.
const settling = time.Second

// settle has a process know what the one before knew. Of one that takes the place of another, it is no
// news that its lists are others than before it started, which some say each time.
func (s *processSlot) settle(c *child, before []*again) {
	replaces := s.owner.replaces()
	c.settling.Store(replaces)
	for _, message := range before {
		c.repeat(message)
	}
	if !replaces {
		return
	}
	if _, modern := s.owner.(*modern); !modern && len(before) > 0 { // that knows no ping
		ping := &call{answer: newStream(nil)}
		if c.sendRequest(context.Background(), pinging, ping) == nil { // what it says before it answers, it says of its start
			ping.answer.next(settling, c.gone)
		}
	}
	c.settling.Store(false)
	if !s.program.isWatched() {
		s.owner.restarted(c)
	}
}

// again is a message that a process before this one was sent, or would have been.
type again struct {
	line []byte
	call *call // who waits for the answer; nil: nobody, or it is no request
}

// repeat sends a message again.
func (c *child) repeat(a *again) {
	asked := a.call
	if asked == nil {
		if _, isRequest := message.ValueAt(a.line, "id"); !isRequest {
			_ = c.sendMessage(context.Background(), a.line)
			return
		}
		asked = &call{answer: newStream(nil), left: true}
	}
	if err := c.sendRequest(context.Background(), a.line, asked); err != nil && !asked.acknowledged.Load() {
		asked.answer.end()
	}
}

// running returns the process, nil if none runs.
func (s *processSlot) running() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// forget forgets a process that has ended.
func (s *processSlot) forget(c *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == c {
		s.child = nil
	}
}

// asleep reports whether no process runs, and none is about to.
func (s *processSlot) asleep() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child == nil && s.waking == nil
}

// close ends the process. There will be no other.
func (s *processSlot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.child != nil {
		s.child.stop()
	}
}
