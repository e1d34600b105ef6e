package backend

import (
	"crypto/sha256"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/snapshot"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// clients keeps in the store which clients are given the feeds' lists: nobody should have to wake
// a server to find that out again.
type clients struct{ *variant.Table }

// Given implements [keeper.Clients].
func (c clients) Given(e *cache.Entry) (given []snapshot.Client) {
	for _, r := range c.Table.Given(e) {
		given = append(given, snapshot.Client{Capabilities: r.Client.Capabilities, Name: r.Client.Name, Language: r.Client.Language})
	}
	return given
}

// Give implements [keeper.Clients].
func (c clients) Give(e *cache.Entry, to []snapshot.Client) {
	for _, client := range to {
		r := c.Learn(variant.Client{Capabilities: client.Capabilities, Name: client.Name, Language: client.Language})
		if r != nil && r.Seen(e.Revision, e.Kind) == nil {
			r.See(e.Revision, e.Kind, &cache.Seen{Items: e.Body.ItemsDigest, Mark: e.Mark, At: e.Fetched}, e)
		}
	}
}

// NoteLanguage notes whether an answer shows that the upstream's answers depend on
// Accept-Language.
func (b *Backend) NoteLanguage(answer http.Header) {
	if b.languages.Load() {
		return
	}
	if answer["Content-Language"] != nil || header.Varies(answer["Vary"], "Accept-Language") {
		b.languages.Store(true)
	}
}

// MindsLanguage reports whether answers of the upstream depend on Accept-Language,
// as far as has been seen.
func (b *Backend) MindsLanguage() bool { return b.languages.Load() }

// UnknownVariant returns a variant for a client whose capabilities are not known:
// one of its own.
func (b *Backend) UnknownVariant(what, of string) cache.Variant {
	said := append(append(append(append([]byte{}, b.Secret[:]...), what...), 0), of...)
	sum := sha256.Sum256(said)
	return cache.Variant(sum[:8])
}

// VariantOfClient returns the variant of a session's client; false if its initialize
// is ambiguous or too long.
func (b *Backend) VariantOfClient(initialize []byte) (cache.Variant, bool) {
	client, err := message.ParseClient(initialize)
	if err != nil {
		return cache.Variant{}, false
	}
	r := b.Variants.Learn(variant.Client{Capabilities: client.Capabilities, Name: client.Name})
	if r == nil {
		return cache.Variant{}, false
	}
	return r.Key, true
}
