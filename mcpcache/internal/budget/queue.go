package budget

import (
	"context"
	"time"
)

// Queue lets one piece of work through after another, where each takes so much memory for a
// moment that many at once would take too much. It is made by [NewQueue].
type Queue chan struct{}

// NewQueue returns a queue in which nobody is.
func NewQueue() Queue { return make(Queue, 1) }

// Enter begins a piece of work once all that came before are over. It waits for that at most as
// long as patience, and until ctx ends; then it returns false. Otherwise Leave has to be called
// at the end.
func (q Queue) Enter(ctx context.Context, patience time.Duration) bool {
	select {
	case q <- struct{}{}:
		return true
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case q <- struct{}{}:
		if ctx.Err() == nil {
			return true
		}
		q.Leave()
	case <-ctx.Done():
	}
	return false
}

// Leave ends a piece of work.
func (q Queue) Leave() { <-q }

// Room is a budget with a queue for large pieces of work. The piece whose turn it is grows bit by bit, and
// the others begin later. It is made by [NewRoom].
type Room struct {
	*Budget
	Queue
}

// NewRoom returns one of so many bytes.
func NewRoom(limit int64) *Room { return &Room{New(limit), NewQueue()} }
