package persist

import (
	"errors"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// Lease says which instance fetches a list, for all that share the store.
type Lease struct {
	Revision revision.Revision
	Kind     revision.Kind
	Holder   string
}

// heldLease is what is known of a lease.
type heldLease struct {
	holder string
	// until is when another's may have ended, unless it is seen again. The zero time is this
	// instance's own, which says when it ends.
	until time.Time
}

// noteHolder notes whose a lease is, after this instance has asked for it.
func (kp *Keeper) noteHolder(key slotKey, own string, lease stores.Lease, failure error) {
	other, held := errors.AsType[*stores.HeldError](failure)
	kp.mu.Lock()
	defer kp.mu.Unlock()
	switch {
	case lease != nil:
		kp.leases[key] = heldLease{holder: own}
	case held:
		kp.leases[key] = heldLease{other.Holder, time.Now().Add(leaseLife)}
	default:
		delete(kp.leases, key)
	}
}

// forgetHolder notes that this instance does not have a lease any more.
func (kp *Keeper) forgetHolder(key slotKey) {
	kp.mu.Lock()
	defer kp.mu.Unlock()
	delete(kp.leases, key)
}

// currentLeases returns the known leases. The caller holds kp.mu.
func (kp *Keeper) currentLeases() (leases []Lease) {
	for _, key := range slotKeys() {
		is, known := kp.leases[key]
		if known && (is.until.IsZero() || time.Now().Before(is.until)) {
			leases = append(leases, Lease{key.revision, key.kind, is.holder})
		}
	}
	return leases
}
