package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// maxAsked is how many requests of a process wait for the answers of its client.
const maxAsked = 1000

// maxRemembered is how many bytes of messages are kept of a session for its next process.
const maxRemembered = 128 << 10

// clientSession is that of a client. While nobody needs it, it has no process.
type clientSession struct {
	id      string
	program *Program
	// initialize is the request that has opened it, for the next process.
	initialize []byte
	upkeep     bool // it is opened for the upkeep of lists

	// slot has its process: of its own, or that of all sessions.
	slot *processSlot

	mu           sync.Mutex
	used         time.Time
	closed       bool
	introduction *introduction            // nil: not yet
	initialized  []byte                   // the notification; nil: not yet
	level        []byte                   // the last request for a level of log messages
	subscribed   map[string]*subscription // by URI
	remembered   int                      // bytes of these
	kept         int64                    // bytes of these and of initialize, which count while the session is known
	waiting      map[*call]struct{}       // that have not been sent yet, or not answered
	unrelated    *stream                  // what is no part of an answer; nil: nobody listens
	asked        map[uint64]asked
	lastAsked    uint64
}

// asked is a request of a process to the client.
type asked struct {
	child *child
	id    []byte // as the process has written it
}

// greet implements [owner].
func (s *clientSession) greet(c *child, timeout time.Duration) ([]byte, error) {
	answer, err := s.program.greet(c, s.initialize, timeout)
	_, refused := errors.AsType[*refusal](err)
	if known := s.introduced(); known != nil && (refused || err == nil && known.offers != offers(answer)) {
		return nil, errOther
	}
	if err == nil {
		s.program.modern.era.opened()
	}
	return answer, err
}

// greeted implements [owner].
func (s *clientSession) greeted(*child) (messages []*again) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.initialized == nil {
		return nil
	}
	messages = append(messages, &again{line: s.initialized})
	if s.level != nil {
		messages = append(messages, &again{line: s.level})
	}
	for _, to := range s.subscribed {
		messages = append(messages, &again{line: to.request})
	}
	return messages
}

// watches implements [owner]: the client listens for what becomes of a resource.
func (s *clientSession) watches() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subscribed) > 0 && s.unrelated != nil && s.unrelated.isOpen()
}

// replaces implements [owner].
func (s *clientSession) replaces() bool { return s.introduced() != nil }

// restarted implements [owner].
func (s *clientSession) restarted(*child) { s.announce(allChanges...) }

// remember keeps what a later process has to be sent again, of a request or a notification
// that is handed on. It is an error if there is no room for that.
func (s *clientSession) remember(method string, body []byte) error {
	err := s.note(method, body)
	s.program.trim()
	return err
}

// note is remember without regard to other sessions.
func (s *clientSession) note(method string, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch method {
	case "notifications/initialized":
		return s.keep(&s.initialized, body)
	case "logging/setLevel":
		return s.keep(&s.level, body)
	case "resources/subscribe":
		return s.subscribe(message.StringAt(body, "params", "uri"), body)
	case "resources/unsubscribe":
		s.unsubscribe(message.StringAt(body, "params", "uri"))
	}
	return nil
}

// keep puts a message in the place of another one. The lock is held.
func (s *clientSession) keep(at *[]byte, body []byte) error {
	size := s.remembered - len(*at) + len(body)
	if size > maxRemembered {
		return errMemory
	}
	s.count(len(body) - len(*at))
	*at = bytes.Clone(body)
	return nil
}

// count adds to the bytes that are kept. The lock is held.
func (s *clientSession) count(more int) {
	s.remembered += more
	if !s.closed {
		s.kept += int64(more)
		s.program.kept.Add(int64(more))
	}
}

var errMemory = fmt.Errorf("subscriptions of a session, and what else its next process is sent, are larger than %d KiB", maxRemembered>>10)

// handleExit implements [owner].
func (s *clientSession) handleExit(c *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, a := range s.asked {
		if a.child == c {
			delete(s.asked, id)
		}
	}
}

// lastUse returns when the session was used, and whether it has no process. A client that listens
// uses it.
func (s *clientSession) lastUse() (used time.Time, asleep bool) {
	s.mu.Lock()
	if used = s.used; s.unrelated != nil && s.unrelated.isOpen() {
		used = time.Now()
	}
	s.mu.Unlock()
	return used, s.slot.owner != s || s.slot.asleep()
}

// waits says that a call may be cancelled from now on.
func (s *clientSession) waits(asked *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[asked] = struct{}{}
}

// settled says that calls are answered, or that what follows is on their streams.
func (s *clientSession) settled(calls []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range calls {
		delete(s.waiting, asked)
	}
}

// touch notes that the session is used.
func (s *clientSession) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
}

// awake returns the session's process, which is started if there is none.
func (s *clientSession) awake(ctx context.Context) (*child, []byte, error) {
	s.touch()
	return s.slot.awake(ctx)
}

// close ends the session: its stream, and its process.
func (s *clientSession) close() {
	s.mu.Lock()
	s.closed = true
	s.program.kept.Add(-s.kept)
	s.kept = 0
	if s.unrelated != nil {
		s.unrelated.end()
	}
	s.mu.Unlock()
	if s.slot.owner == s {
		s.slot.close()
	}
}

