package program

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/process"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Limits are what may change while a program runs.
type Limits struct {
	StartTimeout time.Duration // until a process has answered initialize
	Idle         time.Duration // after which a process that nobody uses is stopped; 0: never
	StopGrace    time.Duration // for each step of stopping one
	Max          int           // processes
	Memory       int64         // bytes, of all long messages on their way: see [Program.ShareMemory]
	// Lazy has a process start only for what it has not said before, and has nobody who merely
	// listens keep it running.
	Lazy bool
}

// Kind is how a program is used. It does not change.
type Kind struct {
	// Share has all sessions use one process, for programs of which there cannot be two.
	Share bool
	// Era is what the program speaks: "legacy", "modern", or "" to find out, at the first request
	// without a session. If it shares that cannot be: it is "legacy" then.
	Era string
}

// Program is a command that speaks MCP on standard input and output.
type Program struct {
	command func() (process.Command, error)
	host    *Host
	shared  *processSlot // of all sessions; nil: each has its own
	modern  *modern
	records records
	logger  atomic.Pointer[zap.Logger]
	name    atomic.Pointer[string]
	limits  atomic.Pointer[Limits]
	own     *budget.Room                // of messages on their way, as the limits say
	memory  atomic.Pointer[budget.Room] // that counts: own, or what others share
	closing chan struct{}               // closed when the program is
	// places is how many are taken, by processes and for those to be.
	places atomic.Int32
	// awake says that a client has used a process since none ran.
	awake  atomic.Bool
	counts counts
	kept   atomic.Int64 // bytes that sessions keep for their next processes

	mu        sync.Mutex
	sessions  map[string]*clientSession
	children  map[*child]struct{}
	woken     []*func(time.Time)
	since     time.Time // when the first of the processes was about to start
	starts    starts
	lastExit  *Exit
	lastDeath *Exit
	ended     bool
}

// New returns a program. command says what to run, at each start. What it says of itself is kept in
// the store, if there is one. The program has to be closed.
func (h *Host) New(command func() (process.Command, error), kind Kind, limits Limits, store Store, logger *zap.Logger) *Program {
	p := &Program{
		command: command, host: h, own: budget.NewRoom(0),
		starts:   starts{first: make(chan struct{}, 1)},
		closing:  make(chan struct{}),
		sessions: make(map[string]*clientSession),
		children: make(map[*child]struct{}),
	}
	if kind.Share && kind.Era == "" {
		kind.Era = revision.Legacy.String()
	}
	if kind.Share {
		p.shared = &processSlot{program: p, owner: &shared{p}}
	}
	p.records = records{program: p, store: store, answers: make(map[recordKey]record)}
	p.modern = &modern{
		era:               era{fixed: kind.Era != "", speaks: eraOf(kind.Era), silence: usualSilence, changed: p.records.change},
		listSubscriptions: make(map[*listSubscription]struct{}),
	}
	p.modern.slot = &processSlot{program: p, owner: p.modern}
	p.SetName("")
	p.Configure(limits, logger)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.programs[p] = struct{}{}
	return p
}

// SetName sets what the program is called in logs and errors.
func (p *Program) SetName(name string) { p.name.Store(&name) }

func (p *Program) called() string { return *p.name.Load() }

func (p *Program) log() *zap.Logger { return p.logger.Load().With(zap.String("program", p.called())) }

// Configure sets what may change while the program runs.
func (p *Program) Configure(limits Limits, logger *zap.Logger) {
	p.limits.Store(&limits)
	p.logger.Store(logger)
	p.own.SetLimit(limits.Memory)
	p.memory.Store(p.own)
}

// ShareMemory has messages on their way take the memory of others, and not their own, until the program is
// configured again.
func (p *Program) ShareMemory(room *budget.Room) { p.memory.Store(room) }

