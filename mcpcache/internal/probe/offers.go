package probe

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// offers reports whether the server says that it has that kind.
func (e *Era) offers(kind revision.Kind) bool {
	return kind.Capability() == "" || e.offered[kind.Capability()]
}

// unoffered asks once for each kind that the server does not offer: some give their lists
// all the same. That comes after all else, should the server end the session over it.
func (x *examination) unoffered(ctx context.Context, c *conversation, e *Era) {
	silent := false
	for _, kind := range revision.Kinds() {
		switch {
		case !kind.In(c.revision) || e.offers(kind):
		case silent || ctx.Err() != nil:
			e.NotOffered = append(e.NotOffered, kind.String())
		case isUnanswered(x.list(ctx, c, e, kind)):
			silent = true // it would be at the next, too
		default:
		}
	}
	x.again(ctx, c, e)
	for _, l := range e.Lists {
		l.Unoffered = !e.offers(l.kind)
	}
	names := revision.KindNames()
	slices.SortFunc(e.Lists, func(a, b *List) int { return cmp.Compare(a.kind, b.kind) })
	slices.SortFunc(e.NotOffered, func(a, b string) int { return cmp.Compare(slices.Index(names, a), slices.Index(names, b)) })
}

// offeredMore returns the capabilities for lists that are offered to another client only.
func (e *Era) offeredMore(other message.ServerInfo) []string {
	var more []string
	for _, kind := range revision.Kinds() {
		if name := kind.Capability(); other.Capabilities[name] && !e.offers(kind) && !slices.Contains(more, name) {
			more = append(more, name)
		}
	}
	return more
}

func judgeUnoffered(r *Report) []Finding {
	return r.perEra(func(e *Era) string {
		var kinds []string
		for _, l := range e.Lists {
			if l.Unoffered {
				kinds = append(kinds, l.Kind)
			}
		}
		if len(kinds) == 0 {
			return ""
		}
		return "It lists " + strings.Join(kinds, ", ") + "{era}, though its capabilities do not have that, or not as an object. " +
			"Clients may never ask for it. Have the server offer it."
	}, Note)
}

func judgeOfferedToOthers(r *Report) []Finding {
	return r.perEra(func(e *Era) string {
		if len(e.OfferedToOthers) == 0 {
			return ""
		}
		return "It offers " + strings.Join(e.OfferedToOthers, ", ") + "{era} only to clients that show capabilities of their own, such as sampling, elicitation or roots. " +
			"Nothing to set: clients are told apart by their capabilities."
	}, Note)
}
