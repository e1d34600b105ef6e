package ruleset

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// use finds the patterns of rules that match nothing of the feeds' lists, as they may be misspelt.
// It logs each change once.
type use struct {
	set *policy.Set
	// lists and templates are those of [Rules.Watch]. Without the lists of templates, nobody
	// knows which resources there may be.
	lists     func() []*catalog.List
	templates bool
	logger    *zap.Logger

	mu     sync.Mutex
	seen   []seenList // the last time
	unused [][]int    // patterns, by rule; none where no list of its kind is known
}

// seenList is a list that was looked at.
type seenList struct {
	revision revision.Revision
	kind     revision.Kind
	digest   [32]byte
}

func newUse(s *policy.Set, lists func() []*catalog.List, templates bool, logger *zap.Logger) *use {
	return &use{set: s, lists: lists, templates: templates, logger: logger, unused: make([][]int, len(s.Rules()))}
}

// ListsOf returns the lists of the feeds of one server, of those revisions of which all are there.
func ListsOf(feeds *feed.Group, c *cache.Cache) (lists []*catalog.List) {
	for _, f := range feeds.All() {
		status := f.Status()
		if !status.Hydrated {
			continue
		}
		for _, k := range revision.Kinds() {
			if e := c.Pinned(status.Revision, k); e != nil && k.ItemsKey() != "" {
				lists = append(lists, &catalog.List{Entry: e})
			}
		}
	}
	return lists
}

// lookPause is the time between two looks. Several feeds fetch several lists each, one
// after the other: that they are all there nothing tells.
const lookPause = 10 * time.Second

// run looks again and again, until ctx ends.
func (u *use) run(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			u.logger.Error("looking after rules panicked", zap.Any("panic", p), zap.Stack("stack"))
		}
	}()
	ticker := time.NewTicker(lookPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			u.findUnused()
		}
	}
}

// findUnused returns for each rule the numbers of its patterns that match nothing.
func (u *use) findUnused() [][]int {
	lists := u.lists()
	seen := make([]seenList, len(lists))
	for i, l := range lists {
		seen[i] = seenList{l.Entry.Revision, l.Entry.Kind, l.Entry.Digest()}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Equal(seen, u.seen) {
		u.seen = seen
		u.judgeItems(lists)
	}
	return u.unused
}

// judgeItems looks at the items. The caller holds u.mu.
func (u *use) judgeItems(lists []*catalog.List) {
	var known revision.KindSet
	for _, l := range lists {
		known |= revision.SetOf(l.Entry.Kind)
	}
	if !u.templates {
		known &^= revision.SetOf(revision.Resources)
	}
	usage, unused := catalog.Usage(u.set, lists), slices.Clone(u.unused)
	for i, r := range u.set.Rules() {
		if !known.Has(r.Kind) {
			continue
		}
		if unused[i] = usage.Unused(i); !slices.Equal(u.unused[i], unused[i]) {
			u.note(i, unused[i])
		}
	}
	u.unused = unused
}

// note logs that other patterns of a rule match nothing than before.
func (u *use) note(rule int, unused []int) {
	r := u.set.Rules()[rule]
	logger := u.logger.With(zap.Int("rule", rule), zap.Stringer("effect", r.Effect), zap.Stringer("kind", r.Kind))
	if len(unused) == 0 {
		logger.Info("rule matches something of the lists with all its patterns")
		return
	}
	texts := make([]string, len(unused))
	for i, n := range unused {
		texts[i] = r.Items[n].String()
	}
	logger.Warn("patterns of a rule match nothing of the lists: they may be misspelt", zap.Strings("patterns", texts))
}
