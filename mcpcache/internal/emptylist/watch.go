// Package emptylist decides when to believe an empty list that had items before. A server that
// starts, or loses something for a moment, must not empty everybody's list. The package knows
// nothing of what is in a list, and of how the cache asks for it.
package emptylist

import "time"

// asked is when an upstream that has announced no change is asked for a list
// again, from the first time that it was empty. If it still is the last time, it
// is believed: an upstream that starts, or loses something for a moment, must not
// empty everybody's list.
var asked = [...]time.Duration{time.Second, 5 * time.Second, 15 * time.Second}

// Watch is what is known of a list that had items. The zero value is one that has
// them.
type Watch struct {
	since time.Time // when the list was empty for the first time in a row
}

// Full records that the list has items, or that the upstream has failed: how often
// it was empty before counts no more.
func (w *Watch) Full() { w.since = time.Time{} }

// Believes reports whether a list is to be believed that was empty in an answer
// which was asked for at begun, and has just arrived. If a change was announced, it
// has to be given twice, with at least refresh between. If not, the second answer
// has to be a quarter of a minute after the first, and none between them may have
// had items.
func (w *Watch) Believes(begun time.Time, announced bool, refresh time.Duration) bool {
	if w.since.IsZero() {
		w.since = time.Now()
		return false
	}
	return begun.Sub(w.since) >= patience(announced, refresh)
}

// Next returns when an upstream whose list is not believed is to be asked again.
func (w *Watch) Next(announced bool, refresh time.Duration) time.Time {
	now := time.Now()
	if !announced {
		for _, after := range asked {
			if at := w.since.Add(after); at.After(now) {
				return at
			}
		}
	}
	if at := w.since.Add(patience(announced, refresh)); at.After(now) {
		return at
	}
	return now
}

func patience(announced bool, refresh time.Duration) time.Duration {
	if announced {
		return refresh
	}
	return asked[len(asked)-1]
}
