package redis

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
)

// Bounds of a message, in bytes, and of its elements. Of what is asked here, lists are the longest,
// and the map of a cluster's slots has the most elements. All messages on their way from one Redis
// share maxMessage.
const (
	maxMessage  = 256 << 20
	maxLine     = 64 << 10
	maxElements = 1 << 16
	maxDepth    = 8
)

// follower follows messages of RESP2 as they pass, without keeping them (Redis, "Serialization
// protocol specification"). It returns an error for what no Redis sends, and for what is beyond
// the bounds, before anybody makes room for it.
type follower struct {
	whole int64 // messages that have ended

	line []byte        // what there is of a line
	text int64         // bytes to come of a string, with the end of its line
	open []int         // elements to come of arrays, the outermost first
	size int64         // bytes of the message
	room *budget.Share // for the message; nil: it need not be taken from anywhere
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
			return errTooLong
		}
		if err := f.pass(part); err != nil {
			return err
		}
		p = p[len(part):]
	}
	return nil
}

// pass takes a part of a string, or of a line.
func (f *follower) pass(part []byte) error {
	if f.text > 0 {
		if f.text -= int64(len(part)); f.text == 0 {
			f.endMessage()
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
		f.endMessage()
		return nil
	case line[0] == '$' && n >= 0 && n <= maxMessage:
		f.text = n + int64(len("\r\n"))
		return f.take(n)
	case line[0] == '*' && n > 0 && n <= maxElements && len(f.open) < maxDepth:
		f.open = append(f.open, int(n))
		return f.take(n * elementSize)
	}
	return fmt.Errorf("redis has sent what is no answer, or too large a one: %.40q", line)
}

// elementSize is what an element of an array takes besides its text, in bytes.
const elementSize = 16

// take takes room for a part of the message, before anybody makes it.
func (f *follower) take(n int64) error {
	if f.room != nil && !f.room.Grow(n) {
		return errTooLong
	}
	return nil
}

var errTooLong = errors.New("the answers of redis are longer than 256 MiB together")

// endMessage ends a message, or an element of one.
func (f *follower) endMessage() {
	for last := len(f.open) - 1; last >= 0; last-- {
		if f.open[last]--; f.open[last] > 0 {
			return
		}
		f.open = f.open[:last]
	}
	f.whole++
	f.size = 0
	if f.room != nil {
		f.room.Release() // it is its reader's from now on
	}
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

// refusalIn returns why Redis closes a connection at once, if that is its first answer there: it says
// so before it was asked anything. The library would take it for the answer to its own first command,
// which may fail, go on, and then only know that the connection is closed.
func refusalIn(answer []byte) error {
	for _, sign := range []string{"-DENIED ", "-ERR max number of clients"} {
		if bytes.HasPrefix(answer, []byte(sign)) {
			line, _, _ := bytes.Cut(answer[1:min(len(answer), maxRefusal)], []byte("\r"))
			return errors.New(string(line))
		}
	}
	return nil
}

// maxRefusal is how much of a refusal is told, in bytes.
const maxRefusal = 256

// Read implements [net.Conn].
func (c *checkedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.answers.room.Release() // nothing is read on
	}
	if n <= 0 {
		return n, err
	}
	var wrong error
	if c.answers.whole == 0 {
		wrong = refusalIn(p[:n])
	}
	if wrong == nil {
		wrong = c.answers.follow(p[:n])
	}
	if wrong == nil && c.answers.whole > c.commands.Load() && !c.subscribed.Load() {
		wrong = errUnasked
	}
	if wrong != nil {
		c.answers.room.Release()
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

// checked returns a connection that checks what comes on it, with room from there; nil for nil.
func checked(c net.Conn, memory *budget.Budget) net.Conn {
	if c == nil {
		return nil
	}
	room := memory.Share()
	checks := &checkedConn{Conn: c, answers: follower{room: &room}}
	if plain, ok := c.(syscall.Conn); ok {
		return &plainConn{checks, plain}
	}
	return checks
}
