package cache

import (
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// What was seen agrees with a snapshot only if both were asked for since the same
// change: a list from before a notice says nothing about one from after it.
func TestSeen(t *testing.T) {
	c := newCache(t, 1<<20)
	e := c.entry(toolsOf(Public), "list", 0)
	e.Fetched = time.Unix(1000, 0)
	seen := &Seen{Items: e.Body.ItemsDigest, Mark: e.Mark, At: e.Fetched.Add(-time.Hour), ByClient: true}
	if !seen.Agrees(e) || seen.Differs(e) || seen.Contradicts(e) {
		t.Error("does not agree with what was seen")
	}
	if none := (*Seen)(nil); none.Agrees(e) || none.Differs(e) || none.Contradicts(e) {
		t.Error("nothing was seen, and yet it says something")
	}
	c.Bump(revision.SetOf(revision.Tools))
	later := c.entry(toolsOf(Public), "list", 0)
	other := c.entry(toolsOf(Public), "other list", 0)
	other.Fetched = e.Fetched
	if seen.Agrees(later) || seen.Differs(other) || seen.Contradicts(other) {
		t.Error("what was seen before a change says something about what came after it")
	}
	for name, c := range map[string]struct {
		at                time.Duration // against the snapshot's
		byClient          bool
		differs, conflict bool
	}{
		"later":             {1, false, true, false},
		"at the same time":  {0, false, false, false},
		"earlier":           {-1, false, false, false},
		"earlier, a client": {-1, true, false, true},
		"later, a client":   {1, true, true, true},
	} {
		seen := &Seen{Items: [32]byte{1}, Mark: other.Mark, At: other.Fetched.Add(c.at), ByClient: c.byClient}
		if seen.Agrees(other) || seen.Differs(other) != c.differs || seen.Contradicts(other) != c.conflict {
			t.Errorf("%s: agrees %v, differs %v, contradicts %v", name, seen.Agrees(other), seen.Differs(other), seen.Contradicts(other))
		}
	}
}

func TestAskedSince(t *testing.T) {
	c := newCache(t, 1<<20)
	before := c.Mark(revision.Tools)
	doubt := c.Suspect(revision.Tools)
	if before.AskedSince(doubt) || !c.Mark(revision.Tools).AskedSince(doubt) {
		t.Error("what was asked for before a doubt is beyond it, or what came after is not")
	}
	if !c.Current(revision.Tools, before) || !c.Mark(revision.Prompts).SameEpoch(Start()) {
		t.Error("a doubt has outdated something")
	}
}
