package program

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// use is what a process is used for.
type use int

const (
	busy use = iota
	unused
	ending
)

var errUnread = errors.New("it does not read its input")

// leave says that nobody waits for the answer of a call any more. The process goes on with it if
// it is that of a session; otherwise that is what cancels it (2026-07-28, "Streamable HTTP",
// "Cancellation").
func (c *child) leave(asked *call) {
	asked.answer.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	asked.left = true
	if asked.modern && c.calls[asked.number] == asked {
		delete(c.calls, asked.number)
		line := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, asked.number)
		go func() { _ = c.tell(context.Background(), line) }()
	}
	c.rest()
}

// rest begins to wait for another call, if there is none that somebody waits for. The lock is
// held.
func (c *child) rest() {
	for _, asked := range c.calls {
		if !asked.left {
			return
		}
	}
	c.free = time.Now()
	idle := c.program.limits.Load().Idle
	switch {
	case idle == 0 || c.ending:
	case c.timer == nil:
		c.timer = time.AfterFunc(idle, func() { c.sleep() })
	default:
		c.timer.Reset(idle)
	}
}

// use tells what the process is used for, and since when not at all.
func (c *child) use() (free time.Time, state use) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return c.free, ending
	}
	for _, asked := range c.calls {
		if !asked.left {
			return c.free, busy
		}
	}
	return c.free, unused
}

// sleep stops the process if nobody waits for an answer. It reports whether it does.
func (c *child) sleep() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, asked := range c.calls {
		if !asked.left {
			return false
		}
	}
	c.endLocked()
	return true
}

// close has the process take no more calls, for who ends it.
func (c *child) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
}

// fail begins to end a process of which something is wrong.
func (c *child) fail(why error) {
	c.program.log().Error("program is stopped", zap.Error(why), zap.Int("pid", c.process.PID()))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = why
	c.endLocked()
}

// ended says why the process has ended.
func (c *child) ended() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return c.why.Error()
	}
	return c.process.Exit()
}

// stop begins to end the process. It can be called again.
func (c *child) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked()
}

func (c *child) endLocked() {
	if c.ending {
		return
	}
	c.ending = true
	go c.process.Stop(c.program.limits.Load().StopGrace)
}
