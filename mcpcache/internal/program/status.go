package program

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/process"
)

// Status is how a program is.
type Status struct {
	// Era is what it speaks: "legacy", "modern", or "" if that is not known. One that speaks both
	// is modern.
	Era string
	// Sessions is how many are known, whether a process runs for them or not.
	Sessions int
	// Starts is how many processes have started, and Failed how many starts have failed.
	Starts, Failed uint64
	// Stopped is how many processes have ended because they were told to; Died, by themselves, or
	// because something was wrong with them.
	Stopped, Died uint64
	// Skipped is how many lines on standard output were no message.
	Skipped uint64
	// Failure is that of the last start; nil if it did not fail.
	Failure *Failure
	// LastExit is the end of the process that has ended last, and LastDeath of the one that has died
	// last; nil if none has.
	LastExit, LastDeath *Exit
	// Processes are those that run, the oldest first.
	Processes []Process
}

// Failure is why a start has failed.
type Failure struct {
	// Message is what clients are told.
	Message string
	At      time.Time
	// Next is before when no other start is tried.
	Next time.Time
}

// Exit is the end of a process.
type Exit struct {
	PID int
	At  time.Time
	// How it ended: "exit status 1", or why it was ended.
	How string
	// Died says that it was not told to end, or that something was wrong with it.
	Died bool
	// StandardError is the end of what it has written there, up to 4 KiB.
	StandardError string
}

// Process is one that runs.
type Process struct {
	PID   int
	Since time.Time
	// Serves is whose requests it answers.
	Serves string
	// Calls is how many requests are under way, also of clients that have left.
	Calls int
	// Memory is how many bytes are resident of it and of what it has started, in its process group;
	// 0 if the system does not tell.
	Memory        uint64
	StandardError string // as in Exit
}

// What a process serves.
const (
	ServesSession  = "a session"
	ServesSessions = "all sessions"
	ServesOthers   = "requests without a session"
)

// counts are those of a program since it was configured. None ever gets less.
type counts struct {
	starts, failed, stopped, died, skipped atomic.Uint64
}

// judged counts a process that was started, and ended once it was clear what it is: by its end, or
// for that reason.
func (n *counts) judged(c *child, why error) {
	refused, isRefusal := errors.AsType[*refusal](why)
	if c.died() || errors.Is(why, errRestarted) || isRefusal && !namesModern(refused.supported) {
		n.failed.Add(1)
	} else {
		n.starts.Add(1)
	}
}

// Status returns how the program is.
func (p *Program) Status() Status {
	p.mu.Lock()
	status := Status{
		Era: p.modern.era.name(), Sessions: len(p.sessions),
		Starts: p.counts.starts.Load(), Failed: p.counts.failed.Load(),
		Stopped: p.counts.stopped.Load(), Died: p.counts.died.Load(),
		Skipped: p.counts.skipped.Load(), LastExit: p.lastExit, LastDeath: p.lastDeath,
	}
	for _, starts := range [...]tries{p.starts.upkeep, p.starts.failed} {
		if starts.err != nil {
			status.Failure = &Failure{starts.err.Error(), starts.failed, starts.next}
		}
	}
	for c := range p.children {
		status.Processes = append(status.Processes, c.describe())
	}
	p.mu.Unlock()
	slices.SortFunc(status.Processes, func(a, b Process) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.PID, b.PID))
	})
	return status
}

// MeasureMemory sets how much memory the processes use.
func (s *Status) MeasureMemory() {
	if len(s.Processes) == 0 {
		return
	}
	resident := process.ResidentMemory()
	for i := range s.Processes {
		s.Processes[i].Memory = resident[s.Processes[i].PID]
	}
}

func (c *child) describe() Process {
	serves := ServesSession
	switch c.slot.owner.(type) {
	case *shared:
		serves = ServesSessions
	case *modern:
		serves = ServesOthers
	}
	described := Process{PID: c.process.PID(), Since: c.since, Serves: serves, StandardError: c.lastWords()}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, asked := range c.calls {
		if !asked.quiet {
			described.Calls++
		}
	}
	return described
}

// describeExit tells how the process has ended, and counts that.
func (c *child) describeExit() *Exit {
	end := &Exit{PID: c.process.PID(), At: time.Now(), How: c.exit(), Died: c.died(), StandardError: c.lastWords()}
	if end.Died {
		c.program.counts.died.Add(1)
	} else {
		c.program.counts.stopped.Add(1)
	}
	return end
}

// greet notes that the process has started.
func (c *child) greet() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greeted = true
}

// works notes that the process has answered a request of somebody else than us.
func (c *child) works() {
	c.mu.Lock()
	first := !c.worked
	c.worked = true
	c.mu.Unlock()
	if first {
		c.program.works()
	}
}

// isUseless reports whether the process, which has ended, had started for the upkeep of lists alone, and has answered
// nothing.
func (c *child) isUseless() bool {
	died := c.died()
	switch owner := c.slot.owner.(type) {
	case *clientSession:
		died = died && owner.upkeep
	case *shared:
		died = died && !slices.ContainsFunc(c.program.known(), func(s *clientSession) bool { return !s.upkeep })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return died && c.greeted && !c.worked && !c.served
}

// died reports whether the process was not told to end, or only because something was wrong with
// it.
func (c *child) died() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.stopped || c.why != nil && !errors.Is(c.why, errRestarted)
}

// exit says how the process has ended, or why it was ended.
func (c *child) exit() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return c.why.Error()
	}
	return c.process.Exit()
}

// logExit logs the end of the process. What was wrong with one that did not start, is logged anyway.
func (c *child) logExit() {
	c.mu.Lock()
	greeted := c.greeted
	c.mu.Unlock()
	pid, exit := zap.Int("pid", c.process.PID()), zap.String("exit", c.exit())
	if !greeted || !c.died() {
		c.program.logUsual("program ended", pid, exit)
		return
	}
	c.program.log().Warn("program died", pid, exit, zap.String("standard_error", c.lastWords()))
}

var errRestarted = errors.New("it was restarted")

// Restart stops all processes, each as after [Limits].Idle, and returns once they have ended how many
// it has stopped. Sessions go on with others. That starts have failed, and what the program has
// said of itself, is forgotten.
func (p *Program) Restart() (stopped int) {
	p.mu.Lock()
	p.starts.failed, p.starts.upkeep = tries{}, tries{}
	stopping := make([]*child, 0, len(p.children))
	for c := range p.children {
		stopping = append(stopping, c)
		if c.restart() {
			stopped++
		}
	}
	p.mu.Unlock()
	p.log().Info("program is restarted", zap.Int("processes", stopped))
	p.records.forget()
	p.modern.era.found(unknownEra)
	for _, c := range stopping {
		<-c.gone
	}
	return stopped
}

// restart stops the process for another one. It reports false if it ends anyway.
func (c *child) restart() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return false
	}
	c.why = errRestarted
	c.endLocked()
	return true
}

func (c *child) isRestarted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Is(c.why, errRestarted)
}