// Close ends the program and its sessions. Processes are stopped behind it, see [Host.Close].
func (p *Program) Close() {
	p.host.stopping.Go(func() {
		p.endProcesses(func(c *child) { c.process.Stop(p.limits.Load().StopGrace) })
		p.records.saves.Wait()
		p.host.mu.Lock()
		defer p.host.mu.Unlock()
		delete(p.host.programs, p)
	})
}

// endProcesses ends all processes as stop does, and returns when they have ended.
func (p *Program) endProcesses(stop func(*child)) {
	p.mu.Lock()
	if !p.ended {
		p.ended = true
		close(p.closing)
	}
	sessions := p.sessions
	p.sessions = make(map[string]*clientSession)
	var ending sync.WaitGroup
	for c := range p.children {
		ending.Go(func() {
			c.close()
			stop(c)
			<-c.gone
		})
	}
	p.mu.Unlock()
	for _, s := range sessions {
		s.close()
	}
	p.modern.endHeld()
	ending.Wait()
	p.starts.underWay.Wait()
}

// unavailable says why no process can be had now, and when to try again.
type unavailable struct {
	reason string
	after  time.Duration
}

func (u *unavailable) Error() string { return u.reason }

var errEnded = errors.New("program is ended: Caddy stops, or has another configuration")

// open starts a process for a slot, and returns the answer with which it was greeted. It goes on if nobody waits any more: what a package manager has begun would be lost.
func (p *Program) open(s *processSlot) (c *child, answer []byte, err error) {
	if err := p.reserve(); err != nil {
		return nil, nil, err
	}
	defer p.starts.underWay.Done()
	leave, err := p.queue()
	if err != nil {
		p.release()
		return nil, nil, err
	}
	defer leave()
	if c, err = p.start(s); err != nil {
		return nil, nil, p.failed(err, "")
	}
	if answer, err = s.owner.greet(c, p.limits.Load().StartTimeout); err != nil {
		c.stop()
		<-c.gone
		if c.isRestarted() {
			err = errRestarted
		}
		if refused, ok := errors.AsType[*refusal](err); ok && namesModern(refused.supported) && p.modern.era.is(isLegacy) {
			p.modern.era.found(unknownEra)
		}
		if isJudgement(err) {
			p.counts.judged(c, err)
			return nil, nil, fmt.Errorf("program %s: %w", p.called(), err)
		}
		if errors.Is(err, errGone) {
			err = fmt.Errorf("it ended while it started (%s)", c.exit())
		}
		return nil, nil, p.failed(err, c.lastWords())
	}
	p.mu.Lock()
	p.starts.succeeded, p.starts.failed = true, tries{}
	p.mu.Unlock()
	p.counts.starts.Add(1)
	c.greet()
	p.logUsual("program started", zap.Int("pid", c.process.PID()))
	return c, answer, nil
}

// isJudgement reports whether an error says of a process that it runs, and knows what it does not
// want.
func isJudgement(err error) bool {
	_, refused := errors.AsType[*refusal](err)
	return refused || errors.Is(err, errLegacy) || errors.Is(err, errPinged) || errors.Is(err, errOther) || errors.Is(err, errRestarted)
}

// start starts a process in the place that was reserved.
func (p *Program) start(s *processSlot) (*child, error) {
	command, err := p.command()
	if err != nil {
		p.release()
		return nil, err
	}
	command.Log = func(line string, skipped int) {
		p.logUsual("program wrote to standard error", zap.String("line", line), zap.Int("skipped", skipped))
	}
	running, err := p.host.launcher.Start(command)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts.reserved--
	switch {
	case err != nil:
		p.leave()
		return nil, err
	case p.ended:
		p.leave()
		running.Terminate(0)
		return nil, errEnded
	}
	c := newChild(p, running, s)
	p.children[c] = struct{}{}
	return c, nil
}

// gone forgets a process.
func (p *Program) gone(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.children, c)
	if p.lastExit = c.describeExit(); p.lastExit.Died {
		p.lastDeath = p.lastExit
	}
	p.leave()
}
