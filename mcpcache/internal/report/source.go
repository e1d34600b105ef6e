// Package report holds what operators see of the live handlers. It has the view types that the
// admin API answers with and the commands read. It makes them of feeds and snapshots, and has the
// registry of live handlers.
//
// A handler adds a [Source] to [Live]. Callers get values, or an [Error] that says what kind of
// trouble it is. The package knows neither HTTP nor Caddy, nor how the handler answers requests of
// clients.
package report

import (
	"context"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/fleet"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/persist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Source is what a live handler lets operators see of an upstream. It is
// registered by its identity: two of the same name are not the same one.
type Source interface {
	// Name is what the handler is called. Several may have one name, as the old
	// and the new one do during a reload.
	Name() string
	// Upstream is the URL of the MCP endpoint, as the feeds see it, or "stdio" and the command
	// of a program; "" of a toolkit.
	Upstream() string
	// Program is the upstream if it is one on this machine; nil if not.
	Program() Program
	// Replicas are the URLs of the MCP endpoint at all servers that are one
	// upstream, the feeds' first.
	Replicas() []string
	// Remarks are what requests of clients have shown that an operator should know.
	Remarks() []string
	// Fleet is how the store is that several instances share, and how this one stands among them;
	// nil if the store is this one's own, and of a toolkit.
	Fleet() (*persist.Fleet, fleet.Status)
	// Feeds are those of the upstream: sources with the same ones are in front
	// of the same upstream. A toolkit has none of its own.
	Feeds() *feed.Group
	// Ready reports whether there is a copy of every list; of a toolkit, whether there
	// are lists and no server need be waited for.
	Ready() bool
	// Toolkit is the source as a toolkit; nil if it is none.
	Toolkit() Toolkit
	// Pinned is the feeds' snapshot of a kind at a revision, of a toolkit what it is
	// joined of; or nil.
	Pinned(r revision.Revision, k revision.Kind) *cache.Entry
	// Left is for how long an entry is fresh, as an answer with it says; at most 0 if it
	// is not.
	Left(e *cache.Entry, now time.Time) time.Duration
	// Hits is how many answers came from the cache, stale ones too.
	Hits(r revision.Revision, k revision.Kind) uint64
	// Policy is the rules of who may see what, or nil if there are none.
	Policy() Policy
	// FilteredLists are the feeds' snapshots as callers are shown them.
	FilteredLists() []cache.FilteredList
	// Callers is how many sessions and authorization contexts are remembered.
	Callers() int
	// Purge forgets what was kept for callers, and whom the upstream has
	// accepted.
	Purge()
}

// Toolkit is what a live toolkit lets operators see besides.
type Toolkit interface {
	// Servers are its servers, in order.
	Servers() []Source
	// ListFor is a list as the callers of those views see it. Nil views show everything.
	ListFor(views *catalog.Views, k revision.Kind) *catalog.List
	// Conflicts are the things that clients do not get as its servers have them.
	Conflicts() []Conflict
	// Sessions is the number of its clients' sessions for which anything is open.
	Sessions() int
	// Listeners is the number of its clients that listen for changes.
	Listeners() int
}

// withServers returns the servers of a toolkit, if s is one, and then s itself.
func withServers(s Source) []Source {
	if t := s.Toolkit(); t != nil {
		return append(t.Servers(), s)
	}
	return []Source{s}
}

// Policy is what a live handler lets operators see of its rules.
type Policy interface {
	// Rules are how the rules are, in their order.
	Rules() []Rule
	// Set is what they say.
	Set() *policy.Set
	// ViewAs is what a caller is shown for whom placeholders and headers have those
	// values, each written KEY=VALUE, and why matchers fail for it, by the numbers of their
	// rules. An error says what a caller cannot have; with [UnaskedError] the rest comes all
	// the same.
	ViewAs(ctx context.Context, as []string) (*policy.View, map[int]error, error)
}

// UnaskedError says that no rule asks for placeholders that a caller is said to have.
type UnaskedError struct {
	Names []string
	// Asked are those that rules ask for.
	Asked []string
}

// Error implements [error].
func (e *UnaskedError) Error() string {
	return "no rule asks for " + strings.Join(e.Names, ", ") + "; the placeholders that rules ask for: " + strings.Join(e.Asked, ", ")
}

// Newest returns the snapshot of a kind that was fetched last, of whatever
// revision, or nil.
func Newest(s Source, k revision.Kind) *cache.Entry {
	var newest *cache.Entry
	for _, r := range revision.All() {
		if e := s.Pinned(r, k); e != nil && (newest == nil || e.Fetched.After(newest.Fetched)) {
			newest = e
		}
	}
	return newest
}

// FeedUp reports whether a feed of the era is connected and not failing.
func FeedUp(s Source, era revision.Era) bool {
	for _, f := range s.Feeds().All() {
		if status := f.Status(); status.Revision.Era() == era && (status.State == feed.Ready || status.State == feed.Degraded) {
			return true
		}
	}
	return false
}
