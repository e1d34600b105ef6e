package encoded

import "time"

// RestTime is how long bytes that keep changing must have stayed the same before they are
// compressed: what is replaced sooner is not worth the work, which may take as long as a
// hundred hits.
const RestTime = 2 * time.Second

// Rest finds out whether bytes keep changing. It is guarded by its owner.
type Rest struct {
	changed time.Time   // when the bytes last took the place of others
	waiting *time.Timer // until they stay
}

// Changed notes that the bytes have changed, and reports whether they did so less than
// RestTime ago.
func (r *Rest) Changed(now time.Time) (restless bool) {
	last := r.changed
	r.changed = now
	return now.Sub(last) < RestTime
}

// Await has do called once RestTime has passed since the last Await. All calls must be
// with the same do.
func (r *Rest) Await(do func()) {
	if r.waiting != nil {
		r.waiting.Reset(RestTime)
		return
	}
	r.waiting = time.AfterFunc(RestTime, do)
}

// Stop ends the waiting.
func (r *Rest) Stop() {
	if r.waiting != nil {
		r.waiting.Stop()
	}
}
