package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Reasons for which an upstream's list is refused as a whole.
var (
	ErrTooManyPages = errors.New("list has more pages than max_pages allows")
	ErrListTooLarge = errors.New("list is larger than max_list allows")
	ErrCursorCycle  = errors.New("cursor of the list was given before: the walk would never end")
	ErrNotComplete  = errors.New("answer is not a complete result")
)

// ListRequest is what to ask of a list.
type ListRequest struct {
	Kind revision.Kind
	// As is the client to ask as; nil for ourselves.
	As *Identity
	// Before is how many bytes the list had when it was last read, 0 if it never was: a
	// list that was long is likely to be long again.
	Before int
	// Patient requests wait while another long list of the upstream is being
	// read; others then fail with [errBusy], if the list is long.
	Patient bool
}

// List is a whole list, or a resource.
type List struct {
	// Body is all pages, joined.
	Body *message.Body
	// Pages have the TTL and HasTTL of each page; the rest of them is in Body.
	Pages []*message.Page
	// First is when the first page arrived.
	First time.Time
	// Server is what the result says of the server, if server/discover was asked
	// and we understand it; nil otherwise.
	Server *ServerInfo
}

// List reads every page of a list and joins them. The list comes whole or not at
// all.
func (s *Session) List(ctx context.Context, r ListRequest) (*List, error) {
	p := pageReader{
		ListRequest: r, session: s, policy: s.client.Policy(),
		claim: claim{turn: s.client.Turn, patient: r.Patient},
	}
	defer p.claim.release()
	if err := p.read(ctx); err != nil {
		return nil, err
	}
	body, err := message.Join(r.Kind, p.pages)
	if err != nil {
		return nil, fmt.Errorf("joining the pages of %s: %w", r.Kind.Method(), err)
	}
	return &List{Body: body, Pages: p.pages, First: p.first, Server: p.server}, nil
}

// pageReader reads the pages of one list.
type pageReader struct {
	ListRequest

	session *Session
	policy  Policy
	claim   claim

	pages []*message.Page
	bytes int64
	first time.Time // when the first page arrived
	// server is nil unless server/discover is asked and its result understood.
	server *ServerInfo
}

// read reads all pages.
func (p *pageReader) read(ctx context.Context) error {
	if p.Before > longList {
		if err := p.claim.take(ctx); err != nil {
			return err
		}
	}
	cursors := make(map[string]bool)
	params := map[string]any{}
	for {
		page, err := p.page(ctx, params)
		if err != nil {
			return err
		}
		if page.NextCursor == nil || p.Kind == revision.Discover {
			return nil
		}
		if cursors[string(page.NextCursor)] {
			return ErrCursorCycle
		}
		if len(p.pages) >= p.policy.MaxPages {
			return fmt.Errorf("%w: %d", ErrTooManyPages, p.policy.MaxPages)
		}
		cursors[string(page.NextCursor)] = true
		params = map[string]any{"cursor": json.RawMessage(page.NextCursor)}
	}
}

// page reads one page.
func (p *pageReader) page(ctx context.Context, params map[string]any) (*message.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	ctx = withLongAnswer(ctx, &longAnswer{claim: &p.claim, limit: p.policy.MaxList + messageOverhead})
	result, err := p.session.call(ctx, p.Kind.Method(), params, p.As)
	if err != nil {
		return nil, err
	}
	if p.first.IsZero() {
		p.first = time.Now()
	}
	if p.bytes += int64(len(result)); p.bytes > p.policy.MaxList {
		return nil, fmt.Errorf("%w: %d bytes", ErrListTooLarge, p.policy.MaxList)
	}
	if p.bytes > longList {
		if err := p.claim.take(ctx); err != nil {
			return nil, err
		}
	}
	if p.Kind == revision.Discover {
		p.server, _ = parseServerInfo(p.session.client.Revision, result)
	}
	page, err := message.ParsePage(result, p.Kind)
	if err != nil {
		return nil, fmt.Errorf("reading an answer to %s: %w", p.Kind.Method(), err)
	}
	if !page.Complete {
		return nil, ErrNotComplete
	}
	p.pages = append(p.pages, page)
	return page, nil
}
