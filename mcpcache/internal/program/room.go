package program

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

const (
	// roomPatience is how long a process is not read from because there is no memory for its line. It is
	// shorter than a process may leave its input unread: see [process.Process.Write].
	roomPatience = 25 * time.Second
	// stalled is how long a process may pause within a line before another line may grow.
	stalled = time.Second
)

// lineRoom is the memory of the line that a process is writing. Only one of several long lines grows at a
// time: so it has the memory that it needs sooner. If a line pauses, another one may grow, but the line
// keeps its memory. If the line goes on, it takes what it needs, and the other one may have to wait for
// memory. The methods are for the goroutine that reads.
type lineRoom struct {
	program *Program
	running context.Context // until the process ends

	room  *budget.Room // nil: the line is short
	share budget.Share
	left  time.Duration // of roomPatience
	stall *time.Timer
	// isTooLong says that there is never memory for the line.
	isTooLong bool

	mu     sync.Mutex
	growth growth
}

// growth says whether a line may grow.
type growth int

const (
	notYet growth = iota
	growing
	paused // for so long that another line may grow
)

// fits reports whether there is memory for so many bytes of the line. It waits for that.
func (l *lineRoom) fits(size int) bool {
	if l.room == nil {
		l.room, l.left = l.program.memory.Load(), roomPatience
		l.share = l.room.Share()
		l.stall = time.AfterFunc(stalled, l.pause)
	}
	l.stall.Stop()
	more := int64(size) - l.share.Size()
	if l.isTooLong = int64(size) > l.room.Largest(); l.isTooLong {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.growth == paused {
		l.share.Overdraw(more)
		return true
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(l.running, l.left)
	defer cancel()
	if l.growth == notYet && l.room.Enter(ctx, roomPatience) {
		l.growth = growing
	}
	fits := l.growth == growing && l.share.GrowSoon(ctx, more)
	l.left -= time.Since(began)
	l.stall.Reset(stalled)
	return fits
}

// pause lets another line grow.
func (l *lineRoom) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.growth == growing {
		l.growth = paused
		l.room.Leave()
	}
}

// release is called when the line has been dealt with: whoever keeps it has taken the share.
func (l *lineRoom) release() {
	if l.room == nil {
		return
	}
	l.stall.Stop()
	l.pause()
	l.share.Release()
	l.room, l.growth = nil, notYet
}

// lacksRoom deals with a line of which there is only the beginning, as there was no memory for more: its call
// has an error as its answer. If it cannot be known which one that is, the process ends, as a client would
// wait for ever.
func (c *child) lacksRoom(beginning []byte) {
	text := fmt.Sprintf("program %s has answered, but there was no memory for its answer", c.program.called())
	if c.line.isTooLong {
		text = fmt.Sprintf("program %s has answered with more than %d KiB, for which there is memory at most", c.program.called(), c.line.room.Largest()>>10)
	}
	id := message.ResponseID(beginning)
	number, ok := message.Number(id)
	if !ok {
		c.fail(errors.New(text + ": its beginning does not say to which request it belongs"))
		return
	}
	c.program.log().Warn("answer is dropped: there was no memory for it", zap.String("error", text), zap.Int("pid", c.process.PID()))
	if asked := c.settle(number); asked != nil {
		asked.fail(text)
	}
}
