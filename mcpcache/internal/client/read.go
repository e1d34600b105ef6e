package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// ReadAnonymously reads a resource in a modern session, without our credential. uri is a
// raw JSON string, name is the same in the Mcp-Name header, as is the client to ask as.
// It fails if the content is long and another long answer of the upstream is being read.
func (s *Session) ReadAnonymously(ctx context.Context, uri []byte, name string, as *Identity) (*List, error) {
	ctx, cancel := context.WithTimeout(withoutGuard(ctx), RequestTimeout)
	defer cancel()
	c := claim{slot: s.client.ReadSlot}
	defer c.release()
	ctx = withCapture(ctx, &capture{claim: &c, limit: s.client.Policy().MaxList + messageOverhead})
	params := map[string]any{"uri": json.RawMessage(uri)}
	result, err := s.callNamed(ctx, revision.Reads.Method(), name, params, as)
	if err != nil {
		return nil, err
	}
	page, err := message.ParsePage(result, revision.Reads)
	if err != nil {
		return nil, fmt.Errorf("reading an answer to %s: %w", revision.Reads.Method(), err)
	}
	if !page.Complete {
		return nil, message.ErrNotComplete
	}
	first := time.Now()
	return &List{Body: message.Single(revision.Reads, page), Pages: []*message.Page{page}, First: first}, nil
}

type withoutGuardKey struct{}

// withoutGuard returns a context whose requests do not carry our credential.
func withoutGuard(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutGuardKey{}, true)
}

func isWithoutGuard(ctx context.Context) bool { return ctx.Value(withoutGuardKey{}) != nil }
