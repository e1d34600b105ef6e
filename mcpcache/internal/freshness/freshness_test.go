package freshness_test

import (
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestVerdict has a list of an hour that was fetched now, of which some of its time passes and changes
// are announced.
func TestVerdict(t *testing.T) {
	const day = 24 * time.Hour
	bump := func(c *cache.Cache) { c.Bump(revision.SetOf(revision.Tools)) }
	bumpTold := func(c *cache.Cache) { c.BumpTold(revision.SetOf(revision.Tools)) }
	heard := func(told bool) func(*cache.Cache) {
		return func(c *cache.Cache) { c.Receive(cache.Change{Kinds: revision.SetOf(revision.Tools), Told: told}) }
	}
	for name, tt := range map[string]struct {
		policy   freshness.Policy
		age      time.Duration
		happens  func(*cache.Cache)
		notice   bool // the caller is told last
		lacks    bool
		anyone   bool
		restored bool // from before a restart, and outdated there
		kind     revision.Kind
		want     freshness.Verdict
		standsIn bool
	}{
		"fresh":                        {policy: freshness.Policy{IfError: day}, want: freshness.Fresh, standsIn: true},
		"fresh, stale_if_error 0":      {want: freshness.Fresh},
		"expired":                      {policy: freshness.Policy{IfError: day}, age: 2 * time.Hour, want: freshness.Expired, standsIn: true},
		"expired, stale_if_error 0":    {age: 2 * time.Hour, want: freshness.Withheld},
		"too old":                      {policy: freshness.Policy{IfError: day}, age: time.Hour + day, want: freshness.Withheld},
		"too old, after_notice":        {policy: freshness.Policy{IfError: day, AfterNotice: true}, age: time.Hour + day, want: freshness.Withheld},
		"outdated":                     {policy: freshness.Policy{IfError: day}, happens: bump, want: freshness.Outdated, standsIn: true},
		"outdated, stale_if_error 0":   {happens: bump, want: freshness.Withheld},
		"outdated elsewhere":           {policy: freshness.Policy{IfError: day}, happens: heard(false), want: freshness.Outdated, standsIn: true},
		"told elsewhere":               {policy: freshness.Policy{IfError: day}, happens: heard(true), want: freshness.Withheld},
		"told elsewhere, after":        {policy: freshness.Policy{IfError: day, AfterNotice: true}, happens: heard(true), want: freshness.Outdated, standsIn: true},
		"told":                         {policy: freshness.Policy{IfError: day}, happens: bump, notice: true, want: freshness.Withheld},
		"told, after":                  {policy: freshness.Policy{IfError: day, AfterNotice: true}, happens: bump, notice: true, want: freshness.Outdated, standsIn: true},
		"told of its own change":       {policy: freshness.Policy{IfError: day}, notice: true, lacks: true, want: freshness.Withheld},
		"told before it was asked for": {policy: freshness.Policy{IfError: day}, notice: true, want: freshness.Fresh, standsIn: true},
		"another was told here, and is told apart":     {policy: freshness.Policy{IfError: day}, happens: bumpTold, want: freshness.Outdated, standsIn: true},
		"another was told here, and is not told apart": {policy: freshness.Policy{IfError: day}, happens: bumpTold, anyone: true, want: freshness.Withheld},
		"not told apart, and nobody was told":          {policy: freshness.Policy{IfError: day}, happens: bump, anyone: true, want: freshness.Outdated, standsIn: true},
		"told before a restart":                        {policy: freshness.Policy{IfError: day}, restored: true, want: freshness.Withheld},
		"told before, after":                           {policy: freshness.Policy{IfError: day, AfterNotice: true}, restored: true, want: freshness.Outdated, standsIn: true},
		"server/discover, told": {policy: freshness.Policy{IfError: day}, kind: revision.Discover, happens: func(c *cache.Cache) {
			c.Receive(cache.Change{Kinds: revision.SetOf(revision.Discover), Told: true, Missed: true})
		}, want: freshness.Outdated, standsIn: true},
	} {
		c, err := cache.New(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		e := &cache.Entry{Kind: tt.kind, Revision: revision.LatestModern, Lifetime: time.Hour, Fetched: now.Add(-tt.age), Mark: c.Mark(tt.kind)}
		if tt.restored {
			e.Mark = cache.Mark{}
		}
		if tt.happens != nil {
			tt.happens(c)
		}
		told := freshness.Told{Lacks: tt.lacks, Anyone: tt.anyone}
		if mark := c.Mark(revision.Tools); tt.notice {
			told.Notice = &mark
		}
		got := tt.policy.Of(c, e, told, now)
		if got != tt.want || tt.policy.MayStandIn(got) != tt.standsIn {
			t.Errorf("%s: the verdict is %d, want %d; it may stand in for an answer: %v", name, got, tt.want, tt.policy.MayStandIn(got))
		}
		if got.IsStale() != (got == freshness.Expired || got == freshness.Outdated) {
			t.Errorf("%s: it is stale: %v", name, got.IsStale())
		}
		c.Close()
	}
}
