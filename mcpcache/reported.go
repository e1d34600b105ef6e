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

// reported is what operators see of one server.
type reported struct{ u *upstream }

// Name implements [report.Source].
func (r reported) Name() string { return r.u.settings.exchange.Name }

// Upstream implements [report.Source].
func (r reported) Upstream() string {
	if r.u.program != nil {
		return r.u.program.String()
	}
	return r.u.urls[0]
}

// Program implements [report.Source].
func (r reported) Program() report.Program {
	if r.u.program == nil {
		return nil
	}
	return r.u.program
}

// Remarks implements [report.Source].
func (r reported) Remarks() []string {
	if r.u.endpoint == nil { // a server of a toolkit
		return nil
	}
	return r.u.endpoint.Remarks.Texts()
}

// Fleet implements [report.Source].
func (r reported) Fleet() (*keeper.Fleet, fleet.Standing) { return r.u.backend.FleetState() }

// Replicas implements [report.Source].
func (r reported) Replicas() []string { return r.u.urls }

// Feeds implements [report.Source].
func (r reported) Feeds() *feed.Group { return r.u.backend.Feeds }

// Ready implements [report.Source].
func (r reported) Ready() bool {
	return r.u.addressFromRequest != "" || report.Hydrated(r.u.backend.Feeds)
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
	return r.u.backend.Cache.Pinned(at, k)
}

// Left implements [report.Source].
func (r reported) Left(e *cache.Entry, now time.Time) time.Duration {
	return r.u.backend.Cache.Left(e, now)
}

// Hits implements [report.Source].
func (r reported) Hits(at revision.Revision, k revision.Kind) uint64 {
	return r.u.telemetry.Hits(at, k)
}

// Policy implements [report.Source].
func (r reported) Policy() report.Policy {
	if r.u.rules == nil {
		return nil
	}
	return r.u.rules
}

// Shown implements [report.Source].
func (r reported) Shown() []cache.ShownList { return r.u.backend.Cache.ShownLists() }

// Callers implements [report.Source].
func (r reported) Callers() int {
	remembered, _ := r.u.backend.Admission.Count()
	return remembered
}

// Purge implements [report.Source].
func (r reported) Purge() {
	r.u.backend.Cache.Purge()
	r.u.backend.Admission.Purge()
}

// reportedToolkit is what operators see of a toolkit.
type reportedToolkit struct{ s *several }

// Name implements [report.Source].
func (r reportedToolkit) Name() string { return r.s.settings.exchange.Name }

// Upstream implements [report.Source].
func (reportedToolkit) Upstream() string { return "" }

// Program implements [report.Source].
func (reportedToolkit) Program() report.Program { return nil }

// Remarks implements [report.Source].
func (r reportedToolkit) Remarks() []string { return r.s.endpoint.Remarks.Texts() }

// Fleet implements [report.Source].
func (reportedToolkit) Fleet() (*keeper.Fleet, fleet.Standing) { return nil, fleet.Standing{} }

// Replicas implements [report.Source].
func (reportedToolkit) Replicas() []string { return nil }

// Feeds implements [report.Source].
func (reportedToolkit) Feeds() *feed.Group { return nil }

// Ready implements [report.Source].
func (r reportedToolkit) Ready() bool { return r.s.endpoint.Ready() }

// Servers implements [report.Source].
func (r reportedToolkit) Servers() []report.Source {
	servers := make([]report.Source, len(r.s.servers))
	for i, u := range r.s.servers {
		servers[i] = reported{u}
	}
	return servers
}

// ShownTo implements [report.Source].
func (r reportedToolkit) ShownTo(views *catalog.Views, k revision.Kind) *catalog.List {
	return r.s.endpoint.ShownTo(views, revision.LatestModern, k)
}

// Conflicts implements [report.Source].
func (r reportedToolkit) Conflicts() []report.Conflict {
	found := r.s.endpoint.Conflicts()
	conflicts := make([]report.Conflict, len(found))
	for i, c := range found {
		conflicts[i] = report.Conflict{Kind: c.Kind.String(), Server: c.Server, Item: c.Item, Why: c.Why}
	}
	return conflicts
}

// Sessions implements [report.Source].
func (r reportedToolkit) Sessions() int { return r.s.clients.Sessions.Len() }

// Listeners implements [report.Source].
func (r reportedToolkit) Listeners() int { return r.s.clients.Board.Len() }

// Pinned implements [report.Source].
func (r reportedToolkit) Pinned(at revision.Revision, k revision.Kind) *cache.Entry {
	return r.s.endpoint.Joined(at, k)
}

// Left implements [report.Source].
func (r reportedToolkit) Left(e *cache.Entry, now time.Time) time.Duration {
	return r.s.endpoint.Left(e.Revision, e.Kind, now)
}

// Hits implements [report.Source].
func (r reportedToolkit) Hits(at revision.Revision, k revision.Kind) uint64 {
	return r.s.telemetry.Hits(at, k)
}

// Policy implements [report.Source].
func (r reportedToolkit) Policy() report.Policy {
	if r.s.rules == nil {
		return nil
	}
	return r.s.rules
}

// Shown implements [report.Source]. What callers are shown is made of several servers' rules,
// and is none of a single view.
func (reportedToolkit) Shown() []cache.ShownList { return nil }

// Callers implements [report.Source].
func (reportedToolkit) Callers() int { return 0 }

// Purge implements [report.Source]. What is kept for callers, the servers have.
func (r reportedToolkit) Purge() {
	for _, s := range r.Servers() {
		s.Purge()
	}
}

// Interface guards
var (
	_ report.Source = reported{}
	_ report.Source = reportedToolkit{}
)
