package probe

import "github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"

// Words on when a list may be given to everybody, in the report and in the
// Caddyfile.
const safeAlways = "Only if no list is meant for some callers alone"

// judgeScope says who shares a list.
func judgeScope(r *Report) []Finding {
	var all []Finding
	isPublic := func(_ *Era, l *List) bool { return l.Scope == message.ScopePublic.String() }
	other := func(l *List) *Comparison { return l.Caller }
	asked, same := r.compared(other)
	if r.Access.Second != "" {
		all = append(all, Finding{Note, "The second caller was not let in: " + r.Access.Second + ".", ""})
	}
	public, publics := r.lists(isPublic)
	restricted, restricteds := r.lists(func(e *Era, l *List) bool { return !isPublic(e, l) })
	if asked && !same {
		all = append(all, r.judgeDifferent(publics > 0))
	}
	if publics > 0 && same {
		all = append(all, Finding{Good, "cacheScope is public for " + public + ": one copy for everybody.", ""})
	}
	if restricteds == 0 || asked && !same {
		return all
	}
	return append(all, r.judgeRestricted(restricted, asked))
}

// judgeDifferent is about lists that differ from caller to caller.
func (r *Report) judgeDifferent(public bool) Finding {
	other := func(l *List) *Comparison { return l.Caller }
	if public && len(r.leaking()) > 0 {
		return Finding{Costs, "The server says that everybody may have a list (cacheScope public), and gives two callers different ones. " +
			r.differences(other) + ". A cache has to believe that, and would give all callers the same list. Have the server say private; until then, leave the kind out.",
			r.kindsOption()}
	}
	return Finding{Good, "The two callers are given different lists. " + r.differences(other) +
		". The cache keeps them apart by the callers' headers: each list is fetched once for each caller.", ""}
}

// judgeRestricted is about lists that are private, or of which the server does
// not say whose they are.
func (r *Report) judgeRestricted(names string, compared bool) Finding {
	set := "# " + r.scopeOption()
	what := "cacheScope is private for " + names
	if r.scopeOption() == scopePublic {
		what = "There is no cacheScope for " + names
	}
	switch {
	case !r.Access.Credentials:
		return Finding{Note, what + ". Callers without credentials share one copy all the same. A caller who sends credentials, or any header that the cache does not know, has a copy of his own. " +
			"Anybody can get these lists here, so everybody may share them, if the server takes no notice of credentials.", set}
	case compared:
		return Finding{Costs, what + ", and yet the two callers are given the same. Each caller's list is fetched for himself. " +
			safeAlways + " may everybody share them.", set}
	}
	return Finding{Costs, what + ": each caller's list is fetched for himself. To see whether callers are given the same, repeat the header with another caller's value.", ""}
}

const scopePublic = "scope public"

// scopeOption is the option that lets everybody share every list that the
// server does not call public.
func (r *Report) scopeOption() string {
	option := scopePublic
	r.each(func(_ *Era, l *List) {
		if l.Scope == message.ScopePrivate.String() {
			option = scopePublic + " always"
		}
	})
	return option
}

// leaking are the kinds that the server calls public though it gives callers
// different ones.
func (r *Report) leaking() map[string]bool {
	kinds := map[string]bool{}
	r.each(func(_ *Era, l *List) {
		if l.Scope == message.ScopePublic.String() && l.Caller != nil && !l.Caller.Same {
			kinds[l.Kind] = true
		}
	})
	return kinds
}
