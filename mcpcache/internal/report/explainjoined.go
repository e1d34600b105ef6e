package report

import (
	"context"
	"errors"
	"slices"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// joinedCaller is a caller of a toolkit, as the rules of its servers and those above them see
// it.
type joinedCaller struct {
	servers []Source
	// seen are by the servers' numbers, and of the toolkit behind them; nil where there are no
	// rules.
	seen []*caller
}

// newJoinedCaller returns the caller who has those values. A value that no rule asks for is
// an error.
func newJoinedCaller(ctx context.Context, s Source, t Toolkit, as []string) (*joinedCaller, error) {
	c := &joinedCaller{servers: t.Servers()}
	c.seen = make([]*caller, len(c.servers)+1)
	var misses []*UnaskedError
	for i, source := range append(slices.Clip(c.servers), s) {
		p := source.Policy()
		if p == nil {
			continue
		}
		view, failed, err := p.ViewAs(ctx, as)
		missed, ok := errors.AsType[*UnaskedError](err)
		if err != nil && !ok {
			return nil, err
		}
		misses = append(misses, missed)
		c.seen[i] = &caller{p.Set(), view, p.Rules(), failed}
	}
	if err := missedByAll(misses); err != nil {
		return nil, err
	}
	return c, nil
}

// missedByAll returns an error if there is a placeholder that is in all of the errors, nil being
// one without any.
func missedByAll(all []*UnaskedError) error {
	if len(all) == 0 || slices.Contains(all, nil) {
		return nil
	}
	joined := &UnaskedError{}
	for _, one := range all {
		joined.Asked = append(joined.Asked, one.Asked...)
	}
	for _, name := range all[0].Names {
		if !slices.Contains(joined.Asked, name) {
			joined.Names = append(joined.Names, name)
		}
	}
	slices.Sort(joined.Asked)
	joined.Asked = slices.Compact(joined.Asked)
	if joined.Names == nil {
		return nil
	}
	return joined
}

// views are what the caller may see.
func (c *joinedCaller) views() *catalog.Views {
	views := &catalog.Views{Servers: make([]*policy.View, len(c.servers))}
	for i, seen := range c.seen {
		switch {
		case seen == nil:
		case i == len(c.servers):
			views.All = seen.view
		default:
			views.Servers[i] = seen.view
		}
	}
	return views
}

// why says what decides about an item that callers see by those names: a server's rule that
// hides it, or else the rules above all, or else the server's.
func (c *joinedCaller) why(k revision.Kind, t catalog.Target, seen policy.Item, raw []byte) *Why {
	w := &Why{Allowed: true, Reason: "there are no rules"}
	if own := c.seen[t.Server]; own != nil {
		w = own.why(k, policy.Item{Name: t.Name}, raw)
		w.Server = c.servers[t.Server].Name()
	}
	if above := c.seen[len(c.servers)]; w.Allowed && above != nil {
		if by := above.why(k, seen, raw); !by.Allowed || by.Rule != nil || w.Rule == nil {
			return by
		}
	}
	return w
}

// joinedItemsAs is [ItemsAs] for a toolkit. With why, what rules hide comes in its place, and
// what has the name of something hidden behind all others.
func joinedItemsAs(ctx context.Context, s Source, t Toolkit, k revision.Kind, like string, as []string, why bool) ([]Item, error) {
	c, err := newJoinedCaller(ctx, s, t, as)
	if err != nil {
		return nil, trouble(Invalid, "as: %v", err)
	}
	shown := t.ListFor(c.views(), k)
	if !why {
		return itemsLike(shown.Entry, like), nil
	}
	all := t.ListFor(nil, k)
	items := itemsLike(all.Entry, like)
	for i, item := range items {
		target, _ := all.Target(item.Name)
		items[i].why = c.why(k, target, all.SeenAs(item.Name), item.Raw)
	}
	for _, item := range itemsLike(shown.Entry, like) {
		target, _ := shown.Target(item.Name)
		if known, has := all.Target(item.Name); !has || known != target {
			item.why = c.why(k, target, shown.SeenAs(item.Name), item.Raw)
			items = append(items, item)
		}
	}
	return items, nil
}
