package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// longAnswerBody is a body whose long messages are replaced. Short ones are passed on as
// they came.
type longAnswerBody struct {
	io.ReadCloser

	ctx    context.Context // of the request
	answer *longAnswer
	length int64 // of the answer, -1 if unknown
	fill   func() error

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
func (b *longAnswerBody) Read(p []byte) (int, error) {
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

// add adds bytes to the message. Before it gets long, it waits for its turn.
func (b *longAnswerBody) add(p []byte) error {
	size := len(p)
	if b.message != nil {
		size += b.message.Len()
	}
	if !b.long && max(b.length, int64(size)) > longMessage {
		b.long = true
		if err := b.answer.claim.take(b.ctx); err != nil {
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

// end returns the message that has been read, in one piece.
func (b *longAnswerBody) end() (data []byte, long bool) {
	data, _ = b.message.Bytes()
	long = b.long
	b.message, b.long = nil, false
	return data, long
}

// fillJSON reads the whole body: one message.
func (b *longAnswerBody) fillJSON() error {
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
	data, long := b.end()
	if !long {
		if err := checkOne(data); err != nil {
			return err
		}
		b.ready = data
		return io.EOF
	}
	short, err := b.answer.replace(data)
	if err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	b.ready = short
	return io.EOF
}

// fillEvents reads on until an event has ended.
func (b *longAnswerBody) fillEvents() error {
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
	return err
}

// findEnd returns where the event that goes on with p ends, after its blank
// line, or else the length.
func (b *longAnswerBody) findEnd(p []byte) (end int, ended bool) {
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

func (b *longAnswerBody) endEvent() error {
	data, long := b.end()
	if !long {
		b.ready = append(b.ready, data...)
		return nil
	}
	var payload []byte
	sse.Take(data, func(data []byte) bool {
		payload = data
		return true
	})
	if payload == nil {
		return nil // nothing but comments
	}
	short, err := b.answer.replace(payload)
	if err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	b.ready = sse.AppendEvent(b.ready, short)
	return nil
}
