package admission

import (
	"sync/atomic"
	"time"
)

// shortestIdle is the shortest time without requests after which an upstream is taken to end
// sessions. One that is lost sooner has been lost for another reason.
const shortestIdle = time.Second

// idle is after how much time without requests the upstream is known to end sessions, in
// nanoseconds; 0 if nothing is known. A session that has only had hits looks idle to it. What was
// seen last counts.
type idle struct{ atomic.Int64 }

// survived records that a session was still there after that time without requests.
func (i *idle) survived(d time.Duration) {
	if limit := i.Load(); limit != 0 && int64(d) >= limit {
		i.CompareAndSwap(limit, 0)
	}
}

// lost records that a session was not. Undo takes that back.
func (i *idle) lost(d time.Duration) (undo func()) {
	limit := i.Load()
	if d < shortestIdle || limit != 0 && int64(d) >= limit || !i.CompareAndSwap(limit, int64(d)) {
		return func() {}
	}
	return func() { i.CompareAndSwap(int64(d), limit) }
}

// Answered records that the upstream has answered a request of a session which was sent at that
// time.
func (l *Ledger) Answered(id string, sent time.Time) {
	if c := l.Session(id); c != nil && c.Alive() {
		before := c.heard.Swap(time.Now().UnixNano())
		l.idle.survived(time.Duration(sent.UnixNano() - before))
	}
}

// Lost records that the upstream says, to a request which was sent at that time, that it does
// not know a session: it may have ended it since nothing was asked in it for a while. Undo takes
// that back. It is to be called before [Ledger.EndSession].
func (l *Ledger) Lost(id string, sent time.Time) (undo func()) {
	c := l.Session(id)
	if c == nil || !c.Alive() {
		return func() {}
	}
	return l.idle.lost(time.Duration(sent.UnixNano() - c.heard.Load()))
}

// KeepAlive reports whether the upstream is to be sent a request in a session now, since it has
// answered none for a quarter of the time after which it is known to end one, or a second if that
// is longer. It says so once in that time. So it leaves no session alone for more than half of the
// time, unless its client does.
func (c *Caller) KeepAlive(now time.Time) bool {
	if c == nil || c.ledger == nil {
		return false
	}
	limit, kept := c.ledger.idle.Load(), c.kept.Load()
	return limit != 0 && now.UnixNano()-max(kept, c.heard.Load()) >= max(limit/4, int64(shortestIdle)) &&
		c.kept.CompareAndSwap(kept, now.UnixNano())
}
