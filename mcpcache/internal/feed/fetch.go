package feed

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// maxWaiters bounds how many callers wait for one fetch at once. Each holds a goroutine
// and a request; requests beyond that are forwarded.
const maxWaiters = 10_000

// errTooManyWaiters says that [maxWaiters] callers wait for a fetch already.
var errTooManyWaiters = errors.New("too many callers wait for the list already")

// Fetch is one request for a whole list, whose result up to 10,000 callers wait
// for.
type Fetch struct {
	variant *variant.Record // nil is the feed's own
	// asked is when the fetch was first asked for. It may begin later, having waited
	// for its session or for more notices.
	asked   time.Time
	waiters atomic.Int64

	// Guarded by the feed's mu until done is closed:

	// begun says that its first request is being sent. Changes that were announced
	// before that are in its result.
	begun   bool
	begunAt time.Time
	mark    cache.Mark // of that moment

	// done is closed when all that follows is there.
	done  chan struct{}
	entry *cache.Entry
	err   error
	// times are those that the entry's lifetime is by.
	times Times
	// server is what a fetch of [revision.Discover] says of the upstream, or nil.
	server *client.ServerInfo
	// change is how the entry differs from the feed's snapshot before, if the fetch
	// was for that.
	change Change
	// overtaken says that a newer snapshot has been pinned already.
	overtaken bool
	// elsewhere says that another instance has fetched the entry, aged that it was due for no
	// other reason than the age of the one before.
	elsewhere, aged bool
}

// Wait returns the snapshot that the fetch brings, or why it brings none. It
// waits no longer than ctx lasts; the fetch goes on without its callers. If too many
// wait already, it fails at once.
func (f *Fetch) Wait(ctx context.Context) (*cache.Entry, error) {
	defer f.waiters.Add(-1)
	if f.waiters.Add(1) > maxWaiters {
		return nil, errTooManyWaiters
	}
	if err := WaitFor(ctx, f.done); err != nil {
		return nil, err
	}
	return f.entry, f.err
}

// WaitFor waits until done is closed, or returns why ctx has ended before that. If done is closed
// already, it returns nil whatever ctx says: the caller may have waited for something else meanwhile.
func WaitFor(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done:
		return nil
	default:
		return ctx.Err()
	}
}

// finishedFetch returns a fetch that has already brought e.
func finishedFetch(e *cache.Entry, v *variant.Record) *Fetch {
	f := &Fetch{mark: e.Mark, begun: true, variant: v, asked: time.Now(), done: make(chan struct{}), entry: e}
	close(f.done)
	return f
}

// Since reports whether the fetch began no earlier than m, so that its result has all
// changes announced before m. It may be called once Wait has returned a snapshot.
func (f *Fetch) Since(m cache.Mark) bool { return f.mark.Since(m) }

// Asked is when the fetch was first asked for.
func (f *Fetch) Asked() time.Time { return f.asked }
