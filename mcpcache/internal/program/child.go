package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/process"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

var (
	// errGone says that a process had ended before it was sent a request.
	errGone = errors.New("process has ended")
	errSlow = errors.New("it did not answer in time")
)

// refusal is an error with which a process has answered initialize.
type refusal struct {
	answer    []byte // as written
	supported []string
	err       error
}

func (r *refusal) Error() string { return "it refused initialize: " + r.err.Error() }

// child is one process of a program, and what it has been asked.
type child struct {
	program *Program
	process *process.Process
	slot    *processSlot
	since   time.Time
	outbox  chan *input // which wait with their clients
	replies replies
	line    lineRoom      // that it is writing
	gone    chan struct{} // closed when the process has ended, and all of its calls
	// settling says that the process takes the place of another one, and has not started yet.
	settling atomic.Bool

	mu     sync.Mutex
	calls  map[uint64]*call
	lastID uint64
	ending bool      // takes no more calls
	free   time.Time // since when no client waits for an answer
	served bool      // a client has called
	logged int       // how many requests have asked for log messages
	timer  *time.Timer
	// greeted says that it has started; stopped, that it is ended by us.
	greeted, stopped bool
	worked           bool  // it has answered a request since it has started
	junk             int   // lines on standard output that are no messages
	why              error // it is ended; nil: it has ended by itself, or is not needed
}

func newChild(p *Program, running *process.Process, s *processSlot) *child {
	c := &child{
		program: p, process: running, slot: s, since: time.Now(),
		outbox: make(chan *input), replies: newReplies(), gone: make(chan struct{}),
		calls: make(map[uint64]*call), free: time.Now(),
	}
	alive, end := context.WithCancel(context.Background())
	c.line = lineRoom{program: p, running: alive}
	go func() {
		defer end()
		c.write()
	}()
	go c.read()
	return c
}

// initialize sends the request that comes first, and returns the answer's result as written.
func (c *child) initialize(request []byte, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, errSlow)
	defer cancel()
	asked := &call{answer: newStream(nil)}
	if err := c.sendRequest(ctx, request, asked); err != nil {
		return nil, err
	}
	first, _ := asked.answer.next(timeout, ctx.Done())
	select {
	case <-c.gone:
		return nil, errGone
	default:
	}
	answer := first.message
	if answer == nil {
		return nil, errSlow
	}
	response, err := message.ParseResponse(answer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading its answer to initialize: %w", err)
	case response.Error != nil:
		return nil, &refusal{answer, response.Error.Supported, response.Error}
	}
	return response.Result, nil
}

// sendRequest sends a request, with an id and a progress token of our own. Answers come on the call's
// stream.
func (c *child) sendRequest(ctx context.Context, request []byte, asked *call) error {
	c.mu.Lock()
	if err := asked.refused(c.ending); err != nil {
		c.mu.Unlock()
		return err
	}
	c.lastID++
	id := c.lastID
	asked.number = id
	c.calls[id] = asked
	c.served = c.served || asked.isClients()
	if asked.logs {
		c.logged++
	}
	c.mu.Unlock()
	if asked.isClients() {
		c.program.used()
	}
	line, err := withNumbers(request, id, asked.token != nil)
	if err == nil {
		err = c.send(ctx, &input{line: line, call: asked})
	}
	if err != nil {
		c.settle(id)
	}
	return err
}

