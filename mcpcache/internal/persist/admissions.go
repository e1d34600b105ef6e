package persist

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Callers without credentials and without a session are admitted or refused all
// together. That is stored with the snapshots, so that they can be served after a
// restart while the upstream is down; but not in a store that others share.

// Admit records until when callers without credentials are admitted. It is saved if
// that is much later than what is stored.
func (kp *Keeper) Admit(r revision.Revision, until time.Time) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	kp.admitted[r] = until
	if until.Sub(kp.stored[r]) >= resave {
		kp.saveAdmission(r)
	}
}

// Refuse records that callers without credentials are refused.
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
	if kp.store.shared != nil {
		return
	}
	for _, key := range slotKeys() {
		if key.revision == r && kp.cache.Pinned(r, key.kind) != nil {
			kp.of(key).dirty = true
		}
	}
	kp.signal()
}

// AdmittedUntil returns until when callers without credentials are admitted.
func (kp *Keeper) AdmittedUntil(r revision.Revision) time.Time {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	return kp.admitted[r]
}

// remember takes over what was stored, unless something newer is known.
func (kp *Keeper) remember(r revision.Revision, until time.Time) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	if kp.admitted[r].IsZero() && until.After(time.Now()) {
		kp.admitted[r], kp.stored[r] = until, until
	}
}
