package reported

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/fleet"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/persist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/ruleset"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/telemetry"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/toolkit"
)

// Toolkit shows several servers behind one endpoint.
type Toolkit struct {
	Endpoint *toolkit.Endpoint
	// Of are the servers, in their order.
	Of []*Server
	// Counted counts the answers from the cache.
	Counted *telemetry.Telemetry
	// Rules are those about the names that clients see; nil if there are none.
	Rules *ruleset.Rules
}

// Name implements [report.Source].
func (t *Toolkit) Name() string { return t.Endpoint.Settings.Name }

// Upstream implements [report.Source].
func (*Toolkit) Upstream() string { return "" }

// Program implements [report.Source].
func (*Toolkit) Program() report.Program { return nil }

// Remarks implements [report.Source].
func (t *Toolkit) Remarks() []string { return t.Endpoint.Warnings.Texts() }

// Fleet implements [report.Source].
func (*Toolkit) Fleet() (*persist.Fleet, fleet.Status) { return nil, fleet.Status{} }

// Replicas implements [report.Source].
func (*Toolkit) Replicas() []string { return nil }

// Feeds implements [report.Source].
func (*Toolkit) Feeds() *feed.Group { return nil }

// Ready implements [report.Source].
func (t *Toolkit) Ready() bool { return t.Endpoint.Ready() }

// Toolkit implements [report.Source].
func (t *Toolkit) Toolkit() report.Toolkit { return t }

// Servers implements [report.Toolkit].
func (t *Toolkit) Servers() []report.Source {
	servers := make([]report.Source, len(t.Of))
	for i, s := range t.Of {
		servers[i] = s
	}
	return servers
}

// ListFor implements [report.Toolkit].
func (t *Toolkit) ListFor(views *catalog.Views, k revision.Kind) *catalog.List {
	return t.Endpoint.ListFor(views, revision.LatestModern, k)
}

// Conflicts implements [report.Toolkit].
func (t *Toolkit) Conflicts() []report.Conflict {
	found := t.Endpoint.Conflicts()
	conflicts := make([]report.Conflict, len(found))
	for i, c := range found {
		conflicts[i] = report.Conflict{Kind: c.Kind.String(), Server: c.Server, Item: c.Item, Why: c.Why}
	}
	return conflicts
}

// Sessions implements [report.Toolkit].
func (t *Toolkit) Sessions() int { return t.Endpoint.Settings.Sessions.Len() }

// Listeners implements [report.Toolkit].
func (t *Toolkit) Listeners() int { return t.Endpoint.Settings.Broker.Len() }

// Pinned implements [report.Source].
func (t *Toolkit) Pinned(at revision.Revision, k revision.Kind) *cache.Entry {
	return t.Endpoint.Joined(at, k)
}

// Left implements [report.Source].
func (t *Toolkit) Left(e *cache.Entry, now time.Time) time.Duration {
	return t.Endpoint.Left(e.Revision, e.Kind, now)
}

// Hits implements [report.Source].
func (t *Toolkit) Hits(at revision.Revision, k revision.Kind) uint64 {
	return t.Counted.Hits(at, k)
}

// Policy implements [report.Source].
func (t *Toolkit) Policy() report.Policy {
	return t.Rules.Policy()
}

// FilteredLists implements [report.Source]. A list of a toolkit is made by the rules of several servers, so
// no single view has it.
func (*Toolkit) FilteredLists() []cache.FilteredList { return nil }

// Callers implements [report.Source].
func (*Toolkit) Callers() int { return 0 }

// Purge implements [report.Source]. The servers hold the entries of callers.
func (t *Toolkit) Purge() {
	for _, s := range t.Of {
		s.Purge()
	}
}

// Interface guard
var _ report.Source = (*Toolkit)(nil)
