package variant

import (
	"context"
	"strconv"
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

func TestOneScoutAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(Record)
		scout, first := r.Send(rev, tools, time.Now())
		if !first {
			t.Fatal("nobody has been sent, and yet there is one")
		}
		other, first := r.Send(rev, tools, time.Now())
		if first || other != scout {
			t.Fatal("two are sent")
		}
		if _, first := r.Send(rev, revision.Prompts, time.Now()); !first {
			t.Error("another list has to wait for this one")
		}
		go func() {
			time.Sleep(time.Second)
			scout.Return()
		}()
		if began := time.Now(); !other.Wait(t.Context(), began, 5*time.Second) || time.Since(began) != time.Second {
			t.Errorf("waited for %s", time.Since(began))
		}
		if _, first := r.Send(rev, tools, time.Now()); !first {
			t.Error("after its return, no other is sent")
		}
	})
}

// Whoever comes late waits no longer than who came early.
func TestWaitingForAScoutEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scout, _ := new(Record).Send(rev, tools, time.Now())
		defer scout.Return()
		for _, c := range []struct{ after, want time.Duration }{
			{300 * time.Millisecond, 700 * time.Millisecond}, {time.Second, 0}, {time.Hour, 0},
		} {
			time.Sleep(c.after)
			began := time.Now()
			if scout.Wait(t.Context(), began, time.Second) || time.Since(began) != c.want {
				t.Errorf("waited for %s, want %s", time.Since(began), c.want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if began := time.Now(); scout.Wait(ctx, began, 24*time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("with a client that leaves, waited for %s", time.Since(began))
		}
		scout.waiters.Store(maxWaiters)
		if began := time.Now(); scout.Wait(t.Context(), began, 24*time.Hour) || time.Since(began) != 0 {
			t.Errorf("one too many waited for %s", time.Since(began))
		}
		scout.waiters.Store(0)
	})
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
	if !r.Confirm(fetched, entry(1), entry(1)) || r.Seen(rev, tools) != fetched || !r.Shown(entry(1), entry(1)) {
		t.Error("what was fetched for clients that were given nothing does not count")
	}
	if r.Shown(entry(1), entry(2)) {
		t.Error("the feed's snapshot has changed since, and the list counts still")
	}
	given := &cache.Seen{Items: [32]byte{2}, ByClient: true}
	r.See(rev, tools, given, entry(2))
	if r.Confirm(fetched, entry(1), entry(2)) || r.Seen(rev, tools) != given || r.Shown(entry(1), entry(2)) || !r.Shown(entry(2), entry(2)) {
		t.Error("what was fetched has replaced what a client was given")
	}
	if !r.Confirm(&cache.Seen{Items: [32]byte{2}}, entry(2), entry(2)) {
		t.Error("the same list is not confirmed")
	}
}

// There is one scout for a key at a time, and so many at all.
func TestScoutsAreBounded(t *testing.T) {
	var scouts Scouts
	now := time.Now()
	var out []*Scout
	for i := range maxScouts {
		s, first := scouts.Send(strconv.Itoa(i), now)
		if !first {
			t.Fatalf("number %d is not the first one", i)
		}
		out = append(out, s)
	}
	if s, first := scouts.Send("one more", now); s != nil || first {
		t.Error("one more is sent")
	}
	if s, first := scouts.Send("0", now); s != out[0] || first {
		t.Error("there is another scout of the same key")
	}
	out[0].Return()
	if s, first := scouts.Send("one more", now); s == nil || !first {
		t.Error("when one has returned, none is sent")
	}
	for _, s := range out[1:] {
		s.Return()
	}
	if len(scouts.out) != 1 {
		t.Errorf("%d are under way", len(scouts.out))
	}
}
