package encoded

import "time"

// RestTime is how long bytes that change all the time have to stay as they are
// until they are compressed: what is replaced sooner is not worth the work,
// which may take as long as a hundred hits.
const RestTime = 2 * time.Second

// Rest tells bytes that change all the time from others. It is guarded by its
// owner.
type Rest struct {
	changed time.Time   // when the bytes last took the place of others
	waiting *time.Timer // until they stay
}

// Changed notes that the bytes have taken the place of others, and reports
// whether those were new themselves.
func (r *Rest) Changed(now time.Time) (restless bool) {
	last := r.changed
	r.changed = now
	return now.Sub(last) < RestTime
}

// Await has do called once the bytes have stayed for RestTime since the last
// Await. It is the first do that is called each time.
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
