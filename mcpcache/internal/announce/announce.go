// Package announce remembers how an upstream announces changes of a list. Some upstreams claim to
// announce changes and do not. Others announce changes when nothing has changed. The package knows
// nothing of what is in a list, and of how notices come.
package announce

import "time"

const (
	// lateNotice is how long after a change was found its notice may come.
	lateNotice = time.Second
	// vainly is how many notices in a row have announced nothing when the upstream is said to
	// do that.
	vainly = 3
	// longest is the longest pause after notices that have announced nothing.
	longest = time.Minute
)

// Record is what is known of one list. The zero value is that of an upstream which has done
// nothing yet. Callers see to it that one method is called at a time.
type Record struct {
	heard, announced bool      // a notice has come: on our own stream, or on any
	caught           bool      // the list has changed without a notice
	found            time.Time // when a change was found whose notice may still come; zero if there is none
	checked          time.Time // when the list was last fetched to find out
	vain             int       // how many notices in a row, as far as the list was fetched, have announced nothing
	idle             int       // how many fetches after calls, in a row, have found the same list
}

// Hear records a notice on a stream of our own, where the upstream has no reason to tell of what
// concerns the session of a client alone. [Record.Notice] is to be called, too.
func (r *Record) Hear() { r.heard = true }

// Notice records that a change was announced, on whatever stream.
func (r *Record) Notice(now time.Time) {
	r.announced = true
	if now.Sub(r.found) <= lateNotice {
		r.found = time.Time{}
	}
}

// Catch records that the list has changed, and no notice will come.
func (r *Record) Catch() { r.caught = true }

// Find records that the list has changed. Its notice may come a second later.
func (r *Record) Find(now time.Time) {
	if r.found.IsZero() {
		r.found = now
	}
}

// Caught reports whether the list has ever changed without a notice.
func (r *Record) Caught(now time.Time) bool {
	if !r.found.IsZero() && now.Sub(r.found) > lateNotice {
		r.found, r.caught = time.Time{}, true
	}
	return r.caught
}

// Check records that the list is about to be fetched to find out whether it has changed.
func (r *Record) Check(now time.Time) { r.checked = now }

// Proven reports whether a notice has ever come, or the list was checked less than each ago.
func (r *Record) Proven(now time.Time, each time.Duration) bool {
	return r.announced || now.Sub(r.checked) < each
}

// Fetched records what came of a fetch, and reports whether the upstream turns out, at that, to
// announce changes that are none. announced says that a notice has come since the fetch before,
// same that the list has the same bytes.
func (r *Record) Fetched(announced, same bool) (found bool) {
	switch {
	case !same:
		r.vain = 0
	case announced:
		r.vain++
		return r.heard && r.vain == vainly
	}
	return false
}

// InVain reports whether the upstream announces changes that are none, to us too: the last three
// notices or more have been followed by the same list.
func (r *Record) InVain() bool { return r.heard && r.vain >= vainly }

// Pause returns how long after a fetch a notice may cause the next one, at least: refresh, and
// twice as long for each notice in a row that has announced nothing, up to a minute.
func (r *Record) Pause(refresh time.Duration) time.Duration {
	return max(refresh, min(longest, doubled(refresh, r.vain)))
}

// Called records what came of a fetch: same says that the list has the same items as before,
// called that a call may have changed it.
func (r *Record) Called(called, same bool) {
	switch {
	case !same:
		r.idle = 0
	case called:
		r.idle++
	}
}

// IdlePause returns how long after a fetch a call may cause the next one, at least, if no client has
// asked for the list: refresh, and twice as long for each fetch in a row that has found the same
// list after a call.
func (r *Record) IdlePause(refresh time.Duration) time.Duration { return doubled(refresh, r.idle) }

// doubled returns a pause that doubles so many times.
func doubled(pause time.Duration, times int) time.Duration { return pause << min(times, 20) }
