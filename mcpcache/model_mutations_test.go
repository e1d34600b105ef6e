package mcpcache

const (
	oldVersion = `version \d+ of \S+ is old: version \d+ had been announced`
	notLetIn   = `the upstream (has (never let this caller in|refused this caller|not let session \S+ in)|let this caller in \S+ ago)`
)

var mutations = []mutation{
	{"join an old fetch", []replacement{
		{
			"internal/feed/demand.go",
			"return f.cache.Current(k, fetch.mark)\n",
			"return true\n",
		},
		{"internal/exchange/fetch.go", "!flight.Since(x.question.mark)", "false"},
	}, `collapsed: version \d+ of \S+ is old: version \d+ had been announced`},
	{"store under the old epoch", []replacement{
		{"internal/exchange/keep.go", "Lifetime: lifetime, Mark: q.mark,", "Lifetime: lifetime, Mark: x.backend.Cache.Mark(q.kind),"},
	}, oldVersion},
	{"ignore the context of lists", []replacement{
		{"internal/cache/partition.go", "return p == Public || p == caller", "return p != caller || p == caller"},
	}, `the private list of \S+ was given to \S+`},
	{"ignore the context of callers", []replacement{
		{"internal/identity/identity.go", "return cache.ContextOf([16]byte(sum[:16]))", "return cache.ContextOf([16]byte{sum[0] & 0})"},
	}, `the private list of \S+ was given to \S+|the upstream has never let this caller in`},
	{"count what is for the next hop only", []replacement{
		{"internal/exchange/connection.go", "case values == nil:", "case true:"},
	}, notLetIn + `|the private list of \S+ was given to \S+`},
	{"serve after DELETE", []replacement{
		{"internal/exchange/tap.go", "x.endSessions()", "_ = x.session"},
		{"internal/exchange/learner.go", "if x.r.Method == http.MethodDelete {", "if false {"},
	}, `session s\d+ has ended|the upstream has refused this caller`},
	{"end one session of several", []replacement{
		{"internal/exchange/admit.go", "for _, id := range x.sessions {", "for _, id := range x.sessions[:min(len(x.sessions), 1)] {"},
	}, `the upstream has refused this caller|the upstream has not let session`},
	{"trust a session after a 400", []replacement{
		{"internal/exchange/learner.go", "x.endSessions() // some servers say that of a session that they do not know", ""},
	}, `the upstream has refused this caller|the upstream has not let session`},
	{"trust a session that is said to be unknown", []replacement{
		{"internal/exchange/learner.go", "r.Error.Code == sessionNotFound", "false"},
	}, `the upstream has refused this caller|the upstream has not let session`},
	{"look away at other paths", []replacement{
		{"internal/exchange/pass.go", "e.backend.Upstream.ServeHTTP(o, r, next)", "e.backend.Upstream.ServeHTTP(w, r, next)"},
	}, `the upstream has refused this caller|the upstream has not let session|` + oldVersion},
	{"let a caller in by an error", []replacement{
		{"internal/exchange/keep.go", "l.bar(r.Error.Code)", "l.admit()"},
	}, notLetIn},
	{"let a caller in by a page", []replacement{
		{"internal/exchange/learner.go", "x.backend.NoteLanguage(header)", "x.backend.NoteLanguage(header)\n\t\tl.admit()"},
	}, notLetIn},
	{"let a caller in by a read", []replacement{
		{"internal/exchange/admit.go", "case kind == revision.Reads && x.session == \"\":", "case false:"},
		{"internal/exchange/admit.go", "case kind == revision.Reads:", "case false:"},
	}, notLetIn},
	{"let anonymous callers in because the feed was", []replacement{
		{
			"internal/exchange/lookup.go",
			"return caller != nil && caller.Admitted(x.question.kind, x.now)",
			"return caller != nil && caller.Admitted(x.question.kind, x.now) || x.context.IsAnonymous() && x.session == \"\" && x.snapshot() != nil",
		},
	}, notLetIn},
	{"bar nobody for an error", []replacement{
		{"internal/exchange/keep.go", "l.bar(r.Error.Code)", "_ = r.Error.Code"},
	}, notLetIn},
	{"let a caller in to lists by server/discover", []replacement{
		{"internal/admission/caller.go", "if answered == onlyDiscover {", "if false {"},
	}, notLetIn},
	{"forget what a caller was refused", []replacement{
		{"internal/admission/caller.go", "c.refused.Or(uint32(kinds))", "_ = kinds"},
		{"internal/admission/admission.go", "kinds | l.ended[k].kinds", "0"},
	}, `the upstream has refused this caller the kind`},
	{"bar nobody for an error with status 400", []replacement{
		{"internal/exchange/learner.go", "l.start(header, maxResult, l.learnRefusal)", "_ = l.learnRefusal"},
	}, notLetIn},
	{"let in a session that ended meanwhile", []replacement{
		{"internal/exchange/learner.go", "if x.r.Method == http.MethodDelete {", "if false {"},
	}, `session s\d+ has ended|the upstream has refused this caller`},
	{"keep lost sessions", []replacement{
		{"internal/admission/admission.go", "func (l *Ledger) LoseSessions() { l.lost.Store(l.clock.Add(1)) }", "func (l *Ledger) LoseSessions() {}"},
	}, `the upstream has lost session s\d+`},
	{"trust the upstream after an outage", []replacement{
		{"internal/feed/doubt.go", "return f.doubted.Load() != 0", "return false"},
	}, `the upstream has lost session s\d+`},
	{"ignore what clients say of themselves", []replacement{
		{"internal/variant/table.go", "{string(c.Capabilities), c.Name, c.Language}", "{c.Language}"},
	}, `the list is for clients such as \S+, not \S+`},
	{"share the snapshot with every variant", []replacement{
		{"internal/exchange/variant.go", "return x.question.variant == cache.Variant{} || x.seen(caller).Agrees(snapshot)", "return true"},
	}, `the list is for clients such as \S+, not \S+`},
	{"share what a client has asked for", []replacement{
		{"internal/exchange/keep.go", "case x.context.IsAnonymous():", "case false:"},
		{"internal/exchange/keep.go", "Partition: x.context,", "Partition: x.backend.Settings.Feed.Partition(page.Scope),"},
	}, `what #\d+ of \S+ asked for was given to \S+`},
	{"wait for a sick upstream", []replacement{
		{"internal/exchange/lookup.go", "return found{fallback: fallback, hurry: hurry}", "return found{fallback: fallback, hurry: hurry && false}"},
	}, `waited \S+, and there was a copy`},
	{"wait for a sick upstream once told", []replacement{
		{"internal/exchange/lookup.go", "(a.noticeSeen == nil || fallback.Mark.Since(a.noticeSeen.Mark) || x.backend.Settings.StaleAfterNotice)", "a.noticeSeen == nil"},
	}, `waited \S+, and there was a copy`},
	{"give an old copy to who was told", []replacement{
		{"internal/exchange/lookup.go", "case a.noticeSeen == nil:", "default:"},
	}, `version \d+ of \S+ is old, and this caller was told`},
	{"forget over a restart what was announced", []replacement{
		{"internal/snapshot/snapshot.go", "if !said.Announced {", "if true {"},
	}, `version \d+ of \S+ is old`},
	{"have all pay for one mistake", []replacement{
		{"internal/exchange/called.go", "doubt := admission.Doubt{", "b.Cache.Bump(revision.SetOf(revision.Tools))\n\tdoubt := admission.Doubt{"},
	}, `the mistake of another has cost it a hit`},
	{"give a misled caller the same list", []replacement{
		{"internal/exchange/lookup.go", "case a.doubt.Misled:\n\t\treturn true", "case a.doubt.Misled:\n\t\treturn false"},
	}, `version \d+ of \S+ (misled this caller|is from before this caller's call)`},
	{"believe in sudden emptiness", []replacement{
		{"internal/feed/fetching.go", "return !slot.empty.Believes(", "return false && slot.empty.Believes("},
	}, `the list became empty for a moment`},
	{"believe in emptiness when it is confirmed at once", []replacement{
		{"internal/emptiness/watch.go", "return begun.Sub(w.since) >= patience(announced, refresh)", "return true"},
	}, `the list became empty for a moment`},
	{"believe in a variant's sudden emptiness", []replacement{
		{"internal/variant/list.go", "case l.full != nil && !l.empty.Believes(", "case false && l.empty.Believes("},
	}, `the list became empty for a moment`},
	{"catch no silent upstream", []replacement{
		{"internal/feed/silence.go", "return s.offered && s.silence.caught", "return false"},
	}, `lacks what this caller's call has changed`},
	{"give a caller the list from before its call", []replacement{
		{"internal/exchange/called.go", "Add(noticeLag)", "Add(-1)"},
	}, `is from before this caller's call`},
	{"keep a caller's own list from before its call", []replacement{
		{"internal/exchange/lookup.go", "return !x.backend.Hanging(x.now)", "return false"},
	}, `lacks what this caller's call has changed|is from before this caller's call`},
}
