package feed

import (
	"errors"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// doubt records that the upstream may have been started anew: whether it still
// knows its sessions will be seen when it answers again. A modern feed could not
// see that.
func (f *Feed) doubt() {
	if f.revision.Era() == revision.Legacy {
		f.doubted.CompareAndSwap(0, time.Now().UnixNano())
	}
}

// doubtIfGone calls doubt if err says that the upstream cannot be reached.
func (f *Feed) doubtIfGone(err error) {
	if client.Unreachable(err) {
		f.doubt()
	}
}

// doubtAfter decides what a failure to connect says of the sessions that the
// upstream had. If it is gone, they are in doubt. If it is there and refuses this
// feed, no later answer would end the doubt: they count as lost.
func (f *Feed) doubtAfter(err error) {
	f.doubtIfGone(err)
	_, unsupported := errors.AsType[*client.UnsupportedError](err)
	if (unsupported || client.Refused(err)) && f.doubted.Swap(0) != 0 {
		f.lose()
	}
}

// trust records that the upstream has answered in the feed's session what was
// asked at that time.
func (f *Feed) trust(asked time.Time) {
	if since := f.doubted.Load(); since != 0 && asked.UnixNano() >= since {
		f.doubted.CompareAndSwap(since, 0)
	}
}

// Doubt tells the feed that the upstream has taken no connection of a client's,
// so that it finds out whether it was started anew. A feed of a revision that the
// upstream does not speak has no part in that.
func (f *Feed) Doubt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == Unsupported {
		return
	}
	f.doubt()
	for k := range f.slots {
		if s := &f.slots[k]; s.offered && s.failure == nil {
			s.hasten(later(time.Now(), s.started.Add(f.policy().Refresh)))
		}
	}
	signal(f.wake)
}

// Doubted reports whether it is not certain that the upstream still knows its
// sessions: it was gone, or has ended the feed's stream, and has not answered
// since.
func (f *Feed) Doubted() bool { return f.doubted.Load() != 0 }
