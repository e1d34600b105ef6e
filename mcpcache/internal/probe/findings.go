package probe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	// shortTTL is where a ttlMs of a server's begins to be worth it.
	shortTTL = 10 * time.Second
	// heavy is how many tokens of tools are worth a thought.
	heavy = 10_000
)

// findings returns what follows from what was found, the good first.
func findings(r *Report) []Finding {
	if !r.Usable {
		return slices.Concat(judgeFailedEras(r), judgeFailures(r), judgeOddities(r))
	}
	var all []Finding
	for _, judge := range []func(*Report) []Finding{
		judgeFailedEras, judgeClosed, judgeAccess, judgeFailures, judgeUnoffered, judgeOfferedToOthers, judgeTTL, judgeChanges, judgeSeat, judgeAcknowledgement, judgeStability, judgeCapabilities, judgeEras, judgeRedirect, judgeScope, judgeSize, judgeNames, judgeOddities,
	} {
		all = append(all, judge(r)...)
	}
	rank := map[Grade]int{Good: 0, Costs: 1, Note: 2}
	slices.SortStableFunc(all, func(a, b Finding) int { return rank[a.Grade] - rank[b.Grade] })
	return all
}

// lists names the lists that are chosen: their kinds, and their era where the
// other era's are not chosen too.
func (r *Report) lists(chosen func(*Era, *List) bool) (names string, n int) {
	byKind := map[string][]string{}
	asked := map[string]int{}
	var kinds []string
	r.each(func(e *Era, l *List) {
		if asked[l.Kind]++; asked[l.Kind] == 1 {
			kinds = append(kinds, l.Kind)
		}
		if chosen(e, l) {
			byKind[l.Kind] = append(byKind[l.Kind], e.Era)
			n++
		}
	})
	all, perEra := true, map[string]int{}
	for _, kind := range kinds {
		all = all && len(byKind[kind]) == asked[kind]
		for _, era := range byKind[kind] {
			perEra[era]++
		}
	}
	if all {
		return "all lists", n
	}
	if len(perEra) == 1 && len(r.Eras) > 1 {
		for _, e := range r.Eras {
			if perEra[e.Era] > 0 && perEra[e.Era] == len(e.Lists) {
				return "all lists (" + e.Era + ")", n
			}
		}
	}
	var parts []string
	for _, kind := range kinds {
		switch {
		case len(byKind[kind]) == 0:
		case len(byKind[kind]) == asked[kind]:
			parts = append(parts, kind)
		default:
			parts = append(parts, kind+" ("+strings.Join(byKind[kind], ", ")+")")
		}
	}
	return strings.Join(parts, ", "), n
}

// differences says what a comparison found, list by list.
func (r *Report) differences(of func(*List) *Comparison) string {
	var parts []string
	seen := map[string]bool{}
	r.each(func(_ *Era, l *List) {
		if c := of(l); c != nil && c.Difference != "" {
			if part := l.Kind + ": " + c.Difference; !seen[part] {
				seen[part] = true
				parts = append(parts, part)
			}
		}
	})
	return strings.Join(parts, ". ")
}

// compared reports whether any list was compared, and whether all were the same.
func (r *Report) compared(of func(*List) *Comparison) (asked, same bool) {
	same = true
	r.each(func(_ *Era, l *List) {
		if c := of(l); c != nil && c.Failure == "" {
			asked, same = true, same && c.Same
		}
	})
	return asked, same
}

// failures says which lists could not be compared, and why.
func (r *Report) failures(who string, of func(*List) *Comparison) []Finding {
	var all []Finding
	r.each(func(e *Era, l *List) {
		if c := of(l); c != nil && c.Failure != "" {
			all = append(all, Finding{Costs, fmt.Sprintf("%s gets no %s (%s): %s.", who, l.Kind, e.Era, c.Failure), ""})
		}
	})
	return all
}

