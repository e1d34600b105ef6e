package feed

import (
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
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
	c := f.conn
	if c == nil || f.revision.Era() != revision.Modern || c.reading >= maxReads {
		return
	}
	c.reading++
	f.background.Go(func() {
		defer func() {
			_ = recover() // the next one reads again
			f.mu.Lock()
			c.reading--
			f.mu.Unlock()
		}()
		c.read(uri, name, v)
	})
}

func (c *connection) read(uri []byte, name string, v *variant.Record) {
	f := c.feed
	mark := f.cache.Mark(revision.Reads)
	read, err := c.ReadAnonymously(c.ctx, uri, name, identityOf(v))
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
