package mcpcache

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// These are the promises for what several servers have in one list.

// joinedPart is what is known of a server as a request for a joined list begins.
type joinedPart struct {
	knowledge

	// there says that the server's part has to be in the list, fresh that it may be given at once.
	there, fresh bool
	// kept says that there is a copy, of whatever age.
	kept bool
}

// partFor returns what is known of the server as a request begins.
func (w *world) partFor(x *call) joinedPart {
	at := w.instances[x.at.n]
	p := joinedPart{knowledge: at.truth.before(x.kind, x.ctx, "", x.c.rev.String())}
	p.told = at.truth.toldAnybody(x.kind, p.told)
	if x.list {
		p.there, p.fresh = at.hasToShow(x)
		p.kept = !slices.ContainsFunc(at.usedFor(x), func(r revision.Revision) bool { return at.copyFor(x, r) == nil })
	}
	return p
}

// joinedList is what the test reads of an answer of a toolkit.
type joinedList struct {
	parts []*result // by server; nil: it is missing
	ttl   int       // -1 for none
}

// parseJoined reads a result, and checks that what it has of each server is one whole version, as
// the server wrote it.
func (w *world) parseJoined(x *call) (*joinedList, error) {
	var m struct{ ID, Result json.RawMessage }
	var members map[string]json.RawMessage
	var items []json.RawMessage
	if err := json.Unmarshal(x.message(), &m); err != nil {
		return nil, fmt.Errorf("reading answer: %w", err)
	}
	if string(m.ID) != x.id() {
		return nil, fmt.Errorf("id %s became %s", x.id(), m.ID)
	}
	if err := json.Unmarshal(m.Result, &members); err != nil {
		return nil, fmt.Errorf("reading result: %w", err)
	}
	if err := json.Unmarshal(members[x.kind.ItemsKey()], &items); err != nil {
		return nil, fmt.Errorf("reading items: %w", err)
	}
	l := &joinedList{parts: make([]*result, len(w.servers())), ttl: -1}
	if members["ttlMs"] != nil {
		if err := json.Unmarshal(members["ttlMs"], &l.ttl); err != nil {
			return nil, fmt.Errorf("reading ttlMs: %w", err)
		}
	}
	for i, s := range w.servers() {
		prefix := fmt.Sprintf(`{ %q:"%s__`, x.kind.IDKey(), s.cfg.name)
		n := slices.IndexFunc(items, func(item json.RawMessage) bool { return !strings.HasPrefix(string(item), prefix) })
		if n < 0 {
			n = len(items)
		}
		if n > 0 {
			r, err := parseParts(x.kind, items[:n], s.cfg.name+"__")
			if err != nil {
				return nil, fmt.Errorf("of %s: %w", s.cfg.name, err)
			}
			l.parts[i] = r
		}
		items = items[n:]
	}
	if len(items) > 0 {
		return nil, fmt.Errorf("item %s is not in its place", items[0])
	}
	return l, nil
}

// parseParts reads the items of a server.
func parseParts(k revision.Kind, items []json.RawMessage, prefix string) (*result, error) {
	r := new(result)
	for i, raw := range items {
		var it item
		if err := json.Unmarshal(raw, &it); err != nil {
			return nil, fmt.Errorf("reading item: %w", err)
		}
		if i == 0 {
			r.state = it.X.state
		}
		if it.X.state != r.state || it.X.I != i {
			return nil, fmt.Errorf("item %+v is in a list of %+v: not one whole version", it.X, r.state)
		}
		want := strings.Replace(modelItem(k, r.state, i), fmt.Sprintf(`%q:"`, k.IDKey()), fmt.Sprintf(`%q:"%s`, k.IDKey(), prefix), 1)
		if string(raw) != want {
			return nil, fmt.Errorf("item %d is not as the upstream wrote it: %s", i, raw)
		}
	}
	if r.state.Of != len(items) {
		return nil, fmt.Errorf("there are %d items of %+v: not one whole version", len(items), r.state)
	}
	return r, nil
}

