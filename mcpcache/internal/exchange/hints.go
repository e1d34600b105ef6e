package exchange

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

// errNoList says that the upstream gives no list of tools that can be read.
var errNoList = errors.New("the server gives no list of its tools, and rules go by what they say there")

// isListed reports whether a tool is in the caller's own list, as that is shown. Hints are
// said there alone. Without a list the error is errNoList.
func (x *exchange) isListed(next caddyhttp.Handler, tool string) (bool, error) {
	var item []byte
	if e := x.ownTools(); e != nil {
		for one := range e.Each() { // all of them: how long it takes says nothing
			if message.NameOf(revision.Tools, one) == tool {
				item = one
			}
		}
	} else {
		var err error
		if item, err = x.askForTool(next, tool); err != nil {
			return false, err
		}
	}
	return item != nil && x.view.Shows(revision.Tools, item), nil
}

// ownTools returns the whole list of tools that the caller would be given from the cache,
// or nil.
func (x *exchange) ownTools() *cache.Entry {
	own := x.asLister()
	if own == nil {
		return nil
	}
	defer own.returnScout()
	caller := own.caller()
	own.resolve(caller, own.language())
	e := own.lookup(x.r.Context(), caller).entry
	if e == nil || e.Body.NextCursor != nil {
		return nil
	}
	return e
}

// asLister returns the exchange in which the caller asks for its tools, or nil if that is
// not certain to be one which the cache may answer.
func (x *exchange) asLister() *exchange {
	own := &exchange{search: x.search, endpoint: x.endpoint, w: x.w, r: x.r, replacer: x.replacer}
	own.scout = nil
	q := &own.question
	*q = question{kind: revision.Tools, revision: x.streamRevision(), mark: x.backend.Cache.Mark(revision.Tools)}
	if q.revision == revision.Unknown || !x.backend.Settings.Caches(revision.Tools) {
		return nil
	}
	if q.revision.Era() == revision.Modern {
		var client message.Request
		if message.Decode(x.body.Bytes, &client) != nil || client.Meta.Capabilities == nil {
			return nil
		}
		q.capabilities, own.session = client.Meta.Capabilities, ""
	}
	return own
}

// askForTool asks the upstream for the caller's list, page by page, and returns a tool as
// it is there, or nil. It asks for all pages wherever the tool is: how long it takes says
// nothing of what is there. Without a whole list the error is errNoList.
func (x *exchange) askForTool(next caddyhttp.Handler, tool string) (found []byte, err error) {
	params := ""
	for range x.backend.Settings.Feed.MaxPages {
		page, err := x.askForTools(next, params)
		if err == nil && page == nil {
			err = errNoList
		}
		if err != nil {
			return nil, err
		}
		x.screen.letIn = true
		for item := range page.Each() {
			if found == nil && message.NameOf(revision.Tools, item) == tool {
				found = bytes.Clone(item)
			}
		}
		if page.NextCursor == nil {
			return found, nil
		}
		params = `"cursor":` + string(page.NextCursor) + ","
	}
	return nil, errNoList
}

// askForTools asks for a page of the caller's tools. It returns nil if the upstream
// gives none.
func (x *exchange) askForTools(next caddyhttp.Handler, params string) (*message.Body, error) {
	answer := upstream.NewAnswer(make(http.Header), x.backend.Settings.Feed.MaxList, x.backend.Cache.Work())
	defer answer.Close()
	if err := x.send(answer, x.ownRequest(revision.Tools.Method(), []byte(ownID), params), []byte(ownID), next); err != nil {
		return nil, err
	}
	x.screen.turnedAway = x.screen.turnedAway || x.turnsAway(answer)
	result, ok := resultIn(answer, []byte(ownID))
	if !ok {
		return nil, nil
	}
	page, err := message.ParsePage(result, revision.Tools)
	if err != nil {
		return nil, nil // of what cannot be read nothing is certain
	}
	return message.Single(revision.Tools, page), nil
}
