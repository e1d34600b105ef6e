package exchange

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cursor"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

// Paging cuts lists from memory into pages.
type Paging struct {
	// Size is how many items a page has.
	Size int
	// Sealer returns what seals cursors now. Until Tried is closed, it may not yet open what was
	// sealed before a restart or reload, or by another Caddy.
	Sealer func() *cursor.Sealer
	Tried  <-chan struct{}
	// Server is the URL of the server, which tells its cursors from those of others.
	Server string
}

// sealer returns the sealer of cursors. While Caddy loads the secrets, the request waits, as it waits for the
// stored lists.
func (x *exchange) sealer() *cursor.Sealer {
	p := x.endpoint.Paging
	backend.AwaitLoaded(x.r.Context(), p.Tried, x.arrived)
	return p.Sealer()
}

// isOwnCursor reports whether the client's cursor is one that this endpoint has made, for
// whomever: then it asks for a part of the whole list.
func (x *exchange) isOwnCursor() bool {
	if x.endpoint.Paging == nil || x.question.kind.ItemsKey() == "" {
		return false
	}
	text, err := jsontext.AppendUnquote(nil, x.in.Message.Cursor)
	if err != nil || !x.sealer().Made(string(text)) {
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
// the cursor leads nowhere.
func (x *exchange) page(f lookupResult, shown *cache.Entry) *cache.Entry {
	p := x.endpoint.Paging
	if p == nil {
		return shown
	}
	sealer, owner := x.sealer(), x.owner(f.entry.Partition)
	var at *cursor.Position
	if x.cursor != "" {
		opened, err := sealer.Open(x.cursor, owner)
		if err != nil {
			return nil
		}
		at = &opened
	}
	return x.catalog.Page(shown, at, p.Size, f.status == "", func(p cursor.Position) string { return sealer.Seal(p, owner) })
}

// askForList answers a client that has asked by a cursor of ours for a part of a list that
// it cannot be given from memory now. The server cannot read the cursor, so it is asked for
// the list as if it were for the first page, and with the same consequences: the caller is
// let in or not, what has expired is fetched, and if that fails a copy may do. The page is cut
// of what comes.
func (x *exchange) askForList(next caddyhttp.Handler, f lookupResult) error {
	body, err := message.WithoutCursor(x.in.Body.Bytes)
	if err != nil {
		return x.cursorIsGone() // it has been understood: this does not happen
	}
	answer := upstream.NewAnswer(x.w.Header().Clone(), x.backend.Settings.Feed.MaxList, x.backend.Cache.Work())
	defer answer.Close()
	whole := x.inPlace(answer, x.r.Clone(x.r.Context()))
	whole.r.ContentLength = int64(len(body))
	whole.r.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	whole.in.Body.Bytes, whole.in.Message.Cursor = body, nil
	x.outcome, x.reason = f.outcome(), f.reason // until the upstream has answered
	var instead lookupResult
	err = collect(answer, whole.r, x.in.Message.ID, func(r *http.Request) (err error) {
		whole.r = r
		instead, err = whole.forward(next, f, true)
		return err
	})
	x.search, x.outcome, x.reason = whole.search, whole.outcome, whole.reason
	switch {
	case instead.entry != nil:
		return x.answer(instead)
	case err != nil || answer.Status != http.StatusOK:
		return passOn(x.w, answer, err)
	}
	x.now = time.Now()
	switch f, is := x.listIn(answer); {
	case !is:
		return passOn(x.w, answer, nil)
	case f.entry != nil:
		return x.answer(f)
	}
	// The server cuts its list itself, or it is too long. The feed may have put it together.
	if f := x.lookup(x.r.Context(), x.caller()); f.entry != nil && x.hold(&f) {
		return x.answer(f)
	}
	return x.cursorIsGone()
}

// listIn returns the whole list that the upstream has answered, as it is to be answered
// with; without an entry if it is only a part. It reports whether there is a list at all.
func (x *exchange) listIn(answer *upstream.Answer) (f lookupResult, is bool) {
	if answer.Cut {
		l := learner{stream: isStream(answer.Header().Get("Content-Type"))}
		return lookupResult{}, l.isResult(answer.Body)
	}
	result, ok := resultIn(answer, x.in.Message.ID)
	if !ok {
		return lookupResult{}, false
	}
	page, err := message.ParsePage(result, x.question.kind)
	if err != nil {
		return lookupResult{}, false
	}
	if page.NextCursor != nil || !page.Complete {
		return lookupResult{}, true
	}
	q := &x.question
	e := &cache.Entry{
		Kind: q.kind, Revision: q.revision, Partition: x.context, Variant: q.variant, Mark: q.mark,
		Lifetime: x.backend.Settings.Feed.Lifetime(q.kind, page.TTL, page.HasTTL), Fetched: x.now,
		Body: message.Single(q.kind, page),
	}
	if _, err := x.sealer().Open(x.cursor, x.owner(x.context.Everybody())); err == nil {
		e.Partition = x.context.Everybody() // that of the list that was cut before
	}
	return lookupResult{entry: e, reason: x.reason, status: strings.Join(answer.Header()["Cache-Status"], ", ")}, true
}

// cursorIsGone answers a client whose cursor leads nowhere (2025-03-26 and later,
// "Pagination", "Error Handling").
func (x *exchange) cursorIsGone() error {
	p := jsonrpc.Invalid(jsonrpc.InvalidParams, "the cursor leads nowhere any more: list again, from the first page")
	return x.deny(p, []message.Naming{{ID: x.in.Message.ID}})
}
