// Package pace ends transfers that take too long, because they keep memory. Such transfers are
// requests that are read whole, and answers that stay in memory until the client has read them.
package pace

import (
	"net/http"
	"sync"
	"time"
)

const (
	// grace is how long a transfer may take in any case.
	grace = 30 * time.Second
	// leastRate is how many bytes of it have to come through in each second after that.
	leastRate = 16 << 10
	// again is when a transfer that goes on after its end is ended once more: whoever moves
	// the bytes may have set a deadline of its own in between.
	again = time.Second
)

// Pace ends one transfer that is too slow. A nil one ends none.
type Pace struct {
	began time.Time
	timer *time.Timer

	mu          sync.Mutex
	w           http.ResponseWriter // nil: the transfer is over
	setDeadline func(*http.ResponseController, time.Time) error
	ended       bool // it was ended here
}

// Reading returns the pace of a request that is read from now on. The answer's writer is the
// way to its connection. End must be called when the transfer is over.
func Reading(w http.ResponseWriter) *Pace {
	return begin(w, (*http.ResponseController).SetReadDeadline, 0)
}

// Writing is the same for an answer of so many bytes that is written.
func Writing(w http.ResponseWriter, bytes int) *Pace {
	return begin(w, (*http.ResponseController).SetWriteDeadline, bytes)
}

func begin(w http.ResponseWriter, setDeadline func(*http.ResponseController, time.Time) error, bytes int) *Pace {
	p := &Pace{began: time.Now(), w: w, setDeadline: setDeadline}
	p.mu.Lock() // the timer is there before it is needed
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(allowed(bytes), p.interrupt)
	return p
}

// interrupt ends the transfer. A deadline from the start would take the place of Caddy's.
func (p *Pace) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil {
		p.ended = true
		_ = p.setDeadline(http.NewResponseController(p.w), time.Unix(1, 0)) // without one, the transfer ends when it ends
		p.timer.Reset(again)
	}
}

// Have gives the transfer the time that so many bytes may take in all.
func (p *Pace) Have(bytes int) {
	if p != nil {
		p.timer.Reset(time.Until(p.began.Add(allowed(bytes))))
	}
}

// allowed is how long so many bytes may take.
func allowed(bytes int) time.Duration { return grace + time.Duration(bytes)*time.Second/leastRate }

// End reports whether the transfer was ended because it was too slow. whole says that all of
// it has come through nevertheless; then what comes next has no deadline of this transfer.
func (p *Pace) End(whole bool) (tooSlow bool) {
	if p == nil {
		return false
	}
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended && whole {
		_ = p.setDeadline(http.NewResponseController(p.w), time.Time{})
	}
	p.w = nil
	return p.ended && !whole
}