// refuse answers a request of the process.
func (c *child) refuse(e message.Envelope, reason string) {
	if e.Method == "ping" { // whether a client is there, is not the process's business
		c.reply(bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","id":`), e.ID, []byte(`,"result":{}}`)}, nil))
		return
	}
	c.reply(jsonrpc.Invalid(jsonrpc.MethodNotFound, reason).Append(nil, e.ID))
}

// read takes what the process sends, until it ends.
func (c *child) read() {
	for {
		line, err := c.process.ReadLine(c.line.fits)
		switch {
		case err == nil:
			c.receive(line)
		case errors.Is(err, process.ErrSkipped):
			c.lacksRoom(line)
		case errors.Is(err, process.ErrLine):
			c.fail(err)
		}
		if c.line.release(); err != nil && !errors.Is(err, process.ErrSkipped) {
			break
		}
	}
	c.abandon()
	<-c.process.Done()
	c.program.gone(c)
	useless := c.isUseless()
	if useless {
		c.program.useless(fmt.Errorf("it ended before it answered a request (%s)", c.exit()), c.lastWords())
	}
	c.mu.Lock()
	calls := c.calls
	c.calls = nil
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	close(c.gone)
	c.slot.forget(c) // after that, as who is about to give it to the slot looks
	c.slot.owner.handleExit(c)
	text := fmt.Sprintf("program %s ended before it answered: %s", c.program.called(), c.exit())
	for _, asked := range calls {
		if asked.quiet {
			continue // the next process is asked
		}
		if !asked.written.Load() || asked.subscribes { // a subscription is made again
			asked.answer.end()
			continue
		}
		asked.fail(text)
	}
	if !useless {
		c.logExit()
	}
}

// receive takes a line of the process.
func (c *child) receive(line []byte) {
	if line = bytes.TrimPrefix(line, []byte("\uFEFF")); len(bytes.TrimSpace(line)) == 0 {
		return
	}
	envelope, err := message.ParseEnvelope(line)
	switch {
	case err == nil && envelope.Response:
		c.answered(line, envelope)
	case err != nil || !utf8.Valid(line):
		c.skip(line)
	case envelope.Method == "notifications/progress" && envelope.ID == nil:
		c.progressed(line)
	case envelope.ID != nil:
		c.slot.owner.handleRequest(c, line, envelope)
	case c.settling.Load() && revision.IsListChanged(envelope.Method):
	default:
		c.slot.owner.handleNotification(c, line, envelope.Method)
	}
}

// maxShown is how many bytes of a line are logged that is no message.
const maxShown = 200

// maxLastWords is how many bytes are shown of what a process has written to standard error.
const maxLastWords = 4 << 10

// lastWords returns the last lines that the process has written to standard error.
func (c *child) lastWords() string {
	text := strings.TrimSpace(c.process.Errors())
	if over := len(text) - maxLastWords; over > 0 {
		text = strings.ToValidUTF8(text[over:], "")
		if _, whole, found := strings.Cut(text, "\n"); found {
			text = whole
		}
	}
	return text
}

// skip counts a line that is no message, and logs the first ones, then ever fewer.
func (c *child) skip(line []byte) {
	c.mu.Lock()
	c.junk++
	n := c.junk
	c.mu.Unlock()
	c.program.counts.skipped.Add(1)
	if n&(n-1) == 0 { // 1, 2, 4, 8
		c.program.log().Warn("program wrote to standard output what is no message: it is skipped",
			zap.ByteString("line", bytes.ToValidUTF8(line[:min(len(line), maxShown)], []byte("\uFFFD"))), zap.Int("skipped", n))
	}
}

// answered hands an answer on. One that nobody waits for is dropped: it comes late, or twice.
func (c *child) answered(line []byte, e message.Envelope) {
	number, ok := message.Number(e.ID)
	if !ok {
		return
	}
	asked := c.settle(number)
	if asked == nil {
		return
	}
	if asked.id != nil {
		c.works()
	}
	switch path := []string{"result", "_meta", message.MetaSubscription}; {
	case asked.id == nil: // our own
	case !utf8.Valid(line):
		c.skip(line)
		line = jsonrpc.Failed(http.StatusOK, "program "+c.program.called()+" answered with bytes that are not UTF-8").Append(nil, asked.id)
	case asked.subscribes:
		line = e.WithID(line, asked.id)
		if told, err := message.WithValue(line, asked.id, path...); err == nil {
			line = told // servers should name the subscription that ends
		}
	default:
		line = e.WithID(line, asked.id)
	}
	asked.answerClient(line, &c.line.share)
}

// settle returns a call that is over, nil if there is none.
func (c *child) settle(id uint64) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.calls[id]
	delete(c.calls, id)
	c.rest(asked)
	return asked
}

// progressed hands progress on to who asked for it.
func (c *child) progressed(line []byte) {
	token, _ := message.ValueAt(line, "params", "progressToken")
	number, ok := message.Number(token)
	if !ok {
		return
	}
	c.mu.Lock()
	asked := c.calls[number]
	c.mu.Unlock()
	if asked == nil || asked.token == nil || !asked.streams {
		return
	}
	if line, err := message.WithValue(line, asked.token, "params", "progressToken"); err == nil {
		asked.answer.put(line)
	}
}

// latest returns the stream of the last request of a session whose client takes messages; nil:
// none.
func (c *child) latest(s *clientSession) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	var last uint64
	for id, asked := range c.calls {
		if asked.session == s && asked.streams && !asked.left && id > last {
			last = id
		}
	}
	if last == 0 {
		return nil
	}
	return c.calls[last].answer
}

// of returns our id of a call of a session, 0 if there is none.
func (c *child) of(s *clientSession, id []byte) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for number, asked := range c.calls {
		if asked.session == s && asked.id != nil && message.SameID(asked.id, id) {
			return number
		}
	}
	return 0
}