func judgeAccess(r *Report) []Finding {
	a := r.Access
	switch {
	case !a.Credentials:
		return []Finding{{Good, "It asks for no credentials" + r.openEra() + ".", ""}}
	case a.Needed:
		return []Finding{{Note, "It asks for credentials. A caller is let in once the server has accepted it, so the first list of each goes to the server. " +
			"The cache asks with a token of its own, which a guard gives it: without one it hears of no change.", guardOf(a)}}
	}
	_, same := r.compared(func(l *List) *Comparison { return l.Anonymous })
	if same {
		return []Finding{{Note, "It gives its lists without credentials too, and the same ones.", ""}}
	}
	return []Finding{{Note, "It gives lists without credentials too, but others. " + r.differences(func(l *List) *Comparison { return l.Anonymous }) + ".", ""}}
}

func judgeFailures(r *Report) []Finding {
	all := make([]Finding, 0, len(r.Eras))
	for _, kind := range revision.Kinds() {
		all = append(all, r.perEra(func(e *Era) string {
			for _, l := range e.Lists {
				if l.kind == kind && l.Failure != "" {
					return fmt.Sprintf("%s{era} cannot be kept: %s. Requests for that go to the server.", l.Kind, l.Failure)
				}
			}
			return ""
		}, Costs)...)
	}
	return all
}

// perEra returns what say says of each era, once where it says the same of all.
// {era} in it stands for the era's name, in brackets, where that matters.
func (r *Report) perEra(say func(*Era) string, grade Grade) []Finding {
	said := make([]string, len(r.Eras))
	for i, e := range r.Eras {
		said[i] = say(e)
	}
	same := true
	for _, text := range said {
		same = same && text == said[0]
	}
	all := make([]Finding, 0, len(said))
	for i, text := range said {
		era := " (" + r.Eras[i].Era + ")"
		if same {
			era = ""
		}
		if text != "" && (i == 0 || !same) {
			all = append(all, Finding{grade, strings.ReplaceAll(text, "{era}", era), ""})
		}
	}
	return all
}

func judgeTTL(r *Report) []Finding {
	var all []Finding
	if names, n := r.lists(isZero); n > 0 {
		text := "ttlMs is 0 for " + names + ": a list is stale at once, and every request for it goes to the server. " +
			"SDKs send 0 when the author of the server has set nothing."
		if r.allAnnounced() {
			text += " Changes are announced, and the cache has them at once. But clients that keep lists themselves (TypeScript client 2.x, " +
				"Python 2.x) do so for the ttlMs that they are given: min_ttl is also the longest time such a client may miss a change."
		} else {
			text += " Not every change is announced, so one may be seen as late as min_ttl allows."
		}
		all = append(all, Finding{Costs, text, r.minTTLOption()})
	}
	short := func(_ *Era, l *List) bool { return l.TTL != nil && *l.TTL > 0 && *l.TTL < shortTTL.Milliseconds() }
	if names, n := r.lists(short); n > 0 {
		all = append(all, Finding{Costs, "ttlMs is below ten seconds for " + names + ": they are fetched again that often while anybody asks. " +
			"If the author of the server did not mean that, min_ttl keeps them longer.", "# min_ttl 1m"})
	}
	long := func(_ *Era, l *List) bool { return l.TTL != nil && *l.TTL >= shortTTL.Milliseconds() }
	if names, n := r.lists(long); n > 0 {
		all = append(all, Finding{Good, "ttlMs lets the cache keep " + names + " for " + r.lifetimes(long) + ".", ""})
	}
	without := func(_ *Era, l *List) bool { return l.TTL == nil }
	if names, n := r.lists(without); n > 0 {
		all = append(all, Finding{Good, "No ttlMs for " + names + ": kept for the default, 5 minutes (ttl).", ""})
	}
	return all
}

func isZero(_ *Era, l *List) bool { return l.TTL != nil && *l.TTL == 0 }

