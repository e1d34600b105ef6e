package redis

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
)

// Bounds of a message. Redis itself takes no longer string (proto-max-bulk-len). Of what is asked
// here, the map of a cluster's slots has the most elements.
const (
	maxMessage  = 512<<20 + maxLine
	maxLine     = 64 << 10
	maxElements = 1 << 16
	maxDepth    = 8
)

// follower follows messages of RESP2 as they pass, without keeping them (Redis, "Serialization
// protocol specification"). It returns an error for what no Redis sends, and for what is beyond
// the bounds, before anybody makes room for it.
type follower struct {
	whole int64 // messages that have ended

	line []byte // what there is of a line
	text int64  // bytes to come of a string, with the end of its line
	open []int  // elements to come of arrays, the outermost first
	size int64  // bytes of the message
}

// follow follows the next part of what is sent.
func (f *follower) follow(p []byte) error {
	for len(p) > 0 {
		part := p
		if f.text > 0 {
			part = p[:min(int64(len(p)), f.text)]
		} else if end := bytes.IndexByte(p, '\n'); end >= 0 {
			part = p[:end+1]
		}
		if f.size += int64(len(part)); f.size > maxMessage {
			return errors.New("a message of redis is longer than 512 MiB")
		}
		if err := f.take(part); err != nil {
			return err
		}
		p = p[len(part):]
	}
	return nil
}

// take takes a part of a string, or of a line.
func (f *follower) take(part []byte) error {
	if f.text > 0 {
		if f.text -= int64(len(part)); f.text == 0 {
			f.end()
		}
		return nil
	}
	if len(f.line)+len(part) > maxLine {
		return errors.New("a line of redis is longer than 64 KiB")
	}
	f.line = append(f.line, part...)
	line, ended := bytes.CutSuffix(f.line, []byte("\n"))
	if !ended {
		return nil
	}
	f.line = f.line[:0]
	return f.header(string(bytes.TrimSuffix(line, []byte("\r"))))
}

// header takes the line with which a message begins, or an element of one.
func (f *follower) header(line string) error {
	if line == "" {
		return errors.New("redis has sent an empty line")
	}
	var n int64
	var err error
	if line[0] == '$' || line[0] == '*' || line[0] == ':' {
		n, err = strconv.ParseInt(line[1:], 10, 64)
	}
	switch {
	case err != nil:
	case line[0] == '+', line[0] == '-', line[0] == ':', n == -1, line == "*0":
		f.end()
		return nil
	case line[0] == '$' && n >= 0 && n <= maxMessage:
		f.text = n + int64(len("\r\n"))
		return nil
	case line[0] == '*' && n > 0 && n <= maxElements && len(f.open) < maxDepth:
		f.open = append(f.open, int(n))
		return nil
	}
	return fmt.Errorf("redis has sent what is no answer, or too large a one: %.40q", line)
}

// end ends a message, or an element of one.
func (f *follower) end() {
	for last := len(f.open) - 1; last >= 0; last-- {
		if f.open[last]--; f.open[last] > 0 {
			return
		}
		f.open = f.open[:last]
	}
	f.whole++
	f.size = 0
}

// errUnasked says that Redis, or a proxy before it, has sent more than answers: from then on,
// nobody could tell which answer is to what.
var errUnasked = errors.New("redis has sent what nobody has asked for")

// checkedConn is a connection to Redis on which nothing can be read that no Redis sends, and no
// more answers than commands were sent. It is closed at the first such thing.
type checkedConn struct {
	net.Conn

	sent, answers follower     // of Write, and of Read
	commands      atomic.Int64 // that were sent
	subscribed    atomic.Bool  // from then on it gets messages, too
}

// subscribe is how the command begins after which a connection gets messages.
const subscribe = "*2\r\n$9\r\nsubscribe\r\n"

// Write implements [net.Conn].
func (c *checkedConn) Write(p []byte) (int, error) {
	if err := c.sent.follow(p); err != nil {
		return 0, err
	}
	c.commands.Store(c.sent.whole)
	if bytes.HasPrefix(p, []byte(subscribe)) {
		c.subscribed.Store(true)
	}
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *checkedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n <= 0 {
		return n, err
	}
	wrong := c.answers.follow(p[:n])
	if wrong == nil && c.answers.whole > c.commands.Load() && !c.subscribed.Load() {
		wrong = errUnasked
	}
	if wrong != nil {
		_ = c.Conn.Close()
		return 0, wrong
	}
	return n, err
}

// plainConn is one without TLS, of which the library can find out whether there is anything to
// read while it lies idle.
type plainConn struct {
	*checkedConn
	syscall.Conn
}

// checked returns a connection that checks what comes on it; nil for nil.
func checked(c net.Conn) net.Conn {
	if c == nil {
		return nil
	}
	checks := &checkedConn{Conn: c}
	if plain, ok := c.(syscall.Conn); ok {
		return &plainConn{checks, plain}
	}
	return checks
}
