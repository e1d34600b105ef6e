package exchange

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cursor"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// Paging cuts lists from memory into pages.
type Paging struct {
	// Size is how many items a page has.
	Size int
	// Sealer returns what seals cursors now.
	Sealer func() *cursor.Sealer
	// Server is the URL of the server, which tells its cursors from those of others.
	Server string
}

// isOwnCursor reports whether the client's cursor is one that this endpoint has made, for
// whomever: then it asks for a part of the whole list.
func (x *exchange) isOwnCursor() bool {
	p := x.endpoint.Paging
	if p == nil || x.question.kind.ItemsKey() == "" {
		return false
	}
	text, err := jsontext.AppendUnquote(nil, x.request.Cursor)
	if err != nil || !p.Sealer().Made(string(text)) {
		return false
	}
	x.cursor = string(text)
	return true
}

// owner tells those to whom a cursor means something from others: the list, who may be
// given it, and what they are shown of it.
func (x *exchange) owner(partition cache.Partition) []byte {
	q := &x.question
	owner := cache.Question{Revision: q.revision, Kind: q.kind, Partition: partition, Detail: []byte(x.endpoint.Paging.Server)}.Key()
	if x.view != nil {
		key := x.view.Key()
		owner = append(owner, key[:]...)
	}
	return owner
}

// page returns the part of a list, as the caller is shown it, that was asked for; nil if
// the cursor leads nowhere. The partition is that of the list.
func (x *exchange) page(shown *cache.Entry, partition cache.Partition) *cache.Entry {
	p := x.endpoint.Paging
	if p == nil {
		return shown
	}
	sealer, owner := p.Sealer(), x.owner(partition)
	var at *cursor.Position
	if x.cursor != "" {
		opened, err := sealer.Open(x.cursor, owner)
		if err != nil {
			return nil
		}
		at = &opened
	}
	return x.catalog.Page(shown, at, p.Size, func(p cursor.Position) string { return sealer.Seal(p, owner) })
}

// pageless answers a client that has asked by a cursor of ours for a part of a list that
// there is none of, or none that it may be given: the server cannot read the cursor. If
// the list has only expired, it is good enough to go on with.
func (x *exchange) pageless(next caddyhttp.Handler, f found) error {
	defer x.returnScout() // nothing of the list is learned here
	if e := f.fallback; e != nil && x.expiredOnly(e) && x.backend.Cache.Hold(e) {
		defer x.backend.Cache.Release(e)
		return x.answer(found{entry: e, stale: true})
	}
	x.behindScreen()
	asked := []message.Naming{{ID: x.request.ID, Items: []message.Named{{Kind: x.question.kind}}}}
	switch passed, err := x.askDoor(next, asked); {
	case err != nil:
		return x.unasked(err)
	case passed:
		return nil
	}
	return x.cursorIsGone()
}

// cursorIsGone answers a client whose cursor leads nowhere (2025-03-26 and later,
// "Pagination", "Error Handling").
func (x *exchange) cursorIsGone() error {
	d := &denial{status: http.StatusOK, code: invalidParams, text: "the cursor leads nowhere any more: list again, from the first page"}
	return x.deny(d, []message.Naming{{ID: x.request.ID}})
}
