package lists

import (
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// eraOnly runs a script for requests of the feed of an era, others as ever.
func eraOnly(c *fixture.Raw, script scripted.Script) scripted.Script {
	return func(x *scripted.Exchange) {
		if x.Feed && x.Modern == c.Modern() {
			script(x)
			return
		}
		x.Default()
	}
}

// TestSuddenlyEmpty has a list come back empty without a notice, and once more a
// second later: it is not believed, and is there again.
func TestSuddenlyEmpty(t *testing.T) {
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := caddytest.NewUpstream(t)
		w.SetHints(scripted.PublicBrief)
		w.Start("ttl 300ms", "refresh 10ms")
		c := w.Warm(revision)
		var empties atomic.Int32
		w.SetScript(scripted.ToolsList, eraOnly(c, func(x *scripted.Exchange) {
			scripted.Empty(x)
			empties.Add(1)
		}))
		fixture.Await(t, "the first fetch", func() bool { return empties.Load() > 0 }) // before it, the list may expire
		fixture.Await(t, "the confirming fetch", func() bool {
			if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit || caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
				t.Errorf("of a list that is empty all of a sudden, there is %s", a)
			}
			return empties.Load() > 1
		})
		w.SetScript(scripted.ToolsList, nil)
		w.Mark(scripted.ToolsList, "v2")
		c.AwaitList(scripted.ToolsList, "the list", func(a *fixture.Answer) bool {
			return caddytest.IsHit(a, scripted.ToolsList, "v2") && !caddytest.IsStale(a)
		})
	})
}

// TestAnnouncedEmpty has a list become empty with a notice: it is believed when it
// is confirmed.
func TestAnnouncedEmpty(t *testing.T) {
	w := caddytest.NewWorld(t, "refresh 10ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		w.Mark(scripted.ToolsList, "v1")
		w.Changed(scripted.Feeds, scripted.ToolsList)
		c := w.Client(revision)
		c.AwaitList(scripted.ToolsList, "the full list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v1") })
		w.SetList(scripted.ToolsList)
		w.Changed(scripted.Feeds, scripted.ToolsList)
		c.AwaitList(scripted.ToolsList, "the empty list", func(a *fixture.Answer) bool {
			return a.CacheStatus().Hit && a.Items("tools") != nil && len(a.Items("tools")) == 0
		})
	})
}

// TestAnnouncedEmptyIsNotHidden has a list become empty with a notice: until that is
// confirmed, everybody gets it from the server, and nobody the list from before.
func TestAnnouncedEmptyIsNotHidden(t *testing.T) {
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := caddytest.NewUpstream(t)
		w.SetHints(scripted.PublicBrief)
		w.Start("ttl 1h", "refresh 500ms", "stale_if_error 0") // or who waits for a second gets the list from before
		clients := []*fixture.Raw{w.Warm(revision), w.ClientAs(revision, "Bearer another")}
		w.SetList(scripted.ToolsList)
		w.Changed(scripted.Feeds, scripted.ToolsList)
		isEmpty := func(a *fixture.Answer) bool { return a.Items("tools") != nil && len(a.Items("tools")) == 0 }
		clients[0].AwaitList(scripted.ToolsList, "the empty list", isEmpty) // the feed was told
		fixture.Await(t, "empty hits for all", func() bool {
			hits := 0
			for _, c := range clients {
				a := c.List(scripted.ToolsList)
				if !isEmpty(a) {
					t.Errorf("after the notice, there was %s", a)
				}
				if a.CacheStatus().Hit {
					hits++
				}
			}
			return hits == len(clients)
		})
	})
}

// TestEmptyFromTheStart serves a list that never had an item.
func TestEmptyFromTheStart(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetList(scripted.PromptsList)
	w.Start()
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		if a := w.Client(revision).Settle(scripted.PromptsList); a.Items("prompts") == nil || len(a.Items("prompts")) != 0 {
			t.Errorf("the empty list is %s", a)
		}
	})
}

// TestMissingCapability serves an upstream that has no prompts: what it says of
// them comes through.
func TestMissingCapability(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetCapabilities(`{"tools":{}}`)
	refuse := func(x *scripted.Exchange) { x.Error(404, -32601, "method not found") }
	for _, method := range []string{scripted.PromptsList, scripted.ResourcesList, scripted.TemplatesList} {
		w.SetScript(method, refuse)
	}
	w.Start()
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Client(revision)
		c.Settle(scripted.ToolsList)
		for range 2 {
			if a := c.List(scripted.PromptsList); a.ErrorCode() != -32601 || a.CacheStatus().Hit {
				t.Errorf("prompts that do not exist gave %s", a)
			}
		}
	})
	if n := w.Host.CountFeed(scripted.PromptsList); n > 2 { // once in each era, to make sure
		t.Errorf("the feed asked %d times for prompts", n)
	}
}

// TestKindsOption caches some kinds only.
func TestKindsOption(t *testing.T) {
	w := caddytest.NewWorld(t, "kinds tools resource_templates")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Client(revision)
		c.Settle(scripted.ToolsList)
		c.Settle(scripted.TemplatesList)
		for _, method := range []string{scripted.PromptsList, scripted.ResourcesList} {
			for range 2 {
				caddytest.WantForwarded(t, c.List(method))
			}
		}
	})
	if n := w.Host.CountFeed(scripted.PromptsList) + w.Host.CountFeed(scripted.ResourcesList); n != 0 {
		t.Errorf("the feed fetched %d lists of other kinds", n)
	}
}
