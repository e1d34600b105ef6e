package exchange

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

// noListError says that the upstream gives no list of a kind that can be read.
type noListError struct{ kind revision.Kind }

func (e noListError) Error() string {
	return "the server gives no list of its " + e.kind.String() + ", and rules go by what is listed there"
}

// listPatience is how long the upstream may take for a list without which a call cannot be
// passed on.
const listPatience = 30 * time.Second

// isListed reports whether an item is in the caller's own list, as that is shown. What is not
// there is looked for in a newer list, unless there is one from within the option refresh.
// Without a list the error is a [noListError].
func (g *guard) isListed(n message.Named) (bool, error) {
	if !g.view.NeedsHints(n.Kind) && g.wasListed(n) {
		return true, nil
	}
	e := g.ownList(n.Kind)
	if e != nil && g.lists(e, n) {
		return true, nil
	}
	if asked := g.askedLast(n.Kind); asked != nil && g.isRecent(asked) {
		return g.lists(asked, n), nil
	}
	if e != nil {
		newer, isFeeds := g.newerOfFeed(n.Kind, e)
		switch {
		case newer != nil && g.lists(newer, n):
			return true, nil
		case (isFeeds || g.isRecent(e)) && !g.hasActed(n.Kind):
			return false, nil
		}
		// The session, or the caller, may have a list of its own.
	}
	asked, err := g.listForCall(n.Kind, e != nil)
	switch {
	case err != nil && e != nil && g.r.Context().Err() == nil:
		return false, nil // by the copy
	case err != nil:
		return false, err
	}
	return g.lists(asked, n), nil
}

// hasActed reports whether the session has made calls that may have changed its own list.
func (g *guard) hasActed(k revision.Kind) bool {
	session := g.backend.Admission.Session(g.session)
	return session != nil && session.HasActed(k)
}

// isRecent reports whether a list was fetched within the option refresh.
func (g *guard) isRecent(e *cache.Entry) bool {
	return e.Age(time.Now()) < g.backend.Settings.Feed.Refresh
}

// lists reports whether the caller is shown an item of a list.
func (g *guard) lists(e *cache.Entry, n message.Named) bool {
	var item []byte
	for one := range e.Each() { // all of them: how long it takes says nothing
		if message.IsNamed(n.Kind, one, n.Name) {
			item = one
		}
	}
	return item != nil && g.view.Shows(n.Kind, item)
}

// wasListed reports whether the caller would be shown an item of a list in the cache that the
// caller may be given, of whatever age. If the item is gone, the upstream says so.
func (g *guard) wasListed(n message.Named) bool {
	if e := g.askedLast(n.Kind); e != nil && g.lists(e, n) {
		return true
	}
	own := g.cachedSearch(n.Kind)
	if own == nil {
		return false
	}
	c := g.backend.Cache
	for _, e := range [...]*cache.Entry{
		own.snapshot(), c.Get(own.question.in(own.context)), c.Get(own.question.in(own.context.Everybody())),
	} {
		if e != nil && g.lists(e, n) {
			return true
		}
	}
	return false
}

// ownList returns the whole list of a kind that the caller would be given from the cache, or
// nil.
func (g *guard) ownList(k revision.Kind) *cache.Entry {
	own := g.cachedSearch(k)
	if own == nil {
		return nil
	}
	defer own.returnScout()
	e := own.lookup(g.r.Context(), own.caller()).entry
	if e == nil || e.Body.NextCursor != nil {
		return nil
	}
	return e
}

