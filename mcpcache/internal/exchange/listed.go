package exchange

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

// noListError says that the upstream gives no list of a kind that can be read.
type noListError struct{ kind revision.Kind }

func (e noListError) Error() string {
	return "the server gives no list of its " + e.kind.String() + ", and rules go by what is listed there"
}

// isListed reports whether an item is in the caller's own list, as that is shown. What is not
// there is looked for in a newer list. Without a list the error is a [noListError].
func (x *exchange) isListed(next caddyhttp.Handler, n message.Named) (bool, error) {
	if !x.view.NeedsHints(n.Kind) && x.wasListed(n) {
		return true, nil
	}
	e := x.ownList(n.Kind)
	if e != nil && !x.lists(e, n) {
		e = x.newerList(n.Kind, e)
	}
	if e != nil {
		return x.lists(e, n), nil
	}
	item, err := x.askForItem(next, n)
	return item != nil && x.view.Shows(n.Kind, item), err
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
	own := x.asLister(n.Kind)
	if own == nil {
		return false
	}
	own.findVariant(own.caller())
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
	caller := own.caller()
	own.findVariant(caller)
	e := own.lookup(x.r.Context(), caller).entry
	if e == nil || e.Body.NextCursor != nil {
		return nil
	}
	return e
}

// newerList returns a list of the caller that is newer than e; e itself if that was fetched
// within the option refresh, and nil if the upstream has to be asked for it.
func (x *exchange) newerList(k revision.Kind, e *cache.Entry) *cache.Entry {
	if e.Age(time.Now()) < x.backend.Settings.Feed.Refresh {
		return e
	}
	f := x.backend.Feeds.Of(e.Revision)
	if f == nil || x.backend.Cache.Pinned(e.Revision, k) != e {
		return nil
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), stalePatience)
	defer cancel()
	f.LookAgain(ctx, k)
	return x.ownList(k)
}

// asLister returns the exchange in which the caller asks for a list, or nil if that is
// not certain to be one which the cache may answer.
func (x *exchange) asLister(k revision.Kind) *exchange {
	own := &exchange{search: x.search, endpoint: x.endpoint, w: x.w, r: x.r, replacer: x.replacer}
	own.scout, own.now = nil, time.Now()
	q := &own.question
	*q = question{kind: k, revision: x.streamRevision(), mark: x.backend.Cache.Mark(k)}
	if q.revision == revision.Unknown || !x.backend.Settings.Caches(k) {
		return nil
	}
	if q.revision.Era() == revision.Modern {
		q.capabilities, own.session = x.capabilities(), ""
	}
	return own
}

// askForItem asks the upstream for the caller's list, page by page, and returns an item as
// it is there, or nil. It asks for all pages wherever the item is: how long it takes says
// nothing of what is there. Without a whole list the error is a [noListError].
func (x *exchange) askForItem(next caddyhttp.Handler, n message.Named) (found []byte, err error) {
	params := ""
	for range x.backend.Settings.Feed.MaxPages {
		page, err := x.askForPage(next, n.Kind, params)
		if err == nil && page == nil {
			err = noListError{n.Kind}
		}
		if err != nil {
			return nil, err
		}
		x.screen.letIn = true
		for item := range page.Each() {
			if found == nil && message.IsNamed(n.Kind, item, n.Name) {
				found = bytes.Clone(item)
			}
		}
		if page.NextCursor == nil {
			return found, nil
		}
		params = `"cursor":` + string(page.NextCursor) + ","
	}
	return nil, noListError{n.Kind}
}

// askForPage asks for a page of a list of the caller's. It returns nil if the upstream
// gives none.
func (x *exchange) askForPage(next caddyhttp.Handler, k revision.Kind, params string) (*message.Body, error) {
	answer := upstream.NewAnswer(make(http.Header), x.backend.Settings.Feed.MaxList, x.backend.Cache.Work())
	defer answer.Close()
	if err := x.send(answer, x.ownRequest(k.Method(), []byte(ownID), params), []byte(ownID), next); err != nil {
		return nil, err
	}
	x.screen.turnedAway = x.screen.turnedAway || x.turnsAway(answer)
	result, ok := resultIn(answer, []byte(ownID))
	if !ok {
		return nil, nil
	}
	page, err := message.ParsePage(result, k)
	if err != nil {
		return nil, nil // of what cannot be read nothing is certain
	}
	return message.Single(k, page), nil
}
