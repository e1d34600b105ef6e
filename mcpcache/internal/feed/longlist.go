package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

const (
	// longMessage is the size in bytes above which a message is not left to the
	// client library, which would have it in memory several times.
	longMessage = 64 << 10
	// longList is the size in bytes above which a list is long: only one such
	// list of an upstream is fetched at a time.
	longList = 1 << 20
)

// errBusy says that a list for clients of some variant was given up because
// another long list was being fetched. Those clients ask the upstream themselves.
var errBusy = errors.New("another long list of the upstream is being fetched")

// turn is what a walk has to wait for before it takes in a long list. The feeds
// of an upstream share one: what they fetch is kept whatever its size, so it must
// not be there many times over while it is on its way.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// ticket is one walk's claim to the turn. The zero value needs none.
type ticket struct {
	turn turn
	// patient claims wait; others are given up at once.
	patient bool

	mu   sync.Mutex
	held bool
	over bool
}

// take waits until it is the walk's turn, which it then is until give. It may be
// called more than once.
func (t *ticket) take(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held || t.turn == nil {
		return nil
	}
	if t.over {
		return context.Canceled
	}
	if !t.patient {
		select {
		case t.turn <- struct{}{}:
			t.held = true
			return nil
		default:
			return errBusy
		}
	}
	select {
	case t.turn <- struct{}{}:
		t.held = true
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for another long list: %w", context.Cause(ctx))
	}
}

// give ends the walk's turn.
func (t *ticket) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.held {
		t.held = false
		<-t.turn
	}
}
