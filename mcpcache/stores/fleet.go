package stores

import (
	"context"
	"errors"
	"time"
)

// Fleet is a [Shared] store by which several instances act as one: they agree which of them asks
// the upstream for a list that is due, and tell each other of changes. With a store that is none,
// each is by itself.
//
// A value is as of a time by the store's clock: that of a moment before the upstream was asked
// for it. It fences writers off: what an instance was given before it was paused, cut off or
// robbed of its lease takes the place of nothing that another was given since. Times are
// compared to the microsecond.
type Fleet interface {
	Shared
	Members

	// SaveAt keeps a value as of that time in place of the one before, as Save does. It fails
	// with [ErrNewer] if the one before is as of a later time, and leaves that. What Save has
	// kept is as of no time, and older than all else.
	SaveAt(ctx context.Context, key string, at time.Time, value []byte) error

	// Lease takes the lease of a key for a holder, the name of an instance. It fails with [ErrNewer]
	// if the value of the key is as of a later time than known, or else with a [HeldError] while
	// another lease of the key lasts. It looks at both at once, so that whoever gets the lease knows
	// the newest value.
	//
	// The lease ends with its life, by the store's clock, whatever becomes of its holder. A
	// store may lose it sooner: then the list is fetched twice, which is all.
	Lease(ctx context.Context, key, holder string, known time.Time, life time.Duration) (Lease, error)
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

// MaxMessage is how long a message may be, in bytes. Nothing that instances announce is longer. Of what is, as
// others may write to a store, those who listen need not be given the text.
const MaxMessage = 1 << 20

// Members tells the instances of a place of what one of them announces there, and says when all
// have heard it. A place is the first part of a key, a member the name of an instance, of letters,
// digits, '.' and '-'. What is announced at a place is numbered, each time by one more, and no number
// ever comes again.
//
// An instance is a member for a life at a time, by the store's clock. It knows by its own that it is
// one for a life after it has asked the store to join or to confirm, if it has heard everything up to
// the number that it was told then. So a life after an announcement, nobody who has not heard it takes
// himself for a member, and nobody has to wait for longer. All instances of a place use the same life.
//
// A store may forget a place: it was restarted or emptied, or another took over that knew less.
// It has to notice that. Then nobody is a member any more. As some may not know that yet, it says of
// nothing that all have confirmed it until a life has passed, and goes on with greater numbers.
type Members interface {
	// Listen calls hear with what is announced at a place, one after the other, until ctx ends or
	// the store can do so no longer, which is the error. listening is called before that, once
	// all is heard that is announced from then on. Neither waits for anything. The store may lose
	// announcements, and repeat them: their numbers show it. Who listens need not be a member.
	Listen(ctx context.Context, place string, listening func(), hear func(Announcement)) error

	// Join makes an instance a member for life, also one that is. What was announced last, it need not
	// confirm.
	Join(ctx context.Context, place, member string, life time.Duration) (Standing, error)

	// Confirm says that a member has heard everything up to that number, and makes it one for life
	// from now on. It fails with [ErrNoMember] if the instance is none, as its life has ended or the
	// store has forgotten it. If nothing with that number has been announced yet, the member has heard
	// somebody else: then the store notes no number, and Standing.Last, which is smaller, says so.
	Confirm(ctx context.Context, place, member string, heard uint64, life time.Duration) (Standing, error)

	// Announce announces a message to all who listen, its sender included, who need not be a
	// member. One who has confirmed all before need not confirm his own. It returns its number,
	// and whether all members have confirmed that, as there are no others. If not, those who listen
	// hear of it once all have.
	Announce(ctx context.Context, place, member string, message []byte, life time.Duration) (number uint64, confirmed bool, err error)

	// Leave ends a membership. That there is none is no error.
	Leave(ctx context.Context, place, member string) error
}

// Standing is what a member is told of a place.
type Standing struct {
	// Last is the number of the last announcement.
	Last uint64
	// Members are the names of all who are members now, its own included, in any order.
	Members []string
}

// Announcement is what those who listen hear.
type Announcement struct {
	Number uint64
	// Confirmed says that all members have confirmed everything up to Number. The rest is empty.
	Confirmed bool
	// Member is who announces, Message what.
	Member  string
	Message []byte
}

var (
	// ErrNoMember says that an instance is not a member of a place any more.
	ErrNoMember = errors.New("the membership has ended")
	// ErrNewer says that the value of a key is as of a later time.
	ErrNewer = errors.New("there is a newer value")
	// ErrHeld says that another has the lease of a key, or may have it.
	ErrHeld = errors.New("the lease is another's")
)

// HeldError is an [ErrHeld] that says whose the lease is.
type HeldError struct{ Holder string }

// Error implements [error].
func (e *HeldError) Error() string { return "the lease is held by " + e.Holder }

// Unwrap returns [ErrHeld].
func (*HeldError) Unwrap() error { return ErrHeld }
