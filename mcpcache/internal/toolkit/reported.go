package toolkit

import (
	"context"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// ListFor returns the list of a kind as it is now, as those views show it, for operators. Nil
// views show everything.
func (e *Endpoint) ListFor(views *catalog.Views, r revision.Revision, k revision.Kind) *catalog.List {
	return e.catalog.JoinFor(context.Background(), catalog.CallerOf(views.AppendKey(nil)), views, r, k, e.parts(r, k, time.Now()))
}

// Joined returns the list of a kind as it is now, for operators; nil if there is none at
// that revision.
func (e *Endpoint) Joined(r revision.Revision, k revision.Kind) *cache.Entry {
	if r != newestOf(r) || !k.In(r) {
		return nil
	}
	l := e.joined(r, k, time.Now())
	if !l.HasAny() {
		return nil
	}
	return l.Entry
}

// Left is for how long the parts of a list are fresh, at most 0 if one of them is not.
func (e *Endpoint) Left(r revision.Revision, k revision.Kind, now time.Time) time.Duration {
	left := forever
	for _, s := range e.servers {
		if part := s.pinned(s.at(r), k); part != nil {
			left = min(left, s.Cache.Left(part, now))
		}
	}
	return bounded(left)
}

// Ready reports whether there are lists of a server, and the others have been asked for
// theirs, or do not answer within the gate.
func (e *Endpoint) Ready() bool {
	shown := false
	for _, s := range e.servers {
		for _, r := range eras {
			f := s.feed(r)
			if f == nil {
				continue
			}
			if e.isGated(f) {
				return false
			}
			shown = shown || f.Server() != nil || s.Credentials.isPersonal()
		}
	}
	return shown
}

// AllLists returns the lists of all kinds with all of their items, or none before there is a copy
// of every list of every server.
func (e *Endpoint) AllLists() (lists []*catalog.List) {
	for _, s := range e.servers {
		if !s.Feeds.Hydrated() {
			return nil
		}
	}
	for _, k := range revision.Kinds() {
		if l := e.ListFor(nil, revision.LatestModern, k); l.HasAny() && k.ItemsKey() != "" {
			lists = append(lists, l)
		}
	}
	return lists
}

// Caches reports whether the lists of a kind are those of all servers: one of them may not be
// cached.
func (e *Endpoint) Caches(k revision.Kind) bool {
	return !slices.ContainsFunc(e.servers, func(s *Server) bool { return !s.Settings.Kinds.Has(k) })
}
