package probe

import (
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

const (
	scopePublic = "scope public"

	// safeAlways is when a list may be given to everybody.
	safeAlways = "Only if no list is meant for some callers alone"
)

func isPublic(_ *Era, l *List) bool  { return l.Scope == message.ScopePublic.String() }
func isPrivate(_ *Era, l *List) bool { return l.Scope == message.ScopePrivate.String() }
func isUnset(_ *Era, l *List) bool   { return l.Scope == message.ScopeUnset.String() }

func otherCaller(l *List) *Comparison { return l.Caller }

// judgeScope says who shares a list.
func judgeScope(r *Report) []Finding {
	all := r.failures("The second caller", otherCaller)
	if r.Access.Second != "" {
		all = append(all, Finding{Note, "The second caller was not let in: " + r.Access.Second + ".", ""})
	}
	compared, same := r.compared(otherCaller)
	public, publics := r.lists(isPublic)
	switch {
	case !same:
		return append(all, r.judgeDifferent())
	case publics > 0:
		all = append(all, Finding{Good, "cacheScope is public for " + public + ": one copy for everybody.", ""})
	}
	if _, doubtful := r.lists(isDoubtful); doubtful > 0 && r.Access.Needed && r.Access.Callers == 1 {
		all = append(all, Finding{Note, "cacheScope public with ttlMs 0 is what some SDKs send when the author of the server has set nothing. " +
			"Before min_ttl keeps such a list, see that callers are given the same: repeat the header with another caller's value.", ""})
	}
	if what := r.restricted(); what != "" {
		all = append(all, r.judgeRestricted(what, compared))
	}
	return all
}

// isDoubtful tells lists that are called public, perhaps without a thought.
func isDoubtful(e *Era, l *List) bool { return isPublic(e, l) && isZero(e, l) }

// judgeDifferent is about lists that differ from caller to caller.
func (r *Report) judgeDifferent() Finding {
	if len(r.leaking()) > 0 {
		return Finding{Costs, "The server says that everybody may have a list (cacheScope public), and gives two callers different ones. " +
			r.differences(otherCaller) + ". A cache has to believe that, and would give all callers the same list. Have the server say private; until then, do not cache it.",
			r.kindsOption()}
	}
	return Finding{Good, "The two callers are given different lists. " + r.differences(otherCaller) +
		". The cache keeps them apart by the callers' headers: each list is fetched once for each caller.", ""}
}

// restricted says which lists are private, and of which the server does not say
// whose they are; "" if there are none.
func (r *Report) restricted() string {
	var parts []string
	if names, n := r.lists(isPrivate); n > 0 {
		parts = append(parts, "cacheScope is private for "+names)
	}
	if names, n := r.lists(isUnset); n > 0 {
		parts = append(parts, "there is none for "+names)
		if len(parts) == 1 {
			parts[0] = "cacheScope is missing for " + names
		}
	}
	return strings.Join(parts, "; ")
}

// judgeRestricted is about those lists.
func (r *Report) judgeRestricted(what string, compared bool) Finding {
	set := "# " + r.scopeOption()
	switch {
	case !r.Access.Credentials:
		return Finding{Note, what + ". Callers without credentials share one copy all the same; a caller with credentials, or with a header that the cache does not know, gets its own. " +
			"As anybody can get these lists here, everybody may share them, if the server gives callers with credentials nothing else.", set}
	case compared:
		return Finding{Costs, what + ", and yet the two callers are given the same. Each caller's lists are fetched separately. " +
			safeAlways + " may everybody share them.", set}
	}
	what += ": each caller's lists are fetched separately."
	if r.Access.Callers == 1 {
		what += " To see whether callers are given the same, repeat the header with another caller's value."
	}
	return Finding{Costs, what, ""}
}

// scopeOption is the option that lets everybody share every list that the
// server does not call public.
func (r *Report) scopeOption() string {
	if _, n := r.lists(isPrivate); n > 0 {
		return scopePublic + " always"
	}
	return scopePublic
}

// leaking are the kinds that the server calls public though it gives callers
// different ones.
func (r *Report) leaking() map[string]bool {
	kinds := map[string]bool{}
	r.each(func(e *Era, l *List) {
		if isPublic(e, l) && l.Caller != nil && l.Caller.Difference != "" {
			kinds[l.Kind] = true
		}
	})
	return kinds
}
