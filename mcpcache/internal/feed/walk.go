package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// Reasons for which an upstream's list is refused as a whole.
var (
	errTooManyPages = errors.New("list has more pages than max_pages allows")
	errListTooLarge = errors.New("list is larger than max_list allows")
	errCursorCycle  = errors.New("cursor of the list was given before: the walk would never end")
	errNotComplete  = errors.New("answer is not a complete result")
)

// walk fetches every page of one kind and joins them. The list comes whole or
// not at all.
type walk struct {
	session *session
	kind    revision.Kind
	policy  *Policy
	mark    cache.Mark
	variant *variant.Record
	ticket  ticket

	pages []*message.Page
	bytes int64
	first time.Time // when the first page had arrived
}

// fetch fetches the list. before is the one from before, nil if there is none: what
// was long is likely to be so again.
func (w *walk) fetch(ctx context.Context, before *cache.Entry) (*cache.Entry, error) {
	defer w.ticket.give()
	if before != nil && before.Size() > longList {
		if err := w.ticket.take(ctx); err != nil {
			return nil, err
		}
	}
	cursors := make(map[string]bool)
	params := map[string]any{}
	for {
		page, err := w.page(ctx, params)
		if err != nil {
			return nil, err
		}
		if page.NextCursor == nil || w.kind == revision.Discover {
			return w.join()
		}
		if cursors[string(page.NextCursor)] {
			return nil, errCursorCycle
		}
		if len(w.pages) >= w.policy.MaxPages {
			return nil, fmt.Errorf("%w: %d", errTooManyPages, w.policy.MaxPages)
		}
		cursors[string(page.NextCursor)] = true
		params = map[string]any{"cursor": json.RawMessage(page.NextCursor)}
	}
}

// page fetches one page.
func (w *walk) page(ctx context.Context, params map[string]any) (*message.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ctx = withIntake(ctx, &intake{ticket: &w.ticket, limit: w.policy.MaxList + messageOverhead})
	result, err := w.session.call(ctx, w.kind.Method(), params, w.variant)
	if err != nil {
		return nil, err
	}
	if w.first.IsZero() {
		w.first = time.Now()
	}
	if w.bytes += int64(len(result)); w.bytes > w.policy.MaxList {
		return nil, fmt.Errorf("%w: %d bytes", errListTooLarge, w.policy.MaxList)
	}
	if w.bytes > longList {
		if err := w.ticket.take(ctx); err != nil {
			return nil, err
		}
	}
	page, err := message.ParsePage(result, w.kind)
	if err != nil {
		return nil, fmt.Errorf("reading an answer to %s: %w", w.kind.Method(), err)
	}
	if !page.Complete {
		return nil, errNotComplete
	}
	w.pages = append(w.pages, page)
	return page, nil
}

// join makes the snapshot. It is as old as its first page, and fresh for as
// long as the page with the shortest life.
func (w *walk) join() (*cache.Entry, error) {
	body, err := message.Join(w.kind, w.pages)
	if err != nil {
		return nil, fmt.Errorf("joining the pages of %s: %w", w.kind.Method(), err)
	}
	lifetime := w.policy.Of(w.kind).MaxTTL
	for _, page := range w.pages {
		lifetime = min(lifetime, w.policy.Lifetime(w.kind, page.TTL, page.HasTTL))
	}
	return &cache.Entry{
		Kind: w.kind, Revision: w.session.revision, Variant: keyOf(w.variant),
		Body: body, Fetched: w.first, Mark: w.mark,
		Lifetime:  lifetime,
		Partition: w.policy.Partition(body.Scope),
	}, nil
}

// notOffered reports whether err says that the server does not have a method.
func notOffered(err error) bool {
	const methodNotFound = -32601
	if rpc, ok := errors.AsType[*message.Error](err); ok {
		return rpc.Code == methodNotFound
	}
	status, ok := errors.AsType[*upstream.StatusError](err)
	return ok && status.Code == methodNotFound
}
