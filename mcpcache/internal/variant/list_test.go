package variant

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	rev   = revision.V20251125
	tools = revision.Tools
)

// TestOneScoutForEachList: the first request for a list is the scout of those that come meanwhile.
func TestOneScoutForEachList(t *testing.T) {
	r := new(Record)
	scout, first := r.Scout(rev, tools)
	if !first {
		t.Fatal("the first request is not the scout")
	}
	if other, first := r.Scout(rev, tools); first || other != scout {
		t.Error("a second request is a scout, too")
	}
	if _, first := r.Scout(rev, revision.Prompts); !first {
		t.Error("the request for another list is not its scout")
	}
	if _, first := r.Scout(revision.LatestModern, tools); !first {
		t.Error("the request at another revision is not its scout")
	}
	if _, first := new(Record).Scout(rev, tools); !first {
		t.Error("the request of another variant is not its scout")
	}
}

// What clients are given tells whether a variant has a list of its own; too many
// contradictions, that it has none.
func TestWhatIsKnownOfAList(t *testing.T) {
	c, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := new(Record)
	if r.Seen(rev, tools) != nil || r.Differed(rev, tools) {
		t.Error("something is known before anything was seen")
	}
	snapshot := snapshotOf(c)
	seen := func(items byte) *cache.Seen {
		return &cache.Seen{Items: [32]byte{items}, Mark: c.Mark(tools), At: snapshot.Fetched.Add(1), ByClient: true}
	}
	r.See(rev, tools, seen(2), snapshot)
	if !r.Differed(rev, tools) || r.Differed(rev, revision.Prompts) {
		t.Error("another list does not differ, or one that was not seen does")
	}
	r.See(rev, tools, seen(1), snapshot)
	if r.Differed(rev, tools) {
		t.Error("the same list differs")
	}
	m := c.Mark(tools)
	for n := 1; n <= maxConflicts; n++ {
		if r.Hopeless(rev, tools, m) {
			t.Errorf("hopeless before conflict %d", n)
		}
		r.Conflict(rev, tools, m)
	}
	if !r.Hopeless(rev, tools, m) || r.Seen(rev, tools) != nil {
		t.Errorf("after %d conflicts it is not hopeless, or what was seen still counts", maxConflicts)
	}
	c.Bump(revision.SetOf(tools))
	if r.Hopeless(rev, tools, c.Mark(tools)) {
		t.Error("hopeless after a change")
	}
}

// An upstream that does not announce its changes makes conflicts too: they do not
// count for ever.
func TestConflictsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m cache.Mark
		r := new(Record)
		for range maxConflicts {
			time.Sleep(conflictsFor - 1)
			r.Conflict(rev, tools, m)
		}
		if !r.Hopeless(rev, tools, m) {
			t.Error("not hopeless")
		}
		time.Sleep(conflictsFor)
		if r.Hopeless(rev, tools, m) {
			t.Error("hopeless for ever")
		}
		r.Conflict(rev, tools, m)
		if r.Hopeless(rev, tools, m) {
			t.Error("old conflicts count again with a new one")
		}
	})
}

// What a client itself was given since is neither replaced by what was fetched as
// one, nor given up for it.
func TestClientHasTheLastWord(t *testing.T) {
	entry := func(items byte) *cache.Entry {
		return &cache.Entry{Revision: rev, Kind: tools, Body: &message.Body{ItemsDigest: [32]byte{items}}}
	}
	r := new(Record)
	fetched := &cache.Seen{Items: [32]byte{1}}
	if !r.Confirm(fetched, entry(1), entry(1)) || r.Seen(rev, tools) != fetched || !r.IsLatest(entry(1), entry(1)) {
		t.Error("what was fetched for clients that were given nothing does not count")
	}
	if r.IsLatest(entry(1), entry(2)) {
		t.Error("the feed's snapshot has changed since, and the list counts still")
	}
	given := &cache.Seen{Items: [32]byte{2}, ByClient: true}
	r.See(rev, tools, given, entry(2))
	if r.Confirm(fetched, entry(1), entry(2)) || r.Seen(rev, tools) != given || r.IsLatest(entry(1), entry(2)) || !r.IsLatest(entry(2), entry(2)) {
		t.Error("what was fetched has replaced what a client was given")
	}
	if !r.Confirm(&cache.Seen{Items: [32]byte{2}}, entry(2), entry(2)) {
		t.Error("the same list is not confirmed")
	}
}
