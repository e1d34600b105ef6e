package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// requestTimeout is how long a single request may take.
const requestTimeout = 30 * time.Second

// conn sends requests over one connection, one at a time, and reads answers
// without keeping them: as little work as possible, since the load must be
// quicker than what it measures.
type conn struct {
	net  net.Conn
	in   *bufio.Reader
	done time.Time // when its deadline is to be set again
}

// reply is what is noticed of an answer.
type reply struct {
	status int
	// bytes is the length of the body, as it was sent.
	bytes int64
	// first is when the first bytes of the body were there.
	first time.Time
}

func dial(ctx context.Context, addr string) (*conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return &conn{net: c, in: bufio.NewReaderSize(c, 128<<10)}, nil
}

func (c *conn) close() error { return c.net.Close() }

// exchange sends a request and reads the answer to its end.
func (c *conn) exchange(raw []byte, now time.Time) (reply, error) {
	if now.After(c.done) {
		c.done = now.Add(requestTimeout / 2)
		if err := c.net.SetDeadline(now.Add(requestTimeout)); err != nil {
			return reply{}, fmt.Errorf("setting deadline: %w", err)
		}
	}
	if _, err := c.net.Write(raw); err != nil {
		return reply{}, fmt.Errorf("writing request: %w", err)
	}
	return readReply(c.in)
}

// readReply reads an answer to its end.
func readReply(in *bufio.Reader) (reply, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return reply{}, fmt.Errorf("reading status: %w", err)
	}
	var r reply
	if r.status, err = parseStatus(line); err != nil {
		return r, err
	}
	length, chunked, err := readHeader(in)
	if err != nil {
		return r, err
	}
	if length != 0 {
		if _, err := in.Peek(1); err != nil {
			return r, fmt.Errorf("reading body: %w", err)
		}
	}
	r.first = time.Now()
	switch {
	case chunked:
		r.bytes, err = skipChunks(in)
	case length >= 0:
		r.bytes = length
		err = skip(in, length)
	default:
		err = errors.New("answer has no length")
	}
	if err != nil {
		return r, fmt.Errorf("reading body: %w", err)
	}
	return r, nil
}

func parseStatus(line []byte) (int, error) {
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return 0, fmt.Errorf("status line %.40q is none", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, fmt.Errorf("reading status: %w", err)
	}
	return status, nil
}

var (
	lengthName   = []byte("content-length")
	encodingName = []byte("transfer-encoding")
)

// readHeader reads up to the empty line. Without a length it is -1.
func readHeader(in *bufio.Reader) (length int64, chunked bool, err error) {
	length = -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, false, fmt.Errorf("reading header: %w", err)
		}
		if len(line) <= 2 {
			return length, chunked, nil
		}
		// Most lines end here: their length or their first letter is another.
		switch line[0] | 0x20 {
		case 'c':
			if value, ok := headerValue(line, lengthName); ok {
				if length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
					return 0, false, fmt.Errorf("reading length: %w", err)
				}
			}
		case 't':
			if value, ok := headerValue(line, encodingName); ok {
				chunked = bytes.EqualFold(value, []byte("chunked"))
			}
		}
	}
}

func headerValue(line, name []byte) ([]byte, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || !bytes.EqualFold(line[:len(name)], name) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name)+1:]), true
}

// skipChunks reads a body in chunks and its trailer, and returns the length of
// what was in the chunks.
func skipChunks(in *bufio.Reader) (int64, error) {
	var total int64
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return total, err
		}
		size, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(";"))
		n, err := strconv.ParseInt(string(size), 16, 32)
		if err != nil {
			return total, err
		}
		if n == 0 {
			_, _, err := readHeader(in) // the trailer
			return total, err
		}
		if err := skip(in, n+2); err != nil {
			return total, err
		}
		total += n
	}
}

func skip(in *bufio.Reader, n int64) error {
	if _, err := in.Discard(int(n)); err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	return nil
}
