package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// walked is one list, fetched to its last page.
type walked struct {
	body  *message.Body
	pages int
	// emptied says that it ended with an empty cursor.
	emptied bool
	ttl     time.Duration // the shortest of any page
	took    time.Duration
}

// walk fetches every page of one kind, as the cache would.
func (c *conversation) walk(ctx context.Context, kind revision.Kind, maxPages int) (*walked, error) {
	began := time.Now()
	w := message.Walk{Kind: kind, Era: c.revision.Era(), MaxPages: maxPages, MaxBytes: c.maxList}
	params := map[string]any{}
	for {
		result, err := c.call(ctx, kind.Method(), params)
		refused, is := errors.AsType[*refusedError](err)
		switch {
		case is && refused.answer.rpc != nil && w.EndsWith(refused.answer.rpc.Code):
			return join(&w, time.Since(began))
		case err != nil:
			return nil, err
		}
		if err := w.Take(result); err != nil {
			return nil, err
		}
		cursor := w.Cursor()
		if cursor == nil {
			return join(&w, time.Since(began))
		}
		params = map[string]any{"cursor": json.RawMessage(cursor)}
	}
}

func join(all *message.Walk, took time.Duration) (*walked, error) {
	body, err := message.Join(all.Kind, all.Pages)
	if err != nil {
		return nil, fmt.Errorf("joining the pages: %w", err)
	}
	w := &walked{body: body, pages: len(all.Pages), emptied: all.Emptied, ttl: all.Pages[0].TTL, took: took}
	for _, page := range all.Pages {
		if page.HasTTL {
			w.ttl = min(w.ttl, page.TTL)
		}
	}
	return w, nil
}
