package lists

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

const (
	manySessions = 10
	manyLists    = 8
)

// listAll has sessions list the tools, one after the other, and returns how often
// that was a hit, and all values of Cache-Status.
func listAll(t *testing.T, url, revision string) (hits int, statuses []string) {
	t.Helper()
	for range manySessions {
		c := fixture.New(t, url, revision, "")
		for range manyLists {
			a := c.List(scripted.ToolsList)
			if caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
				t.Errorf("want the list v1, got %s", a)
			}
			if a.CacheStatus().Hit {
				hits++
			}
			statuses = append(statuses, a.CacheStatus().Raw)
		}
	}
	return hits, statuses
}

// TestDefaultHintsAreObeyedAloud has a server with its SDK's default hints: no
// list is a hit, none is said to be stored, and the log and the status say why.
func TestDefaultHintsAreObeyedAloud(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.SDKDefault)
	w.SetRevisions(scripted.Modern)
	w.Start()
	caddytest.AwaitReady(t, "mcp_cache")
	hits, statuses := listAll(t, w.Proxy.URL, scripted.Modern)
	if asked := w.Host.CountClients(scripted.ToolsList); hits != 0 || asked != manySessions*manyLists {
		t.Errorf("%d hits, %d lists upstream; want 0 and %d", hits, asked, manySessions*manyLists)
	}
	// With a token of its own a caller would have a copy of its own.
	own := w.ClientAs(scripted.Modern, "Bearer own")
	for range 3 {
		statuses = append(statuses, own.List(scripted.ToolsList).CacheStatus().Raw)
	}
	for _, status := range statuses {
		if strings.Contains(status, "stored") {
			t.Errorf("what is never used again is said to be stored: %s", status)
		}
	}
	const line = "list not kept, its ttlMs is 0"
	if log := w.Proxy.Log(); strings.Count(log, line) != 1 || !strings.Contains(log, "min_ttl would let it be kept") {
		t.Errorf("the log says so %d times", strings.Count(log, line))
	}
	table, _ := caddytest.Command(t, 0, "status")
	if words := strings.Join(caddytest.Fields(table, "tools"), " "); !strings.Contains(words, "uncacheable: ttlMs 0") || strings.Contains(table, "stale for") {
		t.Errorf("status is\n%s", table)
	}
}

// TestMinTTLGivesHits has the same server with min_ttl: the upstream is asked
// twice at most, and an announced change is in the next list.
func TestMinTTLGivesHits(t *testing.T) {
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := caddytest.NewUpstream(t)
		w.SetHints(scripted.SDKDefault)
		w.SetRevisions(revision)
		w.Start("min_ttl 5m")
		caddytest.AwaitReady(t, "mcp_cache")
		fixture.Await(t, "the feed's stream", func() bool {
			return w.Streams(func(s scripted.StreamInfo) bool { return s.Feed }) > 0
		})
		hits, _ := listAll(t, w.Proxy.URL, revision)
		if asked := w.Host.CountClients(scripted.ToolsList) + w.Host.CountFeed(scripted.ToolsList); asked > 2 {
			t.Errorf("%d lists reached the upstream, more than 2; %d were hits", asked, hits)
		}
		if hits < manySessions*manyLists-1 {
			t.Errorf("%d of %d lists were hits", hits, manySessions*manyLists)
		}
		c := w.Client(revision)
		c.Settle(scripted.ToolsList)
		s := c.Notices()
		fixture.Await(t, "the stream", func() bool { return w.Streams(caddytest.OfEra(c)) == 1 })
		w.Mark(scripted.ToolsList, "v2")
		w.Changed(caddytest.OfEra(c), scripted.ToolsList)
		s.Await("notifications/tools/list_changed")
		if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != "v2" {
			t.Errorf("after the notice, the list is %s", a)
		}
		if log := w.Proxy.Log(); strings.Contains(log, "list not kept") {
			t.Error("the log says that the list is not kept")
		}
		table, _ := caddytest.Command(t, 0, "status")
		if strings.Contains(table, "uncacheable") || !slices.Contains(caddytest.Fields(table, "tools"), revision) {
			t.Errorf("status is\n%s", table)
		}
	})
}
