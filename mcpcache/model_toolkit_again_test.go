package mcpcache

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// These are the clients that were given a list without the part of a server: they are told once it is
// there again.

// partKind is a list of a server.
type partKind struct {
	of   *world
	kind revision.Kind
}

// absence is since when a client knows a list without a part of which there was a copy, and when that
// was seen to be back; zero while it was not.
type absence struct{ since, back time.Time }

// againWithin is how long it may take until a client is told that a part is there again.
const againWithin = 5 * time.Second

// follows records which parts a client was given no list of, and which are back. The caller holds the
// lock.
func (t *modelToolkit) follows(x *call, l *joinedList) {
	for i, s := range t.servers {
		what := partKind{s, x.kind}
		switch {
		case l.parts[i] != nil:
			t.returns(x, what)
		case s.cfg.stale == 0: // nobody is told of what may only be given while it is fresh
		case x.parts[i].kept && (!s.cfg.personal || !s.cfg.alone): // or else a client of the one server may bring it back
			x.c.without[what] = absence{since: time.Now()}
		}
	}
}

// returns records that a client was given a part that others like it may have missed.
func (t *modelToolkit) returns(x *call, what partKind) {
	for _, c := range t.clients {
		missed, misses := c.without[what]
		if !misses || c.at != x.at || c.modern() != x.c.modern() || what.of.cfg.personal && c.ctx != x.ctx {
			continue
		}
		if missed.back.IsZero() && x.before.at.After(missed.since) {
			missed.back = time.Now()
			c.without[what] = missed
		}
	}
}

// checkTold makes sure that clients are told of what is there again. The caller holds the lock.
func (t *modelToolkit) checkTold() {
	for _, c := range t.clients {
		for what, missed := range c.without {
			if missed.back.IsZero() || time.Since(missed.back) < againWithin {
				continue
			}
			delete(c.without, what)
			if t.listens(c, missed.since) && !what.of.disturbed && what.of.changed[what.kind].Before(missed.since) {
				t.servers[0].fail("%s was given %s without %s, which is there again, and nobody has told it", c, what.kind, what.of.cfg.name)
			}
		}
	}
}

// listens reports whether a client has had a stream since then.
func (t *modelToolkit) listens(c *client, since time.Time) bool {
	for x := range t.servers[0].pending {
		if x.c == c && x.stream && !x.cancelled && x.status == http.StatusOK && !x.before.at.After(since) {
			return true
		}
	}
	return false
}

// forget has clients of an instance expect nothing of a configuration that has ended. The caller holds the
// lock.
func (t *modelToolkit) forget(at *modelInstance) {
	for _, c := range t.clients {
		if c.at == at {
			clear(c.without)
		}
	}
}

// stepJoinedAgain has a client that listens be given a list without a part, which comes back.
func (w *world) stepJoinedAgain(r *rand.Rand) {
	c, s, k := w.anyVisitor(r), pick(r, w.servers()...), pick(r, modelKindsOfToolkit...)
	w.listen(c)
	w.settle()
	w.visit(c, listing(k))
	w.settle()
	s.failLists(r)
	w.mu.Lock()
	n := s.up.announce(k)
	for _, stream := range s.up.streams {
		stream.tell(n)
	}
	w.note("%s: upstream: notice %d about %s to all", s.cfg.name, n.id, k)
	w.mu.Unlock()
	w.settle()
	time.Sleep(2 * time.Second)
	for _, pause := range []time.Duration{0, 12 * time.Second, 6 * time.Second} {
		w.settle()
		w.visit(c, listing(k))
		w.settle()
		s.stepRepair(r)
		time.Sleep(pause)
	}
}
