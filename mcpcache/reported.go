package mcpcache

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/fleet"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/keeper"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// reported is what operators see of a handler.
type reported struct{ h *Handler }

// Name implements [report.Source].
func (r reported) Name() string { return r.h.settings.exchange.Name }

// Upstream implements [report.Source].
func (r reported) Upstream() string {
	if r.h.program != nil {
		return r.h.program.String()
	}
	return r.h.endpointURL
}

// Program implements [report.Source].
func (r reported) Program() report.Program {
	if r.h.program == nil {
		return nil
	}
	return r.h.program
}

// Remarks implements [report.Source].
func (r reported) Remarks() []string {
	if r.h.endpoint == nil { // a server of a toolkit
		return nil
	}
	return r.h.endpoint.Remarks.Texts()
}

// Fleet implements [report.Source].
func (r reported) Fleet() (*keeper.Fleet, fleet.Standing) { return r.h.backend.FleetState() }

// Replicas implements [report.Source].
func (r reported) Replicas() []string { return r.h.replicaURLs }

// Feeds implements [report.Source].
func (r reported) Feeds() *feed.Group { return r.h.backend.Feeds }

// Ready implements [report.Source].
func (r reported) Ready() bool {
	return r.h.addressFromRequest != "" || report.Hydrated(r.h.backend.Feeds)
}

// Servers implements [report.Source].
func (reported) Servers() []report.Source { return nil }

// Sessions implements [report.Source].
func (reported) Sessions() int { return 0 }

// Listeners implements [report.Source].
func (reported) Listeners() int { return 0 }

// ShownTo implements [report.Source].
func (reported) ShownTo(*catalog.Views, revision.Kind) *catalog.List { return nil }

// Conflicts implements [report.Source].
func (reported) Conflicts() []report.Conflict { return nil }

// Pinned implements [report.Source].
func (r reported) Pinned(at revision.Revision, k revision.Kind) *cache.Entry {
	return r.h.backend.Cache.Pinned(at, k)
}

// Left implements [report.Source].
func (r reported) Left(e *cache.Entry, now time.Time) time.Duration {
	return r.h.backend.Cache.Left(e, now)
}

// Hits implements [report.Source].
func (r reported) Hits(at revision.Revision, k revision.Kind) uint64 {
	return r.h.telemetry.Hits(at, k)
}

// Policy implements [report.Source].
func (r reported) Policy() report.Policy {
	if r.h.rules == nil {
		return nil
	}
	return r.h.rules
}

// Shown implements [report.Source].
func (r reported) Shown() []cache.ShownList { return r.h.backend.Cache.ShownLists() }

// Callers implements [report.Source].
func (r reported) Callers() int {
	remembered, _ := r.h.backend.Admission.Count()
	return remembered
}

// Purge implements [report.Source].
func (r reported) Purge() {
	r.h.backend.Cache.Purge()
	r.h.backend.Admission.Purge()
}

// Interface guards
var _ report.Source = reported{}
