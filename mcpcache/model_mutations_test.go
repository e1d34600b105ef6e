package mcpcache

const (
	oldVersion = `version \d+ of \S+ is old: version \d+ had been announced`
	toldOld    = `version \d+ of \S+ is old, and this caller was told`
	notLetIn   = `the upstream (has (never let this caller in|refused this caller|not let session \S+ in)|let this caller in \S+ ago)`
	wasShown   = `is hidden by .* and was shown`
	reached    = `what is hidden by .* has reached the upstream`
	otherItems = `the list has items \[.*\], and not`
)

var mutations = []mutation{
	{name: "join an old fetch", edits: []replacement{
		{
			"internal/feed/demand.go",
			"current := l.feed.cache.Current(l.kind, f.mark)\n",
			"current := true\n",
		},
		{"internal/exchange/fetch.go", "!fetch.Since(x.question.mark)", "false"},
	}, found: `collapsed: version \d+ of \S+ is old: version \d+ had been announced`},
	{name: "store under the old epoch", edits: []replacement{
		{"internal/exchange/keep.go", "Lifetime: lifetime, Mark: q.mark,", "Lifetime: lifetime, Mark: l.backend.Cache.Mark(q.kind),"},
	}, found: oldVersion},
	{name: "ignore the context of lists", edits: []replacement{
		{"internal/cache/partition.go", "return p == caller || p == caller.Everybody()", "return p != caller || p == caller"},
	}, found: `the private list of \S+ was given to \S+`},
	{name: "ignore the context of callers", edits: []replacement{
		{"internal/identity/identity.go", "return cache.ContextOf([16]byte(sum[:16]), asked)", "return cache.ContextOf([16]byte{sum[0] & 0}, asked)"},
	}, found: `the private list of \S+ was given to \S+|the upstream has never let this caller in`},
	{name: "count what is for the next hop only", edits: []replacement{
		{"internal/header/connection.go", "case values == nil:", "case true:"},
	}, found: notLetIn + `|the private list of \S+ was given to \S+`},
	{name: "serve after DELETE", edits: []replacement{
		{"internal/exchange/forward.go", "t.learner.endSessions()", "_ = t.learner"},
		{"internal/exchange/learner.go", "if l.r.Method == http.MethodDelete {", "if false {"},
	}, found: `session s\d+ has ended|the upstream has refused this caller`},
	{name: "end one session of several", edits: []replacement{
		{"internal/exchange/admit.go", "for _, id := range l.sessions {", "for _, id := range l.sessions[:min(len(l.sessions), 1)] {"},
	}, found: `the upstream has refused this caller|the upstream has not let session`},
	{name: "trust a session after a 400 or a 404", edits: []replacement{
		{"internal/exchange/learner.go", "l.ended = l.loseSessions() // some servers say 400 of a session that they do not know", "l.ended = nil"},
	}, found: `the upstream has refused this caller|the upstream has not let session`},
	{name: "trust a session that is said to be unknown", edits: []replacement{
		{"internal/exchange/learner.go", "r.Error.Code == jsonrpc.UnknownSession", "false"},
	}, by: testOf{"TestSessionsEnd", "./internal/exchange"}},
	{name: "look away at other paths", edits: []replacement{
		{"internal/exchange/pass.go", "fw.backend.Upstream.ServeHTTP(o, fw.r, fw.next)", "fw.backend.Upstream.ServeHTTP(fw.below(), fw.r, fw.next)"},
	}, found: `the upstream has refused this caller|the upstream has not let session|` + oldVersion},
	{name: "let a caller in by an error", edits: []replacement{
		{"internal/exchange/keep.go", "l.revoke(r.Error.Code)", "l.admit()"},
	}, found: notLetIn},
	{name: "let a caller in by a page", edits: []replacement{
		{"internal/exchange/learner.go", "l.backend.NoteLanguage(h)", "l.backend.NoteLanguage(h)\n\t\tl.admit()"},
	}, found: notLetIn},
	{name: "let a caller in by a read", edits: []replacement{
		{"internal/exchange/admit.go", "case kind == revision.Reads && l.session == \"\":", "case false:"},
		{"internal/exchange/admit.go", "case kind == revision.Reads:", "case false:"},
	}, found: notLetIn},
	{name: "let anonymous callers in because the feed was", edits: []replacement{
		{
			"internal/exchange/lookup.go",
			"return caller != nil && caller.Admitted(x.question.kind, x.now)",
			"return caller != nil && caller.Admitted(x.question.kind, x.now) || x.context.IsAnonymous() && x.session == \"\" && x.snapshot() != nil",
		},
	}, found: notLetIn},
	{name: "bar nobody for an error", edits: []replacement{
		{"internal/exchange/keep.go", "l.revoke(r.Error.Code)", "_ = r.Error.Code"},
	}, found: notLetIn},
	{name: "let a caller in to lists by server/discover", edits: []replacement{
		{"internal/admission/caller.go", "if answered == onlyDiscover {", "if false {"},
	}, found: notLetIn},
	{name: "forget what a caller was refused", edits: []replacement{
		{"internal/admission/caller.go", "c.refused.Or(uint32(kinds))", "_ = kinds"},
		{"internal/admission/admission.go", "kinds | l.ended[k].kinds", "0"},
	}, found: `the upstream has refused this caller the kind`},
	{name: "keep the admission of who was refused a kind", edits: []replacement{
		{"internal/exchange/admit.go", "if c.Refused().Has(k) && l.offered(k) {", "if c.Refused().Has(k) && l == nil {"},
	}, by: testOf{"TestWhichAdmissionIsKept", "./internal/exchange"}},
	{name: "bar nobody for an error with status 400", edits: []replacement{
		{"internal/exchange/learner.go", "learn = l.learnRefusal", "learn = func(message.Response) {}"},
	}, found: notLetIn},
	{name: "let in a session that ended meanwhile", edits: []replacement{
		{"internal/exchange/learner.go", "if l.r.Method == http.MethodDelete {", "if false {"},
	}, found: `session s\d+ has ended|the upstream has refused this caller`},
	{name: "keep lost sessions", edits: []replacement{
		{"internal/admission/admission.go", "func (l *Ledger) LoseSessions() { l.lost.Store(l.clock.Add(1)) }", "func (l *Ledger) LoseSessions() {}"},
	}, found: `the upstream has lost session s\d+`},
	{name: "trust the upstream after an outage", edits: []replacement{
		{"internal/feed/suspect.go", "return f.suspected.Load() != 0", "return false"},
	}, found: `the upstream has lost session s\d+`},
	{name: "ignore what clients say of themselves", edits: []replacement{
		{"internal/variant/table.go", "{string(c.Capabilities), c.Name, c.Language, string(c.Asked[:])}", "{c.Language, string(c.Asked[:])}"},
	}, found: `the list is for clients such as \S+, not \S+`},
	{name: "ignore the names of clients", edits: []replacement{
		{"internal/variant/table.go", "{string(c.Capabilities), c.Name, c.Language, string(c.Asked[:])}", "{string(c.Capabilities), c.Language, string(c.Asked[:])}"},
	}, by: testOf{"TestSessionsByVariant", "./internal/exchange"}},
	{name: "share the snapshot with every variant", edits: []replacement{
		{"internal/exchange/variant.go", "return x.question.variant == cache.Variant{} || x.seen(caller).Agrees(snapshot)", "return true"},
	}, found: `the list is for clients such as \S+, not \S+`},
	{name: "share what a client has asked for", edits: []replacement{
		{"internal/exchange/keep.go", "case l.leftToFeed():", "case false:"},
		{"internal/exchange/keep.go", "Partition: l.context,", "Partition: l.backend.Settings.Feed.Partition(page.Scope),"},
	}, found: `what #\d+ of \S+ asked for was given to \S+|the private list of`},
	{name: "wait for a sick upstream", edits: []replacement{
		{"internal/exchange/lookup.go", "x.fetch(ctx, best, f.fallback != nil, a)", "x.fetch(ctx, best, false, a)"},
		{"internal/exchange/lookup.go", "case late && f.fallback != nil:", "case late && x == nil:"},
		{"internal/exchange/revalidation.go", "time.NewTimer(freshness.StalePatience - time.Since(fw.arrived))", "time.NewTimer(time.Hour)"},
	}, found: `waited \S+, and there was a copy|became 502`},
	{name: "wait for a sick upstream once told", edits: []replacement{
		{"internal/freshness/freshness.go", "told.Notice != nil && told.Lacks:", "told.Notice != nil:"},
	}, found: `waited \S+, and there was a( fresh)? copy`},
	{name: "give an old copy to who was told", edits: []replacement{
		{"internal/freshness/freshness.go", "|| t.Notice != nil && !e.Mark.Since(*t.Notice)", "|| e == nil"},
	}, found: `version \d+ of \S+ is old, and this caller was told`},
	{name: "forget over a restart what was announced", edits: []replacement{
		{"internal/snapshot/snapshot.go", "if !said.Announced {", "if true {"},
	}, found: `version \d+ of \S+ is old`},
	{name: "have all pay for one mistake", edits: []replacement{
		{"internal/exchange/called.go", "change := &admission.PendingChange{", "b.Cache.Bump(revision.SetOf(revision.Tools))\n\tchange := &admission.PendingChange{"},
	}, found: `the mistake of another has cost it a hit`},
	{name: "give a misled caller the same list", edits: []replacement{
		{"internal/exchange/lookup.go", "case a.pending.Misled:\n\t\treturn true", "case a.pending.Misled:\n\t\treturn false"},
	}, found: `version \d+ of \S+ (misled this caller|is from before this caller's call)`},
	{name: "believe in sudden emptiness", edits: []replacement{
		{"internal/feed/fetching.go", "return !l.empty.Believes(", "return false && l.empty.Believes("},
	}, found: `the list became empty for a moment`},
	{name: "believe in emptiness when it is confirmed at once", edits: []replacement{
		{"internal/emptylist/watch.go", "return begun.Sub(w.since) >= patience(announced, refresh)", "return true"},
	}, found: `the list became empty for a moment`},
	{name: "believe in a variant's sudden emptiness", edits: []replacement{
		{"internal/variant/list.go", "case l.full != nil && !l.empty.Believes(", "case false && l.empty.Believes("},
	}, found: `the list became empty for a moment`},
	{name: "catch no silent upstream", edits: []replacement{
		{"internal/exchange/called.go", "silent = silent || caught ||", "silent = silent && caught &&"},
	}, found: `lacks what this caller's call has changed`},
	{name: "give a caller the list from before its call", edits: []replacement{
		{"internal/exchange/called.go", "Add(noticeLag)", "Add(-1)"},
	}, found: `is from before this caller's call`},
	{name: "keep a caller's own list from before its call", edits: []replacement{
		{"internal/exchange/lookup.go", "return !x.backend.Hanging(x.now)", "return false"},
	}, found: `lacks what this caller's call has changed|is from before this caller's call`},
	{name: "show what is hidden in a copy", edits: []replacement{
		{"internal/exchange/answer.go", "shown := x.catalog.VisibleTo(x.r.Context(), f.entry, x.view, x.now)", "shown := f.entry"},
	}, found: wasShown},
	{name: "show what is hidden in a compressed copy", edits: []replacement{
		{"internal/exchange/answer.go", "answer.Write(x.w)", "if x.backend.Cache.Encoded(f.entry, 0, x.now) != nil {\n\t\tanswer.Entry = f.entry\n\t}\n\tanswer.Write(x.w)"},
	}, found: wasShown},
	{name: "show what is hidden in an answer of the upstream", edits: []replacement{
		{"internal/exchange/forward.go", "below: fw.below(), header", "below: fw.w, header"},
	}, found: wasShown},
	{name: "show what is hidden at other paths", edits: []replacement{
		{"internal/exchange/pass.go", "below: fw.below(), learner", "below: fw.w, learner"},
	}, found: `at /mcp/ .*` + wasShown},
	{name: "show what is hidden in a stream that is resumed", edits: []replacement{
		{"internal/exchange/filter.go", "stream, lists := fw.r.Method == http.MethodGet && view.RestrictsAny(),", "stream, lists := false,"},
	}, found: `GET .*` + wasShown},
	{name: "tell of changes of what is hidden", edits: []replacement{
		{"internal/exchange/filter.go", "policy.Item{Name: uri}).Allowed },", "policy.Item{Name: uri}).Allowed || true },"},
	}, found: `there are \d+ events, and not \d+`},
	{name: "show the view of another", edits: []replacement{
		{"internal/cache/view.go", "key := v.Key()\n\treturn viewHash(key[:])", "return viewHash{1}"},
	}, found: wasShown + `|` + otherItems},
	{name: "show what is ready of another list", edits: []replacement{
		{"internal/cache/view.go", "s.of == of && s.hash == view", "s.hash == view"},
	}, found: wasShown + `|` + otherItems + `|the private list of \S+ was given to \S+|the list is for clients such as|its ttlMs of \d+ is \S+ too long|` + oldVersion},
	{name: "show what was made of an older list", edits: []replacement{
		{"internal/cache/view.go", "kept != nil && kept.of == e.Body.Digest", "kept != nil"},
	}, by: testOf{"TestShownIsOfTheSameBytes", "./internal/cache"}},
	{name: "take the cursor of another view", edits: []replacement{
		{"internal/exchange/paging.go", "owner = append(owner, key[:]...)", "owner = append(owner, key[:0]...)"},
	}, by: testOf{"TestCursorsAreBound", "./internal/exchange"}},
	{name: "go on in another list by number", edits: []replacement{
		{"internal/catalog/page.go", "if at.List == [16]byte(e.Body.Digest[:16]) {", "if true {"},
	}, by: testOf{"TestPagesOfAListThatChanges", "./internal/exchange"}},
	{name: "keep a list without what is hidden", edits: []replacement{
		{"internal/exchange/keep.go", "Body:      body, Fetched", "Body: l.catalog.Shown(l.r.Context(), &cache.Entry{Kind: q.kind, Revision: q.revision, Body: body}, l.view, l.now).Body, Fetched"},
	}, found: otherItems},
	{name: "forward calls of what is hidden", edits: []replacement{
		{"internal/exchange/guard.go", "policy.Item{Name: n.Name}).Allowed, nil", "policy.Item{Name: n.Name}).Allowed || n.Kind.String() == \"tools\", nil"},
	}, found: `(tools/call|a batch) .*` + reached},
	{name: "forward completion of what is hidden", edits: []replacement{
		{"internal/exchange/guard.go", "policy.Item{Name: n.Name}).Allowed, nil", "policy.Item{Name: n.Name}).Allowed || n.Kind.String() == \"resource_templates\", nil"},
	}, found: `(completion/complete|a batch) .*` + reached},
	{name: "forward subscriptions to what is hidden", edits: []replacement{
		{"internal/message/naming.go", "for _, uri := range uris {", "for _, uri := range uris[:0] {"},
	}, found: `subscriptions/listen .*` + reached},
	{name: "read what is hidden", edits: []replacement{
		{"internal/exchange/endpoint.go", "reason != understood || x.question.kind == revision.Reads {", "reason != understood || false && x.question.kind == revision.Reads {"},
	}, found: `resources/read .*(` + reached + `|a copy was given of what is hidden)`},
	{name: "look at the first message of a batch alone", edits: []replacement{
		{"internal/exchange/guard.go", "for _, n := range found {\n\t\tg.wantsList", "for _, n := range found[:min(len(found), 1)] {\n\t\tg.wantsList"},
	}, found: `a batch .*(` + reached + `|` + wasShown + `)`},
	{name: "go by the header", edits: []replacement{
		{"internal/exchange/guard.go", "if inbound.Contradicts(g.r.Header, found) {", "if false {"},
		{"internal/exchange/guard.go", "for _, item := range n.Items {", "for _, item := range n.Items {\n\t\t\tif name := g.r.Header.Get(\"Mcp-Name\"); name != \"\" {\n\t\t\t\titem.Name = name\n\t\t\t}"},
	}, found: reached + `|` + wasShown},
	{name: "look at the beginning of a long call alone", edits: []replacement{
		{"internal/exchange/guard.go", "g.in.ReadRest(g.w, g.r, g.endpoint.Settings.MaxCall)", "g.in.ReadRest(g.w, g.r, min(g.endpoint.Settings.MaxCall, g.endpoint.Settings.MaxRequest))"},
		{"internal/exchange/guard.go", "case d == inbound.TooLarge:", "case d == inbound.TooLarge && g.in.Body.Whole:"},
		{"internal/exchange/guard.go", "	if !inbound.PlainJSON(g.r.Header) {\n\t\treturn", "	if !g.in.Body.Whole {\n\t\treturn nil, nil\n\t}\n\tif !inbound.PlainJSON(g.r.Header) {\n\t\treturn"},
	}, found: reached},
	{name: "take a tool that says nothing for harmless", edits: []replacement{
		{"internal/message/annotations.go", `said[hintDestructive] != "false"`, `said[hintDestructive] == "true"`},
	}, found: wasShown + `|` + reached + `|may be asked for with|` + otherItems + `| became 200`},
	{name: "say that something is hidden", edits: []replacement{
		{"internal/jsonrpc/problem.go", `Invalid(InvalidParams, "Unknown prompt: "+name)`, `Invalid(InvalidParams, "Hidden prompt: "+name)`},
	}, found: `it was refused with`},
	{name: "refuse whom the upstream has not let in", edits: []replacement{
		{"internal/exchange/ask.go", "if letIn || header.IsSigned(g.r.Header) {", "if letIn || !header.IsSigned(g.r.Header) {"},
	}, found: `it was refused, and ` + notLetIn},
	{name: "refuse a session that may be lost", edits: []replacement{
		{"internal/exchange/ask.go", "case g.turnedAway, g.mayBeLost():", "case g.turnedAway:"},
	}, found: `it was refused, and the upstream has lost session`},
	{name: "refuse whom the upstream has just turned away", edits: []replacement{
		{"internal/exchange/ask.go", "case g.turnedAway, g.mayBeLost():", "case g.mayBeLost():"},
	}, found: `it was refused in front of the upstream's 40[13]`},
}