// lifetimes returns from how long to how long the chosen lists may be kept.
func (r *Report) lifetimes(chosen func(*Era, *List) bool) string {
	least, most := int64(-1), int64(0)
	r.each(func(e *Era, l *List) {
		if chosen(e, l) {
			if most = max(most, *l.TTL); least < 0 || *l.TTL < least {
				least = *l.TTL
			}
		}
	})
	if least == most {
		return period(least)
	}
	return period(least) + " to " + period(most)
}

func judgeChanges(r *Report) []Finding {
	const late = " A change is seen when the list's time is over."
	words := map[Stream]struct {
		grade Grade
		text  string
	}{
		StreamOpen:    {Good, "It announces %s{era}, and a stream for that opens: a list that has changed is replaced at once."},
		StreamRefused: {Costs, "It announces %s{era}, but opens no stream for that." + late},
		StreamOther: {Costs, "It announces %s instead of text/event-stream{era}: there is no stream of notices." + late +
			" Have the server answer with a stream, or with 405."},
		StreamSilent: {Costs, "It announces %s{era}, but did not say in time that it listens." + late},
		StreamSessionless: {Costs, "It announces %s{era}, but has no sessions: it could not tell the cache's stream from those of clients, " +
			"so the cache opens none." + late},
		StreamNone: {Note, "It announces no changes{era}." + late + " If that is too late, make %s shorter."},
	}
	all := make([]Finding, 0, len(r.Eras))
	for _, stream := range []Stream{StreamOpen, StreamRefused, StreamOther, StreamSilent, StreamSessionless, StreamNone} {
		all = append(all, r.perEra(func(e *Era) string {
			if e.Stream != stream || len(e.Lists) == 0 {
				return ""
			}
			what := "changes of " + strings.Join(e.ListChanged, ", ")
			switch stream {
			case StreamNone:
				what = e.knob()
			case StreamOther:
				what += ", but answers a GET with " + e.StreamType
			default:
			}
			return fmt.Sprintf(words[stream].text, what)
		}, words[stream].grade)...)
	}
	return all
}

// knob is the option that says how long the lists of that era are kept.
func (e *Era) knob() string {
	options := make([]string, 0, 3)
	for _, l := range e.Lists {
		option := "max_ttl"
		switch {
		case l.Failure != "":
			continue
		case l.TTL == nil:
			option = "ttl"
		case *l.TTL == 0:
			option = "min_ttl"
		}
		if !slices.Contains(options, option) {
			options = append(options, option)
		}
	}
	return strings.Join(options, " or ")
}

func judgeStability(r *Report) []Finding {
	again := func(l *List) *Comparison { return l.Again }
	all := r.failures("Who asks for the second time", again)
	asked, same := r.compared(again)
	switch {
	case !asked:
		return all
	case same:
		return append(all, Finding{Good, "The lists are the same when asked for twice.", ""})
	}
	return append(all, Finding{Costs, "A list is not the same when asked for twice. " + r.differences(again) +
		". Callers of the cache get one of them until its time is over, and models pay in full for a prompt whose tools have moved. Have the server list in one order, or leave the kind out (kinds).", ""})
}

func judgeCapabilities(r *Report) []Finding {
	session := func(l *List) *Comparison { return l.Session }
	capabilities := func(l *List) *Comparison { return l.Capabilities }
	all := r.failures("A client with other capabilities", capabilities)
	if asked, same := r.compared(session); asked && !same {
		return append(all, Finding{Costs, "Lists differ from session to session. " + r.differences(session) +
			". A session that is given something else than the cache has goes to the server.", ""})
	}
	asked, same := r.compared(capabilities)
	switch {
	case !asked:
		return all
	case same:
		return append(all, Finding{Good, "A client with other capabilities is given the same.", ""})
	}
	return append(all, Finding{Note, "A client that offers sampling, elicitation and roots is given something else. " + r.differences(capabilities) +
		". Nothing to set: clients are told apart by their capabilities, and none gets another's list.", ""})
}
