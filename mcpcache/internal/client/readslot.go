package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

const (
	// longMessage is the size in bytes above which a message is read only when it is its
	// list has the slot, see [ReadSlot].
	longMessage = 64 << 10
	// longList is the size in bytes above which a list is long: only one such
	// list of an upstream is fetched at a time.
	longList = 1 << 20
)

// errBusy says that a list was given up because another long list was being
// fetched, and it was not to wait.
var errBusy = errors.New("another long list of the upstream is being fetched")

// ReadSlot has the clients of an upstream read one long list at a time, because a list takes
// more memory while it arrives than when it is kept. A nil Turn does not limit them.
type ReadSlot chan struct{}

// NewReadSlot returns a free slot.
func NewReadSlot() ReadSlot { return make(ReadSlot, 1) }

// claim is the claim of one list to the slot. The zero value needs no slot.
type claim struct {
	slot ReadSlot
	// patient claims wait; others are given up at once.
	patient bool

	mu   sync.Mutex
	held bool
	over bool
}

// take waits for the slot, which the list then has until release. It may be called more than
// once.
func (c *claim) take(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held || c.slot == nil {
		return nil
	}
	if c.over {
		return context.Canceled
	}
	if !c.patient {
		select {
		case c.slot <- struct{}{}:
			c.held = true
			return nil
		default:
			return errBusy
		}
	}
	select {
	case c.slot <- struct{}{}:
		c.held = true
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for another long list: %w", context.Cause(ctx))
	}
}

// release gives the slot back.
func (c *claim) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.held {
		c.held = false
		<-c.slot
	}
}