// listen returns a stream of what is no part of an answer. One that is there ends: its client
// has lost it.
func (s *clientSession) listen() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
	if s.unrelated != nil {
		s.unrelated.end()
	}
	s.unrelated = newStream(s.program.memory.Load())
	if s.closed {
		s.unrelated.end()
	}
	return s.unrelated
}

// put hands a message that is no answer to the client: on the stream of the last request, or on
// that of none. With first that of none comes first. It reports whether there is one.
func (s *clientSession) put(c *child, line []byte, unrelatedFirst bool) bool {
	s.mu.Lock()
	unrelated := s.unrelated
	s.mu.Unlock()
	streams := []*stream{c.latest(s), unrelated}
	if unrelatedFirst {
		streams[0], streams[1] = streams[1], streams[0]
	}
	for _, to := range streams {
		switch {
		case to == nil:
		case to.put(line):
			return true
		case to == unrelated:
			to.end() // its client does not keep up. It opens another, and looks what it has missed
		}
	}
	return false
}

// handleNotification passes a notification of the process on to the client. What a request makes happen is told beside its
// answer; what changes by itself is not.
func (s *clientSession) handleNotification(c *child, line []byte, method string) {
	if method == "notifications/cancelled" {
		if line = s.cancelledAsk(c, line); line == nil {
			return
		}
	}
	s.put(c, line, method != "notifications/message" && method != "notifications/cancelled")
}

// cancelledAsk returns a process's cancellation of a request to the client, with our id; nil if
// it was not handed on.
func (s *clientSession) cancelledAsk(c *child, line []byte) []byte {
	id, ok := message.ValueAt(line, "params", "requestId")
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for number, a := range s.asked {
		if a.child == c && message.SameID(a.id, id) {
			delete(s.asked, number)
			line, err := message.WithValue(line, strconv.AppendUint(nil, number, 10), "params", "requestId")
			if err != nil {
				return nil
			}
			return line
		}
	}
	return nil
}

// handleRequest passes a request of the process on to the client.
func (s *clientSession) handleRequest(c *child, line []byte, e message.Envelope) {
	const deaf = "the client does not listen for requests now"
	if e.Method == "ping" {
		c.refuse(e, deaf)
		return
	}
	s.mu.Lock()
	full := len(s.asked) >= maxAsked
	s.lastAsked++
	number := s.lastAsked
	if !full {
		s.asked[number] = asked{c, bytes.Clone(e.ID)}
	}
	s.mu.Unlock()
	if !full && s.put(c, e.WithID(line, strconv.AppendUint(nil, number, 10)), false) {
		return
	}
	s.mu.Lock()
	delete(s.asked, number)
	s.mu.Unlock()
	c.refuse(e, deaf)
}

// answers hands the client's answer to the process that has asked. One that is late, or that
// nobody has asked for, is dropped.
func (s *clientSession) answers(ctx context.Context, body, id []byte) error {
	number, ok := message.Number(id)
	if !ok {
		return nil
	}
	s.mu.Lock()
	s.used = time.Now()
	a, ok := s.asked[number]
	delete(s.asked, number)
	s.mu.Unlock()
	if !ok {
		return nil
	}
	line, err := message.WithValue(body, a.id, "id")
	if err != nil {
		return err
	}
	if err := a.child.sendMessage(ctx, line); !errors.Is(err, errGone) {
		return err
	}
	return nil
}

// notify hands a notification of the client on. A process that does not run needs none.
func (s *clientSession) notify(ctx context.Context, body []byte, method string) error {
	s.touch()
	if method == "notifications/cancelled" {
		return s.cancel(ctx, body)
	}
	if err := s.remember(method, body); err != nil {
		return err
	}
	c := s.slot.running()
	if c == nil || s.shares() {
		return nil // a process of all sessions knows of no client
	}
	if err := c.sendMessage(ctx, body); !errors.Is(err, errGone) {
		return err
	}
	return nil
}

// cancel hands on that a request is cancelled. Its answer ends here: a process that has heard
// of it sends none.
func (s *clientSession) cancel(ctx context.Context, body []byte) error {
	id, ok := message.ValueAt(body, "params", "requestId")
	if !ok {
		return nil
	}
	s.mu.Lock()
	for asked := range s.waiting { // maybe for a process that is about to start
		if message.SameID(asked.id, id) {
			asked.cancelled.Store(true)
		}
	}
	s.mu.Unlock()
	c := s.slot.running()
	if c == nil {
		return nil
	}
	number := c.of(s, id)
	if number == 0 {
		return nil
	}
	line, err := message.WithValue(body, strconv.AppendUint(nil, number, 10), "params", "requestId")
	if err != nil {
		return err
	}
	if cancelled := c.settle(number); cancelled != nil {
		cancelled.fail(errCancelled.Error())
	}
	if err := c.sendMessage(ctx, line); !errors.Is(err, errGone) {
		return err
	}
	return nil
}
