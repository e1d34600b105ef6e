package toolkit

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Server is one of the servers of a toolkit.
type Server struct {
	Name, Prefix string
	// URL is the server's MCP endpoint, as its feeds see it; Host is what requests to it
	// name as their Host, "" for that of the URL.
	URL, Host string
	// EndsSessions says that the session of a client ends when the server has lost its own.
	EndsSessions bool
	*backend.Tenant

	path string
	// lacks are the kinds that the server did not have when it was last asked.
	lacks [2][revision.NumKinds]atomic.Bool // by era
}

// newestOf returns the newest revision of the era of r: the one at which lists are joined.
func newestOf(r revision.Revision) revision.Revision {
	if r.Era() == revision.Modern {
		return revision.LatestModern
	}
	return revision.LatestLegacy
}

// at returns the revision at which the server's lists are shown to clients of the era of r:
// the newest one that the server speaks.
func (s *Server) at(r revision.Revision) revision.Revision {
	newest := newestOf(r)
	for r := newest; r > revision.Unknown && r.Era() == newest.Era(); r-- {
		if f := s.Feeds.Of(r); f != nil && f.Server() != nil {
			return r
		}
	}
	// It has not been reached yet, but may have been before a restart.
	for r := newest; r > revision.Unknown && r.Era() == newest.Era(); r-- {
		if s.Cache.Pinned(r, revision.Tools) != nil {
			return r
		}
	}
	return newest
}

// feed returns the one whose lists are shown to clients of the era of r, or nil.
func (s *Server) feed(r revision.Revision) *feed.Feed { return s.Feeds.Of(s.at(r)) }

// pinned returns the list of a kind that is shown to clients of the era of r, or nil.
func (s *Server) pinned(r revision.Revision, k revision.Kind) *cache.Entry {
	return s.Cache.Pinned(s.at(r), k)
}

// part returns what there is of a server's list, or nil.
func (s *Server) part(r revision.Revision, k revision.Kind, now time.Time) *cache.Entry {
	part := s.pinned(r, k)
	if part != nil && s.Cache.Freshness(part, now) != cache.Fresh && -part.Left(now) >= s.Settings.StaleIfError {
		return nil
	}
	return part
}

// isLacking reports whether the server has no such list, or had none when it was last
// asked.
func (s *Server) isLacking(r revision.Revision, k revision.Kind) bool {
	f := s.feed(r)
	switch {
	case f == nil: // the operator does not want the era spoken
		return true
	case f.Lacks(k):
		s.lacks[r.Era()][k].Store(true)
		return true
	}
	return s.lacks[r.Era()][k].Load()
}

// has notes that the server has such a list.
func (s *Server) has(r revision.Revision, k revision.Kind) { s.lacks[r.Era()][k].Store(false) }

// isKnown reports whether the server has ever been reached, and speaks the era of r.
func (s *Server) isKnown(r revision.Revision) bool {
	f := s.feed(r)
	return f != nil && f.Server() != nil
}

// notReached is the refusal of what a server has to answer that never has.
func (s *Server) notReached(r revision.Revision) *refusal {
	speaks := "2026-07-28"
	if r.Era() == revision.Legacy {
		speaks = "a revision with sessions"
	}
	return &refusal{503, internalError, fmt.Sprintf("the MCP server %q has not been reached yet, or does not speak %s", s.Name, speaks), nil}
}
