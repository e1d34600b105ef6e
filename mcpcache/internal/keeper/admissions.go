package keeper

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Callers without credentials and without a session are one caller: the upstream
// has let them in, or not. That is kept with the snapshots, so that after a restart
// they need not be let in anew by an upstream that is down.

// Admit is told until when callers without credentials are admitted. It is saved
// when that is much later than what is stored.
func (w *Keeper) Admit(r revision.Revision, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.admitted[r] = until
	if until.Sub(w.stored[r]) >= resave {
		w.saveAdmission(r)
	}
}

// Refuse is told that callers without credentials are refused.
func (w *Keeper) Refuse(r revision.Revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.admitted[r] = time.Time{}
	if !w.stored[r].IsZero() {
		w.saveAdmission(r)
	}
}

// saveAdmission has the snapshots of a revision saved. The caller holds w.mu.
func (w *Keeper) saveAdmission(r revision.Revision) {
	w.stored[r] = w.admitted[r]
	for _, key := range slotKeys() {
		if key.revision == r && w.cache.Pinned(r, key.kind) != nil {
			w.of(key).dirty = true
		}
	}
	w.signal()
}

// AdmittedUntil is until when callers without credentials are admitted.
func (w *Keeper) AdmittedUntil(r revision.Revision) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.admitted[r]
}

// remember takes what a store says, unless something is known by now.
func (w *Keeper) remember(r revision.Revision, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.admitted[r].IsZero() && until.After(time.Now()) {
		w.admitted[r], w.stored[r] = until, until
	}
}
