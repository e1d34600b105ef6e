package program

import (
	"time"

	"go.uber.org/zap"
)

const (
	// A start that failed is not tried again for a while, longer each time.
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// tries are starts that have failed in a row. The zero value is none.
type tries struct {
	n      int
	err    error // of the last one; nil: none
	failed time.Time
	next   time.Time // before when no other one is tried
	logged failure   // the last one that was logged
}

// failure is how a start has failed, as it is logged.
type failure struct{ err, lastWords string }

// pause is how long nothing is tried after that many failures before this one.
func pause(failures int) time.Duration { return min(firstRetry<<min(failures, 10), lastRetry) }

// fail notes that another one has failed, and returns how long none is tried.
func (t *tries) fail(err error) time.Duration {
	wait := pause(t.n)
	t.n++
	t.err, t.failed = err, time.Now()
	t.next = t.failed.Add(wait)
	return wait
}

// refusal returns why none is tried now; nil if one may be.
func (t *tries) refusal() error {
	if wait := time.Until(t.next); t.err != nil && wait > 0 {
		return &unavailable{t.err.Error(), wait}
	}
	return nil
}

// isNew reports whether a failure was not logged before, and takes it for logged from now on.
func (t *tries) isNew(f failure) bool {
	is := f != t.logged
	t.logged = f
	return is
}

// logUsual logs what comes with each start, at the level of debugging while starts fail. Why they fail, and what the
// program has written to standard error, is in one line of the log already.
func (p *Program) logUsual(message string, fields ...zap.Field) {
	p.mu.Lock()
	level := zap.InfoLevel
	if p.starts.failed.n+p.starts.upkeep.n > 0 {
		level = zap.DebugLevel
	}
	p.mu.Unlock()
	p.log().Log(level, message, fields...)
}
