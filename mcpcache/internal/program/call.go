package program

import (
	"bytes"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
)

// maxQueued is how many bytes of messages wait for a client that reads slowly. A single message
// may be larger.
const maxQueued = 4 << 20

// call is a request of a client that a process is asked.
type call struct {
	id    []byte // the client's, as written
	token []byte // the progress token, as written; nil: none
	// written says that the process may have been sent the request, or a part of it.
	written atomic.Bool
	// streams says that the client takes other messages than the answer.
	streams bool
	answer  *stream
	session *clientSession // whose it is; nil: of none
	modern  bool
	// subscribes says that the answer is the end of a subscription; logs, that log messages
	// are asked for.
	subscribes, logs bool
	number           uint64 // our id. The child's lock guards it
	// upkeep says that the call keeps lists right, and does not keep the process from being stopped
	// once it is answered.
	upkeep bool
	// quiet says that no process runs for the call alone.
	quiet bool
	// answered is called with the answer, or the error in its place; nil: nobody wants to know.
	answered func(line []byte)
	// acknowledged says that the client was told that its subscription is one.
	acknowledged atomic.Bool
	// cancelled says that the process is not to be asked, or not any more.
	cancelled atomic.Bool
	// left says that nobody waits for the answer any more. The child's lock guards it.
	left bool
}

// newCall returns that of a request.
func (p *Program) newCall(r *http.Request, m *inbound.Request) *call {
	asked := &call{id: bytes.Clone(m.Message.ID), answer: newStream(p.memory.Load()), streams: takesStream(r), upkeep: requesthint.IsUpkeep(r.Context())}
	if token, ok := message.ValueAt(m.Body.Bytes, "params", "_meta", "progressToken"); ok {
		asked.token = bytes.Clone(token)
	}
	return asked
}

// fail ends the call with an error of ours.
func (c *call) fail(text string) {
	c.answerClient(jsonrpc.Failed(http.StatusOK, text).Append(nil, c.id), nil)
}

// answerClient gives the client the answer, or an error in its place. It takes over the share that it has of the memory,
// if any.
func (c *call) answerClient(answer []byte, share *budget.Share) {
	if c.answered != nil {
		c.answered(answer)
	}
	c.answer.finish(answer, share)
}

// isClients reports whether a client has called for its own sake.
func (c *call) isClients() bool { return c.id != nil && !c.upkeep && !c.quiet }

var errCancelled = errors.New("request was cancelled")

// refused returns why a process is not asked, which may be about to end.
func (c *call) refused(ending bool) error {
	switch {
	case c.cancelled.Load():
		return errCancelled
	case ending:
		return errGone
	}
	return nil
}

// stream holds messages for one answer to a client.
type stream struct {
	memory *budget.Room // that long messages are taken from; nil: they count nowhere

	mu     sync.Mutex
	queue  []piece
	size   int
	ended  bool
	signal chan struct{}
}

// piece is one message of a stream.
type piece struct {
	message []byte       // nil: there is none
	share   budget.Share // of the memory, that the message takes
}

// uncounted is how many bytes of messages for a client do not count: they take no more than a connection does
// anyway.
const uncounted = 64 << 10

// newStream returns a stream for messages that are taken from the memory; nil: from none.
func newStream(memory *budget.Room) *stream {
	return &stream{memory: memory, signal: make(chan struct{}, 1)}
}

// put adds a message. It reports false, and takes nothing, if the stream has ended, or the
// client reads so slowly that there is no room.
func (s *stream) put(message []byte) bool { return s.add(message, false, nil) }

// finish adds the last message, for which there is always room. It takes over the share that the message has
// of the memory, if any.
func (s *stream) finish(message []byte, share *budget.Share) bool { return s.add(message, true, share) }

func (s *stream) add(message []byte, last bool, share *budget.Share) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || !last && len(s.queue) > 0 && s.size+len(message) > maxQueued {
		return false
	}
	p := piece{message: message}
	if s.memory != nil {
		p.share = s.memory.Share()
		switch {
		case share != nil && share.Size() > 0:
			p.share, *share = *share, budget.Share{}
		case last, s.size+len(message) <= uncounted:
		case !p.share.Grow(int64(len(message))):
			return false
		}
	}
	s.queue = append(s.queue, p)
	s.size += len(message)
	s.ended = last
	s.wake()
	return true
}

// end ends the stream without another message.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
}

// drop ends the stream, and drops what nobody reads any more.
func (s *stream) drop() {
	s.end()
	for {
		dropped, last := s.take()
		if dropped.share.Release(); last {
			return
		}
	}
}

// isOpen reports whether the stream takes messages.
func (s *stream) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

func (s *stream) wake() {
	flight.Signal(s.signal)
}

// take returns the next message, if there is one, and whether the stream ends with it, or has
// ended. Its share is the caller's to release.
func (s *stream) take() (next piece, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		next, s.queue[0] = s.queue[0], piece{}
		s.queue = s.queue[1:]
		s.size -= len(next.message)
	}
	return next, s.ended && len(s.queue) == 0
}

// next waits for a message, for some time at most: then both are nothing. done ends the wait, too.
func (s *stream) next(wait time.Duration, done <-chan struct{}) (next piece, last bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if next, last = s.take(); next.message != nil || last {
			return next, last
		}
		select {
		case <-s.signal:
		case <-timer.C:
			return piece{}, false
		case <-done:
			return piece{}, false
		}
	}
}
