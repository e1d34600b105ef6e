package program

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

// use is what a process is used for.
type use int

const (
	used use = iota
	unused
	ending
)

var errUnread = errors.New("it does not read its input")

// Asleep reports whether no process of the program runs or starts.
func (p *Program) Asleep() bool { return p.places.Load() == 0 }

// isWatched reports whether somebody looks what has changed when the program wakes.
func (p *Program) isWatched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.woken) > 0
}

// OnWake has woken called whenever a client uses the program that has slept, with the time when the
// first process was about to start, until the function that is returned is called. It must return
// at once. Starts for the upkeep of lists do not count.
func (p *Program) OnWake(woken func(since time.Time)) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woken = append(p.woken, &woken)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.woken = slices.DeleteFunc(p.woken, func(f *func(time.Time)) bool { return f == &woken })
	}
}

// used notes that a client uses a process.
func (p *Program) used() {
	if !p.awake.CompareAndSwap(false, true) {
		return
	}
	p.mu.Lock()
	woken, since := slices.Clone(p.woken), p.since
	p.mu.Unlock()
	for _, f := range woken {
		(*f)(since)
	}
}

// leave says that nobody waits for the answer of a call any more. The process goes on with it if
// it is that of a session; otherwise that is what cancels it (2026-07-28, "Streamable HTTP",
// "Cancellation").
func (c *child) leave(asked *call) {
	asked.answer.drop()
	c.mu.Lock()
	defer c.mu.Unlock()
	asked.left = true
	if asked.modern && c.calls[asked.number] == asked {
		delete(c.calls, asked.number)
		line := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, asked.number)
		go func() { _ = c.sendMessage(context.Background(), line) }()
	}
	c.rest(asked)
}

// rest begins to wait for another call after one that is over, which may be nil, if there is none
// that somebody waits for. The lock is held.
func (c *child) rest(after *call) {
	if c.busy() {
		return
	}
	if after != nil && !after.upkeep && !after.quiet {
		c.free = time.Now()
	}
	if idle := c.program.limits.Load().Idle; idle != 0 && !c.ending {
		c.wait(idle - time.Since(c.free))
	}
}

// wait has the process sleep if nothing happens within a time. The lock is held.
func (c *child) wait(within time.Duration) {
	if c.timer == nil {
		c.timer = time.AfterFunc(within, c.doze)
		return
	}
	c.timer.Reset(within)
}

// doze stops the process, as nobody has used it for a while. One that no client has used, but
// lists were fetched from, goes with the last one of clients: as long as one runs, lists may change.
func (c *child) doze() {
	inUse, watched := c.program.serves(), c.slot.owner.watches()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch idle := c.program.limits.Load().Idle; {
	case c.busy() || idle == 0:
	case inUse && !c.served, watched:
		c.wait(idle)
	default:
		c.endLocked()
	}
}

// serves reports whether a process runs that a client has used.
func (p *Program) serves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.children {
		if c.serves() {
			return true
		}
	}
	return false
}

func (c *child) serves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served && !c.ending
}

// use tells what the process is used for, and since when not at all.
func (c *child) use() (free time.Time, state use) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return c.free, ending
	}
	if c.busy() {
		return c.free, used
	}
	return c.free, unused
}

// busy reports whether somebody waits for an answer. The lock is held.
func (c *child) busy() bool {
	for _, asked := range c.calls {
		if !asked.left && !asked.quiet {
			return true
		}
	}
	return false
}

// sleep stops the process if nobody waits for an answer. It reports whether it does.
func (c *child) sleep() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy() {
		return false
	}
	c.endLocked()
	return true
}

// close has the process take no more calls, for who ends it.
func (c *child) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = c.stopped || !c.ending
	c.ending = true
}

// fail begins to end a process of which something is wrong. What is wrong after that is not logged.
func (c *child) fail(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return
	}
	c.program.log().Error("program is stopped", zap.Error(why), zap.Int("pid", c.process.PID()))
	c.why = why
	c.endLocked()
}

// stop begins to end the process. It can be called again.
func (c *child) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked()
}

func (c *child) endLocked() {
	c.stopped = c.stopped || !c.ending
	c.abandonLocked()
}

// abandon takes care that a process ends which is about to do so by itself.
func (c *child) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandonLocked()
}

func (c *child) abandonLocked() {
	if c.ending {
		return
	}
	c.ending = true
	go c.process.Stop(c.program.limits.Load().StopGrace)
}
