package catalog

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestListsOfCallersAreBounded: what was joined for a caller is used again as long as it is
// among the latest, and the bytes of all that is kept stay below the limit.
func TestListsOfCallersAreBounded(t *testing.T) {
	const limit = 256 << 10
	j, _ := newJoined(t, 1<<20, "one__")
	j.callers.limit = limit / 2
	part := func(i int) []*cache.Entry {
		return []*cache.Entry{listOf(t, revision.Tools, cache.Public, fmt.Sprintf(`{"name":"tool-%d","description":"%01000d"}`, i, i))}
	}
	first := j.JoinFor(t.Context(), Caller{1}, nil, modern, revision.Tools, part(1))
	if again := j.JoinFor(t.Context(), Caller{1}, nil, modern, revision.Tools, part(1)); again.Entry != first.Entry {
		t.Error("the same parts are joined again")
	}
	if j.LastFor(Caller{1}, modern, revision.Prompts) != nil || j.LastFor(Caller{2}, modern, revision.Tools) != nil {
		t.Error("there is a list that nobody has joined")
	}
	if other := j.JoinFor(t.Context(), Caller{1}, nil, modern, revision.Tools, part(2)); other.Entry == first.Entry {
		t.Error("other parts give the same list")
	}
	for i := range 1000 {
		caller := Caller{byte(i), byte(i >> 8), 1}
		j.JoinFor(t.Context(), caller, nil, modern, revision.Tools, part(i))
		if j.LastFor(Caller{1}, modern, revision.Tools) == nil { // in use all the time
			t.Fatalf("after %d others, the list of a caller is gone", i)
		}
		var all int64
		for _, generation := range []map[place]kept{j.callers.younger, j.callers.older} {
			for _, l := range generation {
				all += l.cost()
			}
		}
		if all > limit || len(j.callers.younger) == 0 {
			t.Fatalf("after %d callers, %d bytes are kept in %d and %d lists", i, all, len(j.callers.younger), len(j.callers.older))
		}
	}
	if j.LastFor(Caller{1, 0, 1}, modern, revision.Tools) != nil {
		t.Error("what nobody has used for long is there still")
	}
	large := []*cache.Entry{listOf(t, revision.Tools, cache.Public, fmt.Sprintf(`{"name":"x","description":"%0200000d"}`, 1))}
	l := j.JoinFor(t.Context(), Caller{9}, nil, modern, revision.Tools, large)
	if l.Entry.Size() < 200000 || j.callers.younger[place{Caller{9}, modern, revision.Tools}].List != nil {
		t.Error("what is larger than all is kept")
	}
	if again := j.JoinFor(t.Context(), Caller{9}, nil, modern, revision.Tools, large); again != l || j.LastFor(Caller{9}, modern, revision.Tools) != l {
		t.Error("what is in use is joined again")
	}
	if other := j.JoinFor(t.Context(), Caller{8}, nil, modern, revision.Tools, large); other == l {
		t.Error("another caller is given the same")
	}
	runtime.KeepAlive(l)
	for j.LastFor(Caller{9}, modern, revision.Tools) != nil || j.callers.inPassing() > 0 { // until the test's own deadline
		runtime.GC()
	}
	// What was small before, and is too large now, is the last list nevertheless.
	j.JoinFor(t.Context(), Caller{9}, nil, modern, revision.Tools, part(1))
	j.callers.older, j.callers.younger = j.callers.younger, nil
	if l = j.JoinFor(t.Context(), Caller{9}, nil, modern, revision.Tools, large); j.LastFor(Caller{9}, modern, revision.Tools) != l {
		t.Error("the last list is not the one that was joined last")
	}
}

// inPassing returns how many lists are known that are not kept.
func (c *callers) inPassing() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.passing)
}

// TestNothingIsJoinedForNobody: large lists are joined one after another. Whoever has gone meanwhile is not
// joined a list, and nobody waits endlessly. Small lists do not wait.
func TestNothingIsJoinedForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _ := newJoined(t, 1<<20, "one__")
		part := func(size int) []*cache.Entry {
			return []*cache.Entry{listOf(t, revision.Tools, cache.Public, fmt.Sprintf(`{"name":"x","description":"%0*d"}`, size, 1))}
		}
		large := part(largeList)
		if !j.callers.large.Enter(t.Context(), 0) {
			t.Fatal("a list is being joined")
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		began := time.Now()
		if j.JoinFor(gone, Caller{1}, nil, modern, revision.Tools, large) != nil || !time.Now().Equal(began) {
			t.Error("a list is joined for a caller who has gone")
		}
		if j.JoinFor(t.Context(), Caller{1}, nil, modern, revision.Tools, large) != nil || !time.Now().Equal(began.Add(freshness.Patience)) {
			t.Error("a caller waits for longer, or less, than there is patience")
		}
		if j.JoinFor(t.Context(), Caller{2}, nil, modern, revision.Tools, part(100)) == nil {
			t.Error("a small list waits")
		}
		j.callers.large.Leave()
		l := j.JoinFor(t.Context(), Caller{1}, nil, modern, revision.Tools, large)
		if l == nil {
			t.Error("nobody is before it, and it is not joined")
		}
		if _, ok := (*List)(nil).Target("x"); ok {
			t.Error("something is in a list that was not joined")
		}
	})
}
