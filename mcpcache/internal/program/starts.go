package program

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// starts are those of a program's processes.
type starts struct {
	// first is held by a start until one has succeeded: package managers that install one
	// package at the same time spoil it (npm/cli#8224).
	first    chan struct{}
	underWay sync.WaitGroup // those that are not over

	// Guarded by Program.mu:

	reserved  int // places that are taken for processes to be
	succeeded bool
	// failed are those that have failed, upkeep those of processes that ended before they were of any use
	// while no client used them.
	failed, upkeep tries
}

// queue waits for its turn to start. leave has to be called when the start is over.
func (p *Program) queue() (leave func(), err error) {
	select {
	case p.starts.first <- struct{}{}:
	case <-p.closing:
		return nil, errEnded
	}
	alone := !p.hasSucceeded()
	if !alone {
		<-p.starts.first
	}
	select {
	case p.host.starts <- struct{}{}:
	case <-p.closing:
		err = errEnded
	}
	if err == nil {
		if err = p.backoff(); err != nil { // another start has failed meanwhile
			<-p.host.starts
		}
	}
	leave = func() {
		<-p.host.starts
		if alone {
			<-p.starts.first
		}
	}
	if err != nil && alone {
		<-p.starts.first
	}
	return leave, err
}

// reserve takes a place for a process. If there is none, that which has not been used for the
// longest time is stopped.
func (p *Program) reserve() error {
	for {
		if err := p.backoff(); err != nil {
			return err
		}
		leaving, err := p.place()
		if err != nil || leaving == nil {
			return err
		}
		<-leaving.gone
	}
}

// place takes a place if there is one. If not, it returns a process that is about to end.
func (p *Program) place() (leaving *child, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.limits.Load().Max
	switch {
	case p.ended:
		return nil, errEnded
	case len(p.children)+p.starts.reserved < most:
		p.starts.reserved++
		if p.places.Add(1) == 1 {
			p.since = time.Now()
		}
		p.starts.underWay.Add(1)
		return nil, nil
	}
	var since time.Time
	for c := range p.children {
		switch free, state := c.use(); {
		case state == ending:
			return c, nil
		case state == unused && (leaving == nil || free.Before(since)):
			leaving, since = c, free
		}
	}
	if leaving == nil || !leaving.sleep() {
		return nil, &unavailable{fmt.Sprintf("all %d processes of program %s are in use", most, p.called()), firstRetry}
	}
	return leaving, nil
}

func (p *Program) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts.reserved--
	p.leave()
}

// leave gives a place back. The lock is held.
func (p *Program) leave() {
	if p.places.Add(-1) == 0 {
		p.awake.Store(false)
	}
}

// backoff returns an error while no start is tried, as the last one has failed.
func (p *Program) backoff() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errEnded
	}
	return p.starts.failed.refusal()
}

// failed notes that a start has failed, and returns the error that callers are given. They are not
// told what the process has written to standard error: the log is.
func (p *Program) failed(err error, lastWords string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.modern.era.found(unknownEra) // another version may have been installed
	return p.failedAt(&p.starts.failed, err, lastWords)
}

// useless notes that a process has ended that ran only for the upkeep of lists, and brought none.
func (p *Program) useless(err error, lastWords string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.failedAt(&p.starts.upkeep, err, lastWords) // whoever asks next is told
}

// failedAt is failed for those starts. The lock is held.
func (p *Program) failedAt(starts *tries, err error, lastWords string) error {
	if p.ended {
		return errEnded
	}
	p.counts.failed.Add(1)
	said := fmt.Errorf("program %s did not start: %w", p.called(), err)
	wait := starts.fail(said)
	if starts.isNew(failure{err.Error(), lastWords}) {
		fields := []zap.Field{zap.Error(err), zap.Duration("next_try_after", wait)}
		if lastWords != "" {
			fields = append(fields, zap.String("standard_error", lastWords))
		}
		p.log().Error("program did not start", fields...)
	}
	return &unavailable{said.Error(), wait}
}

// works notes that a process has answered a request.
func (p *Program) works() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts.upkeep = tries{}
}

// rests returns why no process is started for the upkeep of lists now; nil if one may be.
func (p *Program) rests() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts.upkeep.refusal()
}

func (p *Program) hasSucceeded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts.succeeded
}
