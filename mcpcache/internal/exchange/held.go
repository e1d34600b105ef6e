package exchange

import (
	"sync/atomic"
	"time"
)

// maxHeld is how much of an answer is held back, in bytes. A longer one is passed on
// from then on: the upstream is answering.
const maxHeld = 64 << 10

// hangingFor is how long after an upstream has not answered in time nobody waits
// again to find out whether it has been restarted.
const hangingFor = 5 * time.Second

// heldAnswer is an answer of the upstream that the tap holds back until it is complete. So the caller can
// get a stale copy in its place after a second.
type heldAnswer struct {
	status int
	data   []byte
	state  atomic.Uint32
	// answered is called when the answer has been read, as soon as it has passed.
	answered func()
}

// The states of a held answer. It ends up either handed on or over.
const (
	heldBack uint32 = iota
	handedOn
	heldOver
)

// timeOut ends the time of a held answer, unless the tap passes it on already.
func (h *heldAnswer) timeOut() bool { return h.state.CompareAndSwap(heldBack, heldOver) }

// isOver reports whether the time of a held answer is over.
func (h *heldAnswer) isOver() bool { return h != nil && h.state.Load() == heldOver }

// hold keeps a part of the answer. It hands everything on if it is too much, or on a
// stream as soon as the answer is there, as that may stay open (toolhive#2403).
func (t *tap) hold(p []byte) (int, error) {
	h := t.held
	answered := t.learner.stream && t.learner.record == nil
	if answered {
		h.answered()
	}
	if h.isOver() {
		return len(p), nil
	}
	fits := len(h.data)+len(p) <= maxHeld
	if fits {
		h.data = append(h.data, p...)
		if !answered {
			return len(p), nil
		}
	}
	if err := t.release(nil); err != nil {
		return 0, err
	}
	if t.withheld || fits {
		return len(p), nil
	}
	return t.below.Write(p)
}

// release hands on what was held back, unless its time is over or the upstream
// has failed: then the answer is withheld. err is the upstream's.
func (t *tap) release(err error) error {
	h := t.held
	if err != nil || !h.state.CompareAndSwap(heldBack, handedOn) {
		t.withheld = true
		return err
	}
	t.held = nil
	t.passHeader(h.status)
	if _, err := t.below.Write(h.data); err != nil {
		return err
	}
	return nil
}
