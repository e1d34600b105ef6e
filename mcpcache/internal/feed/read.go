package feed

import (
	"context"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// maxReads bounds how many resources a feed reads at a time.
const maxReads = 4

// Read reads a resource in the background, without credentials, so that callers can
// share it if it is public: an answer to one of them may repeat what that one sent. uri
// is a raw JSON string, name is the same in the Mcp-Name header. Nothing is read if
// maxReads are under way, or the feed is of the legacy era.
func (f *Feed) Read(uri []byte, name string, v *variant.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session == nil || f.revision.Era() != revision.Modern || f.reading >= maxReads {
		return
	}
	f.reading++
	ctx, s := f.ctx, f.session
	f.background.Go(func() {
		defer func() {
			_ = recover() // the next one reads again
			f.mu.Lock()
			f.reading--
			f.mu.Unlock()
		}()
		f.read(ctx, s, uri, name, v)
	})
}

func (f *Feed) read(ctx context.Context, s *client.Session, uri []byte, name string, v *variant.Record) {
	mark := f.cache.Mark(revision.Reads)
	read, err := s.ReadAnonymously(ctx, uri, name, identityOf(v))
	if err != nil {
		return
	}
	page := read.Pages[0]
	lifetime := f.policy().Lifetime(revision.Reads, page.TTL, page.HasTTL)
	if !page.HasTTL || page.Scope != message.ScopePublic || lifetime == 0 {
		return
	}
	f.cache.Put(&cache.Entry{
		Kind: revision.Reads, Revision: f.revision, Variant: keyOf(v), Detail: uri, Partition: cache.EverybodyWho(askedBy(v)),
		Body: read.Body, Fetched: read.First, Lifetime: lifetime, Mark: mark,
	})
}