// checkJoined judges the answer to a list. The caller holds the lock.
func (w *world) checkJoined(x *call, status string) {
	if w.toolkit.hasDoor() && strings.HasSuffix(status, "; detail=admission") {
		w.note("%s -> %d %s", x, x.status, status)
		return // its server has not let the caller in lately, and does not say more
	}
	if x.err != nil || x.aborted || x.status != http.StatusOK {
		w.note("%s -> %d %s %v", x, x.status, status, x.err)
		w.fail("%s: failed with status %d: %v %s", x, x.status, x.err, x.body.Bytes())
		return
	}
	l, err := w.parseJoined(x)
	if err != nil {
		w.note("%s -> %d %s", x, x.status, status)
		w.fail("%s: %s: %v", x, status, err)
		return
	}
	w.note("%s -> %s %v after %s", x, status, l.parts, time.Since(x.before.at))
	if strings.Contains(status, "; hit;") {
		w.hits++
	}
	for i, s := range w.servers() {
		if err := s.checkPart(x, x.parts[i], l, l.parts[i], status); err != nil {
			w.fail("%s: %s: of %s: %v", x, status, s.cfg.name, err)
		}
	}
	w.toolkit.follows(x, l)
	w.checkPatience(x)
}

// checkPart judges what an answer has of the server.
func (w *world) checkPart(x *call, p joinedPart, l *joinedList, r *result, status string) error {
	partial := strings.HasSuffix(status, "; detail=partial")
	stale := partial || strings.HasSuffix(status, "; detail=stale")
	if r == nil {
		there, _ := w.instances[x.at.n].hasToShow(x)
		switch {
		case !partial:
			return fmt.Errorf("nothing is there, and the answer does not say so")
		case p.there && there:
			return fmt.Errorf("nothing is there, and there was a copy")
		}
		return nil
	}
	if err := w.checkWhose(x, r); err != nil {
		return err
	}
	t, ctx, version := w.instances[x.at.n].truth, r.state.Ctx, r.state.Version
	until, delivered := t.freshUntil[content{x.kind, r.state, "private"}]
	over := p.at.Sub(until)
	expired := over > 0 || over == 0 && strings.Contains(status, "; hit;") // else it was fetched for this
	switch promised := time.Now().Add(time.Duration(l.ttl) * time.Millisecond); {
	case !delivered:
		return fmt.Errorf("the upstream never gave %+v", r.state)
	case expired && !stale:
		return fmt.Errorf("it expired %s ago", over)
	case expired && over >= w.cfg.stale:
		return fmt.Errorf("it was stale for %s, and stale_if_error is %s", over, w.cfg.stale)
	case l.ttl > 0 && promised.After(until):
		return fmt.Errorf("its ttlMs of %d is %s too long", l.ttl, promised.Sub(until))
	case version < p.floor[ctx] && (!stale || version < p.stale[ctx] && w.cfg.stale == 0):
		return fmt.Errorf("version %d of %s is old: version %d had been announced", version, ctx, p.floor[ctx])
	case version < p.told[ctx] && !w.cfg.staleAfterNotice:
		return fmt.Errorf("version %d of %s is old, and this caller was told of version %d", version, ctx, p.told[ctx])
	}
	return nil
}

// checkWhose makes sure that a list may be given to the caller.
func (w *world) checkWhose(x *call, r *result) error {
	feeds := r.state.Ctx == w.feedContext()
	if w.cfg.personal && feeds {
		_, public := w.known.freshUntil[content{x.kind, r.state, "public"}]
		_, unsaid := w.known.freshUntil[content{x.kind, r.state, ""}]
		feeds = public || unsaid && w.cfg.public
	}
	switch {
	case w.cfg.personal && r.state.Ctx == x.ctx, feeds:
	default:
		return fmt.Errorf("the private list of %s was given to %s", r.state.Ctx, x.ctx)
	}
	if era := revision.Parse(r.state.Rev).Era(); !slices.ContainsFunc(w.revisions(), func(rev revision.Revision) bool { return rev.Era() == era }) {
		return fmt.Errorf("the list is of revision %s", r.state.Rev)
	}
	return nil
}

