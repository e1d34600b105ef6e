package mcpcache

// toolkitMutations are known bugs in front of several servers. The model finds those of what is promised
// of lists. Of rules, routes, credentials and sessions it knows nothing: those are found by the test that is
// named.
var toolkitMutations = []mutation{
	{name: "list what rules of a server hide", edits: []replacement{
		{"internal/catalog/views.go", "if !v.Servers[server].Shows(k, item) {", "if false {"},
	}, by: ofToolkit("TestToolkitRules")},
	{name: "list what rules above the servers hide", edits: []replacement{
		{"internal/catalog/views.go", "return v.All.Decide(k, named).Allowed\n", "return seen.Hints == named.Hints\n"},
	}, by: ofToolkit("TestToolkitRules")},
	{name: "route what rules hide", edits: []replacement{
		{"internal/toolkit/route.go", "target, f := q.resolve(k, target, name)\n\tif f != nil {", "target, f := q.resolve(k, target, name)\n\tif f != nil && q == nil {"},
	}, by: ofToolkit("TestToolkitRules")},
	{name: "share lists that rules make different", edits: []replacement{
		{"internal/toolkit/credentials.go", "return catalog.CallerOf(v.views.AppendKey(key))", "return catalog.CallerOf(key)"},
	}, by: ofToolkit("TestToolkitRules")},
	{name: "let what others may not read be shared", edits: []replacement{
		{"internal/toolkit/messagefilter.go", "kept, err := left(one)", "_, kept, err := left, one, error(nil)"},
	}, by: ofToolkit("TestToolkitRules")},
	{name: "let a hidden name be called by its long form", edits: []replacement{
		{"internal/toolkit/rules.go", "q.endpoint.catalog.SeenAs(k, t)", "policy.Item{Name: name}"},
	}, by: ofToolkit("TestToolkitRulesHideWhatIsMissing")},
	{name: "call under hints what is not listed", edits: []replacement{
		{"internal/toolkit/rules.go", "if !ok {\n\t\treturn t, q.missed(k, name)", "if !ok {\n\t\treturn t, nil"},
	}, by: ofToolkit("TestToolkitRulesByHints")},
	{name: "hold rules against shortened names alone", edits: []replacement{
		{"internal/policy/pattern.go", `i.Full != "" && glob(p.text, i.Full)`, `i.Full != "" && false`},
	}, by: ofToolkit("TestToolkitRulesOfShortenedNames")},
	{name: "let callers name what is in no list", edits: []replacement{
		{"internal/policy/policy.go", "v.Restricts(k) && !v.unlisted &&", "v == nil &&"},
	}, by: ofToolkit("TestNamesInNoList")},
	{name: "give everybody's list to who asks for another", edits: []replacement{
		{"internal/cache/partition.go", "return EverybodyWho(p.asked)", "return EverybodyWho(Asked{})"},
	}, by: testOf{"TestPublicIsAboutWhoAsks", "../integration/lists"}},
	{name: "keep what a session of another query lists", edits: []replacement{
		{"internal/exchange/lookup.go", "opened != x.context.Asked() {", "opened == (cache.Asked{1}) {"},
		{"internal/exchange/lookup.go", "return !known || session.HasActed(x.question.kind)", "return false"},
	}, by: testOf{"TestSessionsOfOtherQueries", "../integration/lists"}},
	{name: "keep for others what a session has changed", edits: []replacement{
		{"internal/exchange/lookup.go", "return !known || session.HasActed(x.question.kind)", "return !known"},
	}, by: testOf{"TestSessionsOwnListsOfAQuery", "../integration/lists"}},
	{name: "have the feed repeat what may be a credential", edits: []replacement{
		{"internal/identity/asked.go", "if mayHoldCredential(r.URL.RawQuery) {", "if r.URL == nil {"},
	}, by: testOf{"TestFeedRepeatsNoSecrets", "../integration/lists"}},
	{name: "keep the lists of a caller whom a server refuses", edits: []replacement{
		{"internal/toolkit/answer.go", "\ta.attempt.revoke(s)\n", ""},
	}, by: ofToolkit("TestRefusalEndsLists")},
	{name: "let an acceptance outlive the caller's token", edits: []replacement{
		{"internal/identity/expiry.go", "!lasting.IsZero() && lasting.Before(until)", "lasting.After(until)"},
	}, by: ofToolkit("TestTokenEnds")},
	{name: "go by a list that was everybody's once", edits: []replacement{
		{"internal/toolkit/part.go", "own == nil || !own.Fetched.After(pinned.Fetched)", "own == nil || v != nil"},
	}, by: ofToolkit("TestToolkitRulesGoByTheCallersList")},
	{name: "let hidden items keep their names", edits: []replacement{
		{"internal/catalog/joined.go", "if !c.views.allows(c.kind, server, item, seen) {", "if !c.views.allows(c.kind, server, item, seen) {\n\t\tl.targets[shown] = Target{server, name}"},
	}, by: ofToolkit("TestToolkitRulesFreeNames")},
	{name: "go by a header that a client has removed", edits: []replacement{
		{"internal/toolkit/request.go", "views := e.viewsFor(r)\n\theader.RemoveConnectionFields(r.Header)", "header.RemoveConnectionFields(r.Header)\n\tviews := e.viewsFor(r)"},
	}, by: ofToolkit("TestToolkitRulesOfCallers")},
	{name: "send a server all of a caller's header", edits: []replacement{
		{"internal/toolkit/credentials.go", "if Passes(name) {", "if true {"},
	}, by: ofToolkit("TestToolkitCanaries")},
	{name: "show a client the guard's credential", edits: []replacement{
		{"internal/toolkit/answer.go", "a.write(a.hiding.Next(p, false))", "a.write(p)"},
	}, by: ofToolkit("TestToolkitActsAsItsGuard")},
	{name: "let everybody past the door", edits: []replacement{
		{"internal/toolkit/door.go", "known, failure := q.authenticate(q.r.Context())", "known, failure := true, q.r.Context().Err()"},
	}, by: ofToolkit("TestToolkitDoor")},
	{name: "share the lists of single callers", edits: []replacement{
		{"internal/toolkit/credentials.go", "Context: s.Identity.OfFields(fields, guarded)", "Context: s.Identity.OfFields(nil, guarded)"},
	}, found: `the private list of \S+ was given to \S+`, several: true},
	{name: "give callers what a guard's token fetched", edits: []replacement{
		{"internal/toolkit/credentials.go", "Context: s.Identity.OfFields(fields, guarded)", "Context: s.Identity.OfFields(fields, false)"},
	}, by: ofToolkit("TestNobodyElseIsShownWhatAGuardFetched")},
	{name: "go on with a session of a guard's account", edits: []replacement{
		{"internal/toolkit/insession.go", "sessionKey{s.Backend, caller.Guarded}", "sessionKey{s.Backend, false}"},
	}, by: ofToolkit("TestReloadShowsNobodyElseWhatAGuardFetched")},
	{name: "join what was asked for before a change", edits: []replacement{
		{"internal/callerlists/lists.go", "joined != nil && l.cache.Current(r.Kind, joined.marks[r.Kind])", "joined != nil"},
	}, by: ofToolkit("TestToolkitAsksAnewAfterAChange")},
	{name: "send a server the name with its prefix", edits: []replacement{
		{"internal/toolkit/route.go", "if target.Name != name {", "if false {"},
	}, by: ofToolkit("TestToolkitRoutes")},
	{name: "list both of two items of one name", edits: []replacement{
		{"internal/catalog/joined.go", "taken && other != (Target{server, name})", "taken && l == nil"},
	}, by: ofToolkit("TestToolkitConflicts")},
	{name: "empty the list of a server that fails", edits: []replacement{
		{"internal/toolkit/list.go", "case p.verdict == freshness.Withheld:", "case p.verdict != freshness.Fresh:"},
	}, found: `and there was a copy`, several: true},
	{name: "give any caller of several servers the old list", edits: []replacement{
		{"internal/toolkit/list.go", "case p.verdict == freshness.Withheld:", "case server == nil:"},
	}, found: toldOld + `|` + oldVersion + `|it was stale for|it expired \S+ ago`, several: true},
	{name: "take no caller of several servers for told", edits: []replacement{
		{"internal/toolkit/announce.go", "s.Cache.NoteNotified(k, s.Cache.Mark(k))", "_ = s"},
	}, found: toldOld, several: true},
	{name: "take no caller of several servers for one of a single server", edits: []replacement{
		{"internal/freshness/freshness.go", "return t.Anyone && c.IsKnownHere(e) ||", "return"},
	}, found: toldOld, several: true},
	{name: "give callers of several servers what was before a restart", edits: []replacement{
		{"internal/cache/change.go", "return e.Mark.BeforeStart() || c.together.notified", "return c.together.notified"},
	}, found: toldOld, several: true},
	{name: "ignore after_notice", edits: []replacement{
		{"internal/freshness/freshness.go", "case p.AfterNotice, e.Kind", "case p.AfterNotice && now.IsZero(), e.Kind"},
	}, found: `and there was a copy`, several: true},
	{name: "tell nobody that a part is there again", edits: []replacement{
		{"internal/toolkit/list.go", "s.withheld[v.at.Era()][k].Store(true)", "_ = s"},
	}, found: `nobody has told|` + toldOld + `|nothing is there, and there was a copy`, several: true},
	{name: "tell nobody of a part that comes in this moment", edits: []replacement{
		{"internal/toolkit/list.go", "e.Fetched.After(part.Fetched)", "e == part"},
	}, by: testOf{"TestPartThatComesInThisMoment", "./internal/toolkit"}},
	{name: "give callers of several servers what clients of other instances know to be old", edits: []replacement{
		{"internal/freshness/freshness.go", "(c.MayBeKnown(e) || told.knows(c, e))", "told.knows(c, e)"},
	}, found: toldOld, several: true},
	{name: "promise a part as long as before others were waited for", edits: []replacement{
		{"internal/toolkit/list.go", "left = p.entry.Left(v.now)", "left = p.entry.Left(v.arrived)"},
	}, found: `its ttlMs of \d+ is \S+ too long`, several: true},
	{name: "tell no other instance of a list that clients are told of", edits: []replacement{
		{"internal/toolkit/announce.go", "s.Cache.PublishChange(cache.Change{Lists:", "_ = (cache.Change{Lists:"},
	}, found: toldOld + `|` + oldVersion, several: true},
	{name: "keep a list that is another one elsewhere", edits: []replacement{
		{"internal/cache/change.go", "c.outdate(Change{Kinds: revision.SetOf(l.Kind), Told: true, Missed: true})", "_ = e"},
	}, found: toldOld + `|` + oldVersion, several: true},
	{name: "give as an answer what another instance's list has become", edits: []replacement{
		{"internal/toolkit/list.go", "return e.Left(v.now) > 0 || e.Fetched.After(v.arrived)", "return true"},
	}, by: testOf{"TestAnswersOfOtherInstances", "./internal/toolkit"}},
	{name: "take a page for the list", edits: []replacement{
		{"internal/toolkit/part.go", "if own != nil && own.Body.NextCursor != nil {", "if false {"},
	}, by: testOf{"TestPageIsNoList", "./internal/toolkit"}},
	{name: "drop the lists of a server that answers in no era", edits: []replacement{
		{"internal/toolkit/server.go", "case f.IsUnsupported():", "case s == nil:"},
	}, by: ofToolkit("TestBridgeKeepsLastLists")},
	{name: "leave the lists of a server that answers in no era in theirs", edits: []replacement{
		{"internal/toolkit/server.go", "case s.kept(own) == revision.Unknown && s.kept(other) != revision.Unknown:", "case s == nil && s.kept(own) == revision.Unknown:"},
	}, by: ofToolkit("TestBridgeKeepsLastLists")},
	{name: "ask for callers in an era that eras leaves out", edits: []replacement{
		{"internal/toolkit/server.go", "case s.maySpeak(other), s.Feeds.Of(own) == nil && s.Feeds.Of(other) != nil:", "case s.maySpeak(other):"},
	}, found: `the list is of revision`, several: true},
	{name: "take a session of another user", edits: []replacement{
		{"internal/toolkit/legacy.go", `return q.endpoint.Settings.Name + "\n" + q.user()`, "return v.endpoint.Settings.Name"},
	}, by: ofToolkit("TestToolkitSessionOfUser")},
	{name: "go on in a session that was ended", edits: []replacement{
		{"internal/toolkit/legacy.go", "if err != nil || e.Settings.Sessions.Ended(client.ID) {", "if err != nil {"},
	}, by: ofToolkit("TestToolkitSessions")},
	{name: "stay in a session that is lost", edits: []replacement{
		{"internal/session/renew.go", "e.servers[u.Server] = by\n", "_ = by\n"},
	}, by: ofToolkit("TestToolkitSessionLost")},
	{name: "take a server without pings for one that has lost the session", edits: []replacement{
		{"internal/session/renew.go", "answered, _ = ping(ctx, server, other); answered", "answered = true; answered"},
	}, by: ofToolkit("TestToolkitCallsOnce")},
	{name: "tell a client of a change before it is there", edits: []replacement{
		{"internal/toolkit/messagefilter.go", "case revision.IsListChanged(method), ", "case "},
	}, found: `the notice of a server was passed on`, several: true},
	{name: "leave the result of a legacy server as it is", edits: []replacement{
		{"internal/bridge/answer.go", "{{\"resultType\", `\"complete\"`}}", "{}"},
	}, by: ofToolkit("TestBridgeAnswers")},
}

// ofToolkit is one of the tests with several servers.
func ofToolkit(name string) testOf { return testOf{name, "../integration/several"} }
