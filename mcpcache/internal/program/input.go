package program

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"sync"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// input is a line for a process.
type input struct {
	line    [][]byte      // in parts
	call    *call         // nil: it is no request
	written chan struct{} // closed when it is; nil: nobody wants to know
}

// isLong reports whether the line counts in the memory.
func (o *input) isLong() bool {
	size := 0
	for _, part := range o.line {
		size += len(part)
	}
	return size > uncounted
}

// withNumbers returns the parts of a request with our id, and that as its progress token.
func withNumbers(request []byte, id uint64, progress bool) ([][]byte, error) {
	number := strconv.AppendUint(nil, id, 10)
	before, after, err := message.Around(request, "id")
	if err != nil || !progress {
		return [][]byte{before, number, after}, err
	}
	beforeToken, afterToken, err := message.Around(request, "params", "_meta", "progressToken")
	if len(beforeToken) < len(before) {
		between := request[len(request)-len(afterToken) : len(before)]
		return [][]byte{beforeToken, number, between, number, after}, err
	}
	between := request[len(request)-len(after) : len(beforeToken)]
	return [][]byte{before, number, between, number, afterToken}, err
}

// sendMessage sends what is no request.
func (c *child) sendMessage(ctx context.Context, line []byte) error {
	return c.send(ctx, &input{line: [][]byte{line}})
}

// send has a line written. It returns once the line is about to be, or once it is if it is long.
func (c *child) send(ctx context.Context, o *input) error {
	if o.isLong() {
		o.written = make(chan struct{})
	}
	select {
	case c.outbox <- o:
	case <-c.gone:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if o.written != nil {
		select {
		case <-o.written:
		case <-c.gone:
		}
	}
	return nil
}

// inOneLine returns a message without line ends: in JSON they are white space.
func inOneLine(message []byte) []byte {
	if !bytes.ContainsAny(message, "\r\n") {
		return message
	}
	message = bytes.Clone(message)
	for i, b := range message {
		if b == '\n' || b == '\r' {
			message[i] = ' '
		}
	}
	return message
}

// write has the process read what is sent.
func (c *child) write() {
	for {
		var err error
		select {
		case o := <-c.outbox:
			if o.call != nil {
				o.call.written.Store(true)
			}
			err = c.process.Write(o.line...)
			if o.written != nil {
				close(o.written)
			}
		case <-c.replies.waiting:
			err = c.process.Write(c.replies.next())
		case <-c.process.Done():
			return
		}
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				c.fail(errUnread)
			}
			c.abandon()
			return
		}
	}
}

// reply sends an answer from the goroutine that reads, which must not wait.
func (c *child) reply(line []byte) {
	if !c.replies.add(line) {
		c.fail(errUnread)
	}
}

// maxReplies is how many bytes of answers wait for a process that does not read them.
const maxReplies = 1 << 20

// replies are the answers to what a process asks, on the way to its input. A process may ask many things
// before it reads the answer to the first.
type replies struct {
	waiting chan struct{} // has a token while there are some

	mu    sync.Mutex
	lines [][]byte
	size  int
}

func newReplies() replies { return replies{waiting: make(chan struct{}, 1)} }

// add adds an answer. It reports false if there is no room for it.
func (r *replies) add(line []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size+len(line) > maxReplies {
		return false
	}
	r.lines, r.size = append(r.lines, line), r.size+len(line)
	r.signal()
	return true
}

// next takes the answer that has waited longest, for who has taken the token.
func (r *replies) next() (line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line, r.lines[0] = r.lines[0], nil
	r.lines, r.size = r.lines[1:], r.size-len(line)
	r.signal()
	return line
}

// signal gives the token if there is an answer. The lock is held.
func (r *replies) signal() {
	if len(r.lines) == 0 {
		return
	}
	flight.Signal(r.waiting)
}
