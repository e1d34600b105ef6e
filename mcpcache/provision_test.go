package mcpcache

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/ruleset"
)

// TestRulesAreWatched looks after the rules of one server, of a toolkit and of a toolkit's server
// while their configuration is in use.
func TestRulesAreWatched(t *testing.T) {
	const rules = `[{"effect":"deny","kind":"tools","items":["x"]}]`
	for name, c := range map[string]struct {
		config string
		rules  func(*Handler) *ruleset.Rules
	}{
		"one server": {config("watched", "rules", rules), func(h *Handler) *ruleset.Rules { return h.one.rules }},
		"a toolkit":  {toolkitNamed("watched", []string{serverNamed("one")}, "rules", rules), func(h *Handler) *ruleset.Rules { return h.several.rules }},
		"a toolkit's server": {toolkitNamed("watched", []string{serverNamed("one", "rules", rules)}), func(h *Handler) *ruleset.Rules {
			return h.several.servers[0].rules
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := mustProvision(t, c.config)
				var looks atomic.Int64
				c.rules(l.Handler).Watch("/mcp", func() {}, func() []*catalog.List {
					looks.Add(1)
					return nil
				}, true, zap.NewNop())
				time.Sleep(time.Minute)
				if n := looks.Load(); n != 0 {
					t.Errorf("%d looks before the start", n)
				}
				l.start()
				time.Sleep(time.Minute)
				synctest.Wait() // for a look that begins at this time
				seen := looks.Load()
				if seen == 0 {
					t.Error("nobody has looked")
				}
				l.cancel()
				synctest.Wait()
				time.Sleep(time.Minute)
				if n := looks.Load(); n != seen {
					t.Errorf("%d looks after the end", n-seen)
				}
			})
		})
	}
}
