package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
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
	policy := s.client.Policy()
	p := pageReader{
		ListRequest: r, session: s, limit: policy.MaxList + messageOverhead,
		claim: &claim{slot: s.client.ReadSlot, patient: r.Patient},
		walk:  message.Walk{Kind: r.Kind, Era: s.client.Revision.Era(), MaxPages: policy.MaxPages, MaxBytes: policy.MaxList},
	}
	defer p.claim.release()
	if err := p.read(ctx); err != nil {
		return nil, err
	}
	body, err := message.Join(r.Kind, p.walk.Pages)
	if err != nil {
		return nil, fmt.Errorf("joining the pages of %s: %w", r.Kind.Method(), err)
	}
	return &List{Body: body, Pages: p.walk.Pages, First: p.first, Server: p.server}, nil
}

// pageReader reads the pages of one list.
type pageReader struct {
	ListRequest

	session *Session
	limit   int64 // of an answer, in bytes
	claim   *claim
	walk    message.Walk
	first   time.Time // when the first page arrived
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
	params := map[string]any{}
	for {
		err := p.page(ctx, params)
		if p.walk.EndsWith(errorCode(err)) {
			return nil
		}
		if err != nil {
			return err
		}
		cursor := p.walk.Cursor()
		if cursor == nil {
			return nil
		}
		params = map[string]any{"cursor": json.RawMessage(cursor)}
	}
}

// page reads one page.
func (p *pageReader) page(ctx context.Context, params map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	ctx = withCapture(ctx, &capture{claim: p.claim, limit: p.limit})
	result, err := p.session.call(ctx, p.Kind.Method(), params, p.As)
	if err != nil {
		return err
	}
	if p.first.IsZero() {
		p.first = time.Now()
	}
	if p.walk.Bytes+int64(len(result)) > longList {
		if err := p.claim.take(ctx); err != nil {
			return err
		}
	}
	if p.Kind == revision.Discover {
		p.server, _ = parseServerInfo(p.session.client.Revision, result)
	}
	if err := p.walk.Take(result); err != nil {
		return fmt.Errorf("reading an answer to %s: %w", p.Kind.Method(), err)
	}
	return nil
}
