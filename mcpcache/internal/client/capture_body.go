package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// captureBody is a body whose messages are replaced, see [capture.replace].
type captureBody struct {
	io.ReadCloser

	ctx     context.Context // of the request
	capture *capture
	length  int64 // of the answer, -1 if unknown
	fill    func() error

	ready []byte // to be passed on
	err   error  // to be returned after that

	read [16 << 10]byte
	// message is the one that is being read, as it came.
	message *budget.Buffer
	// share is unlimited: the message is bounded by its own limit, and only one long
	// list is fetched at a time.
	share budget.Share
	long  bool

	// Of an event stream:

	atLineStart bool
	afterCR     bool
}

// Read implements [io.Reader].
func (b *captureBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if b.err = b.fill(); b.err != nil && !errors.Is(b.err, io.EOF) {
			fail(b.ctx, b.err)
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// add adds bytes to the message. Before the message gets long, add waits for the slot.
func (b *captureBody) add(p []byte) error {
	size := len(p)
	if b.message != nil {
		size += b.message.Len()
	}
	if !b.long && max(b.length, int64(size)) > longMessage {
		b.long = true
		if err := b.capture.claim.take(b.ctx); err != nil {
			return err
		}
	}
	if b.message == nil {
		b.share = budget.New(math.MaxInt64).Share()
		b.message, _ = budget.NewBuffer(&b.share, b.length)
	}
	b.message.Write(p)
	return nil
}

// takeMessage returns the message that has been read, in one piece.
func (b *captureBody) takeMessage() (data []byte, long bool) {
	data, _ = b.message.Bytes()
	long = b.long
	b.message, b.long = nil, false
	return data, long
}

// fillJSON reads the whole body: one message.
func (b *captureBody) fillJSON() error {
	for {
		n, err := b.ReadCloser.Read(b.read[:])
		if err := b.add(b.read[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	data, long := b.takeMessage()
	if len(data) == 0 {
		return fmt.Errorf("reading an answer: %w", errEmpty)
	}
	short, _, err := b.capture.replace(data, long)
	if err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	b.ready = short
	return io.EOF
}

// fillEvents reads on until an event has ended.
func (b *captureBody) fillEvents() error {
	n, err := b.ReadCloser.Read(b.read[:])
	for p := b.read[:n]; len(p) > 0; {
		if b.message == nil && b.afterCR && p[0] == '\n' {
			// It belongs to the event that has ended. Some readers wait for it.
			b.ready = append(b.ready, '\n')
			b.afterCR, p = false, p[1:]
			continue
		}
		end, ended := b.findEnd(p)
		if err := b.add(p[:end]); err != nil {
			return err
		}
		if p = p[end:]; ended {
			if err := b.endEvent(); err != nil {
				return err
			}
		}
	}
	if errors.Is(err, io.EOF) && b.message != nil {
		if b.long {
			b.message.Write([]byte("\n\n")) // the library would read it as ended too
		}
		if err := b.endEvent(); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		b.capture.endStream()
	}
	return err
}

// findEnd returns where the event that goes on with p ends, after its blank
// line, or else the length.
func (b *captureBody) findEnd(p []byte) (end int, ended bool) {
	for i, c := range p {
		crlf := c == '\n' && b.afterCR
		b.afterCR = c == '\r'
		switch {
		case crlf:
		case c != '\n' && c != '\r':
			b.atLineStart = false
		case b.atLineStart:
			return i + 1, true
		default:
			b.atLineStart = true
		}
	}
	return len(p), false
}

// endEvent replaces the message of an event that has ended. An event that stays as it is
// is passed on as it came.
func (b *captureBody) endEvent() error {
	data, long := b.takeMessage()
	var payload []byte
	read := func(data []byte) bool {
		payload = data
		return true
	}
	if long {
		sse.Take(data, read) // in its place
	} else {
		sse.Find(data, read)
	}
	if len(payload) == 0 { // nothing but comments
		if !long {
			b.ready = append(b.ready, data...)
		}
		return nil
	}
	short, others, err := b.capture.replace(payload, long)
	switch {
	case err != nil && long:
		return fmt.Errorf("reading an answer: %w", err)
	case err != nil:
		b.capture.skip(err)
		b.ready = append(b.ready, data...)
	case others: // the library would take it for the response, and the stream for over
	case !long && bytes.Equal(short, payload):
		b.ready = append(b.ready, data...)
	default:
		b.ready = sse.AppendEvent(b.ready, short)
	}
	return nil
}
