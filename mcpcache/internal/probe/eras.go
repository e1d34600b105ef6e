package probe

import (
	"fmt"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// compareEras says of each list what clients of the other era are given. A list
// that both have says it in the first era.
func compareEras(eras []*Era) {
	if len(eras) != 2 {
		return
	}
	first, second := eras[0], eras[1]
	for _, l := range first.Lists {
		l.OtherEra = second.insteadOf(l)
	}
	for _, l := range second.Lists {
		if first.listOf(l.kind) == nil {
			l.OtherEra = first.insteadOf(l)
		}
	}
}

// insteadOf compares a list of the other era with that of e; nil if there is
// nothing to compare.
func (e *Era) insteadOf(l *List) *Comparison {
	other := e.listOf(l.kind)
	switch {
	case l.Failure != "" || l.kind.ItemsKey() == "":
		return nil
	case other == nil && l.Items == 0:
		return &Comparison{Same: true}
	case other == nil:
		return &Comparison{Difference: fmt.Sprintf("not offered in the %s era, which leaves out %s", e.Era, plural(l.Items, "item", "items"))}
	case other.Failure != "":
		return &Comparison{Failure: other.Failure}
	case l.body.ItemsDigest == other.body.ItemsDigest: // the hints are each era's own
		return &Comparison{Same: true}
	}
	return compare(l.body, other.body)
}

// listOf returns the list of a kind, nil if there is none.
func (e *Era) listOf(kind revision.Kind) *List {
	for _, l := range e.Lists {
		if l.kind == kind {
			return l
		}
	}
	return nil
}

// judgeEras says whether it matters in which era a client asks.
func judgeEras(r *Report) []Finding {
	otherEra := func(l *List) *Comparison { return l.OtherEra }
	asked, same := r.compared(otherEra)
	switch {
	case !asked:
		return nil
	case same:
		return []Finding{{Good, "Clients of both eras are given the same.", ""}}
	}
	return []Finding{{Note, fmt.Sprintf("Clients of the %s era are given something else than those of the %s era. ", r.Eras[1].Era, r.Eras[0].Era) +
		r.differences(otherEra) + ". Nothing to set: each revision has its own lists in the cache.", ""}}
}