// newerOfFeed has the feed look for a list that is newer than e, if that is the feed's, and
// returns what the caller would be given then.
func (g *guard) newerOfFeed(k revision.Kind, e *cache.Entry) (newer *cache.Entry, isFeeds bool) {
	f := g.backend.Feeds.Of(e.Revision)
	if f == nil || g.backend.Cache.Pinned(e.Revision, k) != e {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(g.r.Context(), freshness.StalePatience)
	defer cancel()
	f.List(k).LookAgain(ctx)
	return g.ownList(k), true
}

// cachedSearch returns the search for the caller's own list of a kind, or nil if that is not certain to be one
// which the cache may answer.
func (g *guard) cachedSearch(k revision.Kind) *search {
	if !g.backend.Settings.Caches(k) {
		return nil
	}
	return g.ownSearch(k)
}

// ownSearch is cachedSearch for a list that the cache may not keep, too.
func (g *guard) ownSearch(k revision.Kind) *search {
	own := g.search
	own.scout, own.now = nil, time.Now()
	q := &own.question
	*q = question{kind: k, revision: g.streamRevision(), mark: g.backend.Cache.Mark(k)}
	if q.revision == revision.Unknown {
		return nil
	}
	if q.revision.Era() == revision.Modern {
		q.capabilities, own.session = g.capabilities(), ""
	}
	g.findVariant(&own, own.caller())
	return &own
}

// askedLast returns the list that the upstream was last asked for in the name of this caller, or
// in its session, because of a call; nil if there is none.
func (g *guard) askedLast(k revision.Kind) *cache.Entry {
	q, ok := g.questionOfCall(k)
	if !ok {
		return nil
	}
	return g.backend.Cache.Get(q)
}

// questionOfCall returns the cache's key for what askedLast returns. It returns false if nothing
// is kept: nothing tells the caller apart from others.
func (g *guard) questionOfCall(k revision.Kind) (cache.Question, bool) {
	own := g.ownSearch(k)
	if own == nil || own.session == "" && own.context.HasNoCredentials() {
		return cache.Question{}, false
	}
	q := own.question.in(own.context)
	q.Detail = append([]byte("listed "), own.session...) // no cursor, which has quotation marks
	return q, true
}

// listForCall asks the upstream for the caller's list, all of its pages. Callers of one session,
// or with the same credentials, share what comes. hasCopy says that there is another list to go
// by: then the upstream is not waited for as long. Without a whole list the error is a
// [noListError].
func (g *guard) listForCall(k revision.Kind, hasCopy bool) (*cache.Entry, error) {
	limit := listPatience
	if hasCopy {
		limit = freshness.Patience
	}
	ctx, cancel := context.WithTimeout(g.r.Context(), limit)
	defer cancel()
	q, keeps := g.questionOfCall(k)
	if keeps {
		scout, first := g.endpoint.scouts.Join(string(q.Key()))
		switch {
		case first:
			defer scout.Land(struct{}{}, nil)
		case scout != nil:
			if _, err := scout.WaitUpTo(ctx, limit); err == nil {
				if e := g.backend.Cache.Get(q); e != nil {
					return e, nil
				}
			}
		}
	}
	e := &cache.Entry{
		Kind: k, Revision: q.Revision, Partition: q.Partition, Variant: q.Variant, Detail: q.Detail, Mark: g.backend.Cache.Mark(k),
	}
	body, err := g.askForPages(ctx, k)
	switch {
	case err == nil:
	case g.r.Context().Err() == nil && ctx.Err() != nil:
		g.silent = true
		return nil, noListError{k}
	default:
		return nil, err
	}
	if e.Body, e.Fetched = body, time.Now(); keeps {
		g.backend.Cache.Put(e)
	}
	return e, nil
}

// askForPages asks the upstream for all pages of the caller's list.
func (g *guard) askForPages(ctx context.Context, k revision.Kind) (*message.Body, error) {
	var pages []*message.Page
	params, left := "", g.backend.Settings.Feed.MaxList
	for range g.backend.Settings.Feed.MaxPages {
		page, size, err := g.askForPage(ctx, k, params)
		if left -= size; err == nil && left < 0 {
			err = noListError{k}
		}
		if err != nil {
			return nil, err
		}
		if page == nil {
			return message.Compose(k, []byte(`"`+k.ItemsKey()+`":[`), nil, []byte("]}}")), nil
		}
		g.letIn = true
		if pages = append(pages, page); page.NextCursor == nil {
			body, err := message.Join(k, pages)
			if err != nil {
				return nil, noListError{k}
			}
			return body, nil
		}
		params = `"cursor":` + string(page.NextCursor) + ","
	}
	return nil, noListError{k}
}

// askForPage asks for a page of a list of the caller's, and returns its size in bytes. The page
// is nil if the upstream does not have such lists.
func (g *guard) askForPage(ctx context.Context, k revision.Kind, params string) (*message.Page, int64, error) {
	answer := upstream.NewAnswer(make(http.Header), g.backend.Settings.Feed.MaxList, g.backend.Cache.Work())
	defer answer.Close()
	id := []byte(ownID)
	if err := g.send(answer, g.ownRequest(k.Method(), id, params).WithContext(ctx), id); err != nil {
		return nil, 0, err
	}
	g.turnedAway = g.turnedAway || g.turnsAway(answer)
	response, ok := responseIn(answer, id)
	switch {
	case ok && response.Error != nil && response.Error.Code == jsonrpc.MethodNotFound && params == "":
		return nil, 0, nil
	case !ok, response.Error != nil:
		return nil, 0, noListError{k}
	}
	result := bytes.Clone(response.Result)
	page, err := message.ParsePage(result, k)
	if err != nil {
		return nil, 0, noListError{k} // of what cannot be read nothing is certain
	}
	return page, int64(len(result)), nil
}
