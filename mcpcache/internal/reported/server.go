// Package reported shows the parts of a live handler to operators. It makes each server, and a
// toolkit, a source of the package report. A toolkit is several servers behind one endpoint.
package reported

import (
	"fmt"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/fleet"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/persist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/ruleset"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/telemetry"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/warnings"
)

// Server shows one server: the server of a handler, or one of several.
type Server struct {
	// Called is the name of the server that operators see.
	Called string
	// URLs are those of all replicas. The feeds ask the first.
	URLs []string
	// Runs is the server if it is a program; nil if it is none.
	Runs interface {
		report.Program
		fmt.Stringer
	}
	// Picked is true if the request picks the server. The feeds then have no lists.
	Picked  bool
	Backend *backend.Ref
	// Warnings has the warnings of the server's own endpoint; nil for one of several servers.
	Warnings *warnings.Log
	// Counted counts the answers from the cache.
	Counted *telemetry.Telemetry
	// Rules are nil if there are none.
	Rules *ruleset.Rules
}

// Name implements [report.Source].
func (s *Server) Name() string { return s.Called }

// Upstream implements [report.Source].
func (s *Server) Upstream() string {
	if s.Runs != nil {
		return s.Runs.String()
	}
	return s.URLs[0]
}

// Program implements [report.Source].
func (s *Server) Program() report.Program {
	if s.Runs == nil {
		return nil
	}
	return s.Runs
}

// Remarks implements [report.Source].
func (s *Server) Remarks() []string {
	if s.Warnings == nil {
		return nil
	}
	return s.Warnings.Texts()
}

// Fleet implements [report.Source].
func (s *Server) Fleet() (*persist.Fleet, fleet.Status) { return s.Backend.FleetState() }

// Replicas implements [report.Source].
func (s *Server) Replicas() []string { return s.URLs }

// Feeds implements [report.Source].
func (s *Server) Feeds() *feed.Group { return s.Backend.Feeds }

// Ready implements [report.Source].
func (s *Server) Ready() bool {
	return s.Picked || s.Backend.Feeds.Hydrated()
}

// Toolkit implements [report.Source].
func (*Server) Toolkit() report.Toolkit { return nil }

// Pinned implements [report.Source].
func (s *Server) Pinned(at revision.Revision, k revision.Kind) *cache.Entry {
	return s.Backend.Cache.Pinned(at, k)
}

// Left implements [report.Source].
func (s *Server) Left(e *cache.Entry, now time.Time) time.Duration {
	return s.Backend.Cache.Left(e, now)
}

// Hits implements [report.Source].
func (s *Server) Hits(at revision.Revision, k revision.Kind) uint64 {
	return s.Counted.Hits(at, k)
}

// Policy implements [report.Source].
func (s *Server) Policy() report.Policy {
	return s.Rules.Policy()
}

// FilteredLists implements [report.Source].
func (s *Server) FilteredLists() []cache.FilteredList { return s.Backend.Cache.FilteredLists() }

// Callers implements [report.Source].
func (s *Server) Callers() int {
	remembered, _ := s.Backend.Admission.Count()
	return remembered
}

// Purge implements [report.Source].
func (s *Server) Purge() {
	s.Backend.Cache.Purge()
	s.Backend.Admission.Purge()
}

// Interface guard
var _ report.Source = (*Server)(nil)