// checkPatience is promise 7 for a joined list.
func (w *world) checkPatience(x *call) {
	waited := time.Since(x.before.at)
	there, fresh := true, true
	for i, s := range w.servers() {
		stays, isFresh := s.instances[x.at.n].hasToShow(x)
		there, fresh = there && x.parts[i].there && stays, fresh && x.parts[i].fresh && isFresh
		if s.instances[x.at.n].mayBeGated(x) {
			there, fresh = false, false
		}
	}
	switch {
	case waited > freshness.Patience+w.cfg.gate && !w.toolkit.hasDoor():
		w.fail("%s: waited %s", x, waited)
	case there && waited > promisedPatience:
		w.fail("%s: waited %s, and there was a copy of all lists", x, waited)
	case fresh && waited > 0:
		w.fail("%s: waited %s, and there was a fresh copy of all lists", x, waited)
	}
}

// mayBeGated reports whether a request may have waited for a feed that had just begun.
func (at *modelInstance) mayBeGated(x *call) bool {
	return slices.ContainsFunc(at.w.revisions(), func(r revision.Revision) bool {
		f := at.member().Feeds.Of(r)
		return f == nil || f.Began().Add(at.w.cfg.gate).After(x.before.at)
	})
}

// hasToShow reports whether a joined list for that caller has to have the server's part now, and
// whether that is fresh. The product says what copies there are; what follows from that is the test's
// own opinion.
func (at *modelInstance) hasToShow(x *call) (there, fresh bool) {
	there, fresh = true, true
	for _, r := range at.usedFor(x) {
		e := at.copyFor(x, r)
		if e == nil || at.w.disturbed {
			return false, false
		}
		left := e.Left(time.Now())
		asked := at.w.askedFor(e)
		if !asked.After(at.differed[x.kind]) { // nobody knows which of the two is newer
			return false, false
		}
		quiet := asked.After(at.w.stirred[x.kind]) && asked.After(at.announced[x.kind])
		there = there && (left > 0 || -left < at.w.cfg.stale) && (quiet || at.mayShowOutdated(e))
		fresh = fresh && left > 0 && quiet
	}
	return there, there && fresh
}

// usedFor returns at which revisions a caller may be shown the server's lists now: at that of its own era
// alone while all is well there.
func (at *modelInstance) usedFor(x *call) []revision.Revision {
	for _, r := range at.w.revisions() {
		f := at.member().Feeds.Of(r)
		if r.Era() == x.c.rev.Era() && f != nil && !f.IsDown() && !f.IsUnsupported() && f.HasDelivered() {
			return []revision.Revision{r}
		}
	}
	return at.w.revisions()
}

// mayShowOutdated reports whether nobody can know of a change that a copy may lack.
func (at *modelInstance) mayShowOutdated(e *cache.Entry) bool {
	switch {
	case at.w.cfg.stale == 0:
		return false
	case at.w.cfg.staleAfterNotice:
		return true
	case at.w.cfg.personal, !at.w.askedFor(e).After(at.truth.rumour[e.Kind]):
		return false
	}
	for _, one := range at.w.instances { // the new one tells others
		for _, r := range at.w.revisions() {
			if other := one.member().Cache.Pinned(r, e.Kind); other == nil || stateOf(other).Version != stateOf(e).Version {
				return false
			}
		}
	}
	return true
}

// askedFor is when a copy may have been asked for at the latest that it is certain to be newer than.
func (w *world) askedFor(e *cache.Entry) time.Time {
	switch {
	case !e.Asked.IsZero():
		return e.Asked
	case w.up.sluggish(), !w.up.hastened.Before(w.stirred[e.Kind]): // it may have been on its way for long
		return time.Time{}
	}
	return e.Fetched
}

// copyFor returns the copy that a caller is shown of the server's list, or nil if it may as well
// be none.
func (at *modelInstance) copyFor(x *call, r revision.Revision) *cache.Entry {
	b := at.member()
	if !at.w.cfg.personal {
		return b.Cache.Pinned(r, x.kind)
	}
	if x.ctx == "-" {
		return nil
	}
	of := b.Identity.OfFields(http.Header{"Authorization": {tokenOf(x.ctx)}}, false)
	if known := b.Admission.Context(of, r); !b.Settings.AdmitAll && (known == nil || !known.Admitted(x.kind, time.Now())) {
		return nil
	}
	e := b.Cache.Get(cache.Question{Revision: r, Kind: x.kind, Partition: of})
	if e != nil && e.Body.NextCursor != nil { // a page, which a handler of its own has kept
		return nil
	}
	return e
}
