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
func (kp *Keeper) Admit(r revision.Revision, until time.Time) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	kp.admitted[r] = until
	if until.Sub(kp.stored[r]) >= resave {
		kp.saveAdmission(r)
	}
}

// Refuse is told that callers without credentials are refused.
func (kp *Keeper) Refuse(r revision.Revision) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	kp.admitted[r] = time.Time{}
	if !kp.stored[r].IsZero() {
		kp.saveAdmission(r)
	}
}

// saveAdmission has the snapshots of a revision saved. The caller holds kp.mu.
func (kp *Keeper) saveAdmission(r revision.Revision) {
	kp.stored[r] = kp.admitted[r]
	for _, key := range slotKeys() {
		if key.revision == r && kp.cache.Pinned(r, key.kind) != nil {
			kp.of(key).dirty = true
		}
	}
	kp.signal()
}

// AdmittedUntil is until when callers without credentials are admitted.
func (kp *Keeper) AdmittedUntil(r revision.Revision) time.Time {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	return kp.admitted[r]
}

// remember takes what a store says, unless something is known by now.
func (kp *Keeper) remember(r revision.Revision, until time.Time) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	if kp.admitted[r].IsZero() && until.After(time.Now()) {
		kp.admitted[r], kp.stored[r] = until, until
	}
}
