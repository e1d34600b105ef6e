package exchange

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

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
func (x *exchange) isListed(next caddyhttp.Handler, n message.Named) (bool, error) {
	if !x.view.NeedsHints(n.Kind) && x.wasListed(n) {
		return true, nil
	}
	e := x.ownList(n.Kind)
	if e != nil && x.lists(e, n) {
		return true, nil
	}
	if asked := x.askedLast(n.Kind); asked != nil && x.isRecent(asked) {
		return x.lists(asked, n), nil
	}
	if e != nil {
		newer, isFeeds := x.newerOfFeed(n.Kind, e)
		switch {
		case newer != nil && x.lists(newer, n):
			return true, nil
		case (isFeeds || x.isRecent(e)) && !x.hasActed(n.Kind):
			return false, nil
		}
		// The session, or the caller, may have a list of its own.
	}
	asked, err := x.listForCall(next, n.Kind, e != nil)
	switch {
	case err != nil && e != nil && x.r.Context().Err() == nil:
		return false, nil // by the copy
	case err != nil:
		return false, err
	}
	return x.lists(asked, n), nil
}

// hasActed reports whether the session has made calls that may have changed its own list.
func (x *exchange) hasActed(k revision.Kind) bool {
	session := x.backend.Admission.Session(x.session)
	return session != nil && session.HasActed(k)
}

// isRecent reports whether a list was fetched within the option refresh.
func (x *exchange) isRecent(e *cache.Entry) bool {
	return e.Age(time.Now()) < x.backend.Settings.Feed.Refresh
}

// lists reports whether the caller is shown an item of a list.
func (x *exchange) lists(e *cache.Entry, n message.Named) bool {
	var item []byte
	for one := range e.Each() { // all of them: how long it takes says nothing
		if message.IsNamed(n.Kind, one, n.Name) {
			item = one
		}
	}
	return item != nil && x.view.Shows(n.Kind, item)
}

// wasListed reports whether the caller would be shown an item of a list in the cache that the
// caller may be given, of whatever age. If the item is gone, the upstream says so.
func (x *exchange) wasListed(n message.Named) bool {
	if e := x.askedLast(n.Kind); e != nil && x.lists(e, n) {
		return true
	}
	own := x.asLister(n.Kind)
	if own == nil {
		return false
	}
	c := x.backend.Cache
	for _, e := range [...]*cache.Entry{
		own.snapshot(), c.Get(own.question.in(own.context)), c.Get(own.question.in(own.context.Everybody())),
	} {
		if e != nil && x.lists(e, n) {
			return true
		}
	}
	return false
}

// ownList returns the whole list of a kind that the caller would be given from the cache, or
// nil.
func (x *exchange) ownList(k revision.Kind) *cache.Entry {
	own := x.asLister(k)
	if own == nil {
		return nil
	}
	defer own.returnScout()
	e := own.lookup(x.r.Context(), own.caller()).entry
	if e == nil || e.Body.NextCursor != nil {
		return nil
	}
	return e
}

// newerOfFeed has the feed look for a list that is newer than e, if that is the feed's, and
// returns what the caller would be given then.
func (x *exchange) newerOfFeed(k revision.Kind, e *cache.Entry) (newer *cache.Entry, isFeeds bool) {
	f := x.backend.Feeds.Of(e.Revision)
	if f == nil || x.backend.Cache.Pinned(e.Revision, k) != e {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), freshness.StalePatience)
	defer cancel()
	f.LookAgain(ctx, k)
	return x.ownList(k), true
}

// asLister returns the exchange in which the caller asks for a list, or nil if that is
// not certain to be one which the cache may answer.
func (x *exchange) asLister(k revision.Kind) *exchange {
	if !x.backend.Settings.Caches(k) {
		return nil
	}
	return x.lister(k)
}

// lister is asLister for a list that the cache may not keep.
func (x *exchange) lister(k revision.Kind) *exchange {
	own := &exchange{search: x.search, endpoint: x.endpoint, w: x.w, r: x.r, replacer: x.replacer}
	own.scout, own.now = nil, time.Now()
	q := &own.question
	*q = question{kind: k, revision: x.streamRevision(), mark: x.backend.Cache.Mark(k)}
	if q.revision == revision.Unknown {
		return nil
	}
	if q.revision.Era() == revision.Modern {
		q.capabilities, own.session = x.capabilities(), ""
	}
	own.findVariant(own.caller())
	return own
}

// askedLast returns the list that the upstream was last asked for in the name of this caller, or
// in its session, because of a call; nil if there is none.
func (x *exchange) askedLast(k revision.Kind) *cache.Entry {
	q, ok := x.questionOfCall(k)
	if !ok {
		return nil
	}
	return x.backend.Cache.Get(q)
}

// questionOfCall returns the cache's key for what askedLast returns. It returns false if nothing
// is kept: nothing tells the caller apart from others.
func (x *exchange) questionOfCall(k revision.Kind) (cache.Question, bool) {
	own := x.lister(k)
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
func (x *exchange) listForCall(next caddyhttp.Handler, k revision.Kind, hasCopy bool) (*cache.Entry, error) {
	limit := listPatience
	if hasCopy {
		limit = freshness.Patience
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), limit)
	defer cancel()
	q, keeps := x.questionOfCall(k)
	if keeps {
		scout, first := x.endpoint.scouts.Join(string(q.Key()))
		switch {
		case first:
			defer scout.Land(struct{}{}, nil)
		case scout != nil:
			if _, err := scout.WaitUpTo(ctx, limit); err == nil {
				if e := x.backend.Cache.Get(q); e != nil {
					return e, nil
				}
			}
		}
	}
	e := &cache.Entry{
		Kind: k, Revision: q.Revision, Partition: q.Partition, Variant: q.Variant, Detail: q.Detail, Mark: x.backend.Cache.Mark(k),
	}
	body, err := x.askForPages(ctx, next, k)
	switch {
	case err == nil:
	case x.r.Context().Err() == nil && ctx.Err() != nil:
		x.screen.silent = true
		return nil, noListError{k}
	default:
		return nil, err
	}
	if e.Body, e.Fetched = body, time.Now(); keeps {
		x.backend.Cache.Put(e)
	}
	return e, nil
}

// askForPages asks the upstream for all pages of the caller's list.
func (x *exchange) askForPages(ctx context.Context, next caddyhttp.Handler, k revision.Kind) (*message.Body, error) {
	var pages []*message.Page
	params, left := "", x.backend.Settings.Feed.MaxList
	for range x.backend.Settings.Feed.MaxPages {
		page, size, err := x.askForPage(ctx, next, k, params)
		if left -= size; err == nil && left < 0 {
			err = noListError{k}
		}
		if err != nil {
			return nil, err
		}
		if page == nil {
			return message.Compose(k, []byte(`"`+k.ItemsKey()+`":[`), nil, []byte("]}}")), nil
		}
		x.screen.letIn = true
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
func (x *exchange) askForPage(ctx context.Context, next caddyhttp.Handler, k revision.Kind, params string) (*message.Page, int64, error) {
	answer := upstream.NewAnswer(make(http.Header), x.backend.Settings.Feed.MaxList, x.backend.Cache.Work())
	defer answer.Close()
	id := []byte(ownID)
	if err := x.send(answer, x.ownRequest(k.Method(), id, params).WithContext(ctx), id, next); err != nil {
		return nil, 0, err
	}
	x.screen.turnedAway = x.screen.turnedAway || x.turnsAway(answer)
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
