package exchange

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// search is a question and who asks it: all that a lookup needs to know of a
// request.
type search struct {
	catalog *catalog.Catalog
	// backend is what answers the request.
	backend *backend.Ref
	// arrived is when the request arrived; now is later if it has waited since.
	arrived, now time.Time

	session  string          // the Mcp-Session-Id header, of legacy requests
	context  cache.Partition // the authorization context
	question question
	// scout is not nil if other callers wait for what this exchange learns.
	scout *scout
}

// scout is a request that goes to the upstream, and whose answer others wait for: it shows what they
// may be given.
type scout = flight.Flight[struct{}]

// question is what a request that the cache could answer asks for.
type question struct {
	kind     revision.Kind
	revision revision.Revision
	// detail is the raw cursor or URI; nil for a whole list.
	detail []byte
	// capabilities are those of a modern client.
	capabilities []byte
	// variant is that of the client; record is what is known of it, nil if it is the
	// feed's own variant, or not known.
	variant cache.Variant
	record  *variant.Record
	// repeatable says that the request asks for something else than the feed's, and that the feed can ask the same.
	repeatable bool
	// stream says that the client prefers an event stream.
	stream bool
	// mark is the moment the question was asked.
	mark cache.Mark
}
