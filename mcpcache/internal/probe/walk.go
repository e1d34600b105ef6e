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

// Reasons for which the cache would refuse a list as a whole.
var (
	errTooManyPages = errors.New("it has too many pages")
	errCursorCycle  = errors.New("a cursor comes again, so that the list would never end")
	errNotComplete  = errors.New("an answer is not a complete result")
)

// walked is one list, fetched to its last page.
type walked struct {
	body  *message.Body
	pages int
	ttl   time.Duration // the shortest of any page
	took  time.Duration
}

// walk fetches every page of one kind, as the cache would.
func (c *conversation) walk(ctx context.Context, kind revision.Kind, maxPages int) (*walked, error) {
	began := time.Now()
	var pages []*message.Page
	var size int64
	cursors := make(map[string]bool)
	params := map[string]any{}
	for {
		result, err := c.call(ctx, kind.Method(), params)
		if err != nil {
			return nil, err
		}
		if size += int64(len(result)); size > c.maxList {
			return nil, errTooLarge
		}
		page, err := message.ParsePage(result, kind)
		switch {
		case err != nil:
			return nil, err
		case !page.Complete:
			return nil, errNotComplete
		}
		pages = append(pages, page)
		if page.NextCursor == nil {
			return join(kind, pages, time.Since(began))
		}
		if cursors[string(page.NextCursor)] {
			return nil, errCursorCycle
		}
		if len(pages) >= maxPages {
			return nil, errTooManyPages
		}
		cursors[string(page.NextCursor)] = true
		params = map[string]any{"cursor": json.RawMessage(page.NextCursor)}
	}
}

func join(kind revision.Kind, pages []*message.Page, took time.Duration) (*walked, error) {
	body, err := message.Join(kind, pages)
	if err != nil {
		return nil, fmt.Errorf("joining the pages: %w", err)
	}
	w := &walked{body: body, pages: len(pages), ttl: pages[0].TTL, took: took}
	for _, page := range pages {
		if page.HasTTL {
			w.ttl = min(w.ttl, page.TTL)
		}
	}
	return w, nil
}
