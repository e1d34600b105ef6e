package mcpcache

// fleetMutations are bugs in what several instances have in common.
var fleetMutations = []mutation{
	{name: "tell clients before other instances", edits: []replacement{
		{"internal/fleet/send.go", "wait(ctx, time.Now().Add(life), m.confirmation(is.number))", "_ = is.number"},
	}, found: oldVersion + `|and this caller was told`},
	{name: "confirm before lists are outdated", edits: []replacement{
		{"internal/fleet/heartbeat.go", "a.cache.Receive(said.Change)", "time.AfterFunc(10*time.Millisecond, func() { a.cache.Receive(said.Change) })"},
	}, found: oldVersion + `|and this caller was told`},
	{name: "look away from what was lost", edits: []replacement{
		{"internal/fleet/heartbeat.go", "	if h.Number > a.lastReceived+1 {\n\t\ta.membership.missed(true)", "	if h.Number > a.lastReceived+1 {\n\t\t_ = h"},
	}, by: testOf{"TestLostAnnouncement", "./internal/fleet"}},
	{name: "keep lists when a membership ends", edits: []replacement{
		{"internal/fleet/membership.go", "m.ended = true\n\tm.cache.Receive(cache.Change{Kinds: everything, Missed: true})", "m.ended = true"},
	}, by: testOf{"TestHangingStore", "./internal/fleet"}},
	{name: "join and trust what there is", edits: []replacement{
		{"internal/fleet/heartbeat.go", "		a.membership.missed(goesOn && !a.forgotten)", "		_ = goesOn"},
	}, found: oldVersion},
	{name: "forget what could not be announced", edits: []replacement{
		{"internal/fleet/send.go", "m.unsent.add(now.news)", "_ = now"},
	}, found: oldVersion},
	{name: "give clients of other instances what was before", edits: []replacement{
		{"internal/freshness/freshness.go", "(c.MayBeKnown(e) || told.knows(c, e))", "told.knows(c, e)"},
	}, found: `version \d+ of \S+ is old, and this caller was told`},
	{name: "announce a change once", edits: []replacement{
		{"internal/fleet/send.go", "if err == nil || ctx.Err() != nil || again.After(last)", "if err == nil || err != nil || again.After(last)"},
	}, found: oldVersion + `|and this caller was told`},
	{name: "outdate lists again when clients are told", edits: []replacement{
		{"internal/cache/change.go", "if !change.Again {", "if change.Again || !change.Again {"},
	}, by: testOf{"TestToldLater", "./internal/fleet"}},
	{name: "outdate a list that is newer than another's", edits: []replacement{
		{"internal/cache/change.go", "case isCurrent && l.Outdated:", "case isCurrent && l.Outdated && e == nil:"},
	}, by: testOf{"TestListElsewhere", "./internal/fleet"}},
	{name: "take what another has found for announced", edits: []replacement{
		{"internal/toolkit/announce.go", "case part.Mark.Announced() != last.Mark.Announced():", "case !part.Mark.SameEpoch(last.Mark):"},
	}, by: testOf{"TestListsMadeUpAnewAreNotChased", "."}},
	{name: "take what another has fetched for new", edits: []replacement{
		{"internal/snapshot/snapshot.go", "fetched := said.Fetched.Add(-terms.Ahead)", "fetched := now"},
	}, found: `it expired \S+ ago|its ttlMs of \d+ is \S+ too long|it was stale for`},
	{name: "take what another has fetched for what is doubted", edits: []replacement{
		{"internal/feed/leases.go", "|| own.Mark != f.cache.Mark(l.kind) {", "{"},
	}, by: testOf{"TestNoTurnForWhatIsDoubted", "./internal/feed"}},
}
