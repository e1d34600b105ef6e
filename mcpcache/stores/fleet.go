package stores

import (
	"context"
	"errors"
	"time"
)

// Fleet is a [Shared] store by which instances agree which of them asks the upstream for a
// list that is due, so that one does for all. With a store that is none, each does.
//
// A value is as of a time by the store's clock: that of a moment before the upstream was asked
// for it. It fences writers off: what an instance was given before it was paused, cut off or
// robbed of its lease takes the place of nothing that another was given since. Times are
// compared to the microsecond.
type Fleet interface {
	Shared

	// SaveAt keeps a value as of that time in place of the one before, as Save does. It fails
	// with [ErrNewer] if the one before is as of a later time, and leaves that. What Save has
	// kept is as of no time, and older than all else.
	SaveAt(ctx context.Context, key string, at time.Time, value []byte) error

	// Lease takes the lease of a key. It fails with [ErrNewer] if the value of the key is as of
	// a later time than known, or else with [ErrHeld] while another lease of the key lasts. It
	// looks at both at once, so that whoever gets the lease knows the newest value.
	//
	// The lease ends with its life, by the store's clock, whatever becomes of its holder. A
	// store may lose it sooner: then the list is fetched twice, which is all.
	Lease(ctx context.Context, key string, known time.Time, life time.Duration) (Lease, error)
}

// Lease is held by one instance at a time.
type Lease interface {
	// Extend has the lease last for life from now on. It fails with [ErrHeld] if it has ended:
	// another may have it.
	Extend(ctx context.Context, life time.Duration) error

	// Release ends the lease, so that others need not wait for the end of its life. That it has
	// ended is no error. It never ends another's.
	Release(ctx context.Context) error
}

var (
	// ErrNewer says that the value of a key is as of a later time.
	ErrNewer = errors.New("there is a newer value")
	// ErrHeld says that another has the lease of a key, or may have it.
	ErrHeld = errors.New("the lease is another's")
)
