package exchange

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// search is a question and who asks it: all that a look into the cache needs to
// know of a request.
type search struct {
	catalog *catalog.Catalog
	// backend is what answers the request.
	backend *backend.Tenant
	// arrived is when the request did; now is later if it has waited since.
	arrived, now time.Time

	session  string          // the Mcp-Session-Id header, of legacy requests
	context  cache.Partition // the authorization context
	question question
	// scout is not nil if others wait for what this exchange learns.
	scout *variant.Scout
}

// question is a request that can be answered from the cache, if its answer is
// there.
type question struct {
	kind     revision.Kind
	revision revision.Revision
	// detail is the raw cursor or URI; nil for a whole list.
	detail []byte
	// capabilities are those of a modern client.
	capabilities []byte
	// variant is that of the client; record is what is known of it, nil if it is
	// how the feed itself asks, or if nobody knows what it is.
	variant cache.Variant
	record  *variant.Record
	// stream says that the client would rather have an event stream.
	stream bool
	// mark is the moment the question was asked.
	mark cache.Mark
}
