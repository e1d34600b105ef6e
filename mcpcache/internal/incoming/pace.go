package incoming

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// grace is how long the rest of a long request may take in any case.
	grace = 30 * time.Second
	// leastRate is how many bytes of it have to come in each second after that.
	leastRate = 16 << 10
)

// ErrTooSlow says that a client takes longer to send a request than memory is kept for it.
var ErrTooSlow = errors.New("request comes too slowly")

// pace ends the reading of a request that comes too slowly. A nil one does not.
type pace struct {
	began time.Time
	timer *time.Timer
	reads *http.ResponseController

	mu          sync.Mutex
	over, ended bool // reading is over; it was ended here
}

// newPace returns the pace of a request that is read from now on. It must be ended.
func newPace(w http.ResponseWriter) *pace {
	p := &pace{began: time.Now(), reads: http.NewResponseController(w)}
	p.timer = time.AfterFunc(grace, p.interrupt)
	return p
}

// interrupt ends the reading. A deadline from the start would take the place of Caddy's.
func (p *pace) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over && !p.ended {
		p.ended = true
		_ = p.reads.SetReadDeadline(time.Unix(1, 0)) // without one, reading ends when it ends
	}
}

// have notes how many bytes there are.
func (p *pace) have(n int) {
	if p != nil {
		p.timer.Reset(time.Until(p.began.Add(grace + time.Duration(n)*time.Second/leastRate)))
	}
}

// end reports whether the reading was ended because the request was too slow. whole says
// that all of it has come nevertheless.
func (p *pace) end(whole bool) (tooSlow bool) {
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.ended && whole {
		_ = p.reads.SetReadDeadline(time.Time{})
	}
	return p.ended && !whole
}
