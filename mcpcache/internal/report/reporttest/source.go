// Package reporttest has sources for tests of what operators see. Their feeds, cache and server
// are real, without a handler around them.
package reporttest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/fleet"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/persist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

// Source is a source of its own upstream. Its feeds do not run until a test
// starts them.
type Source struct {
	// Server is the upstream.
	Server *ListServer
	// Runs is what Program returns.
	Runs report.Program
	// Count is what Hits returns.
	Count [revision.Count][revision.NumKinds]atomic.Uint64
	// Others are replicas besides the upstream.
	Others []string
	// Remarked is what Remarks returns.
	Remarked []string
	// Together and Standing are what Fleet returns.
	Together    *persist.Fleet
	FleetStatus fleet.Status
	// Ruled is the policy; nil: none.
	Ruled *Policy
	// Remembered is what Callers returns.
	Remembered int

	name      string
	transport upstream.Transport
	cache     *cache.Cache
	feeds     *feed.Group
}

// New returns a source of that name, which ends with the test. It is not
// registered.
func New(t *testing.T, name string) *Source {
	t.Helper()
	c, err := cache.New(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s := &Source{Server: &ListServer{lists: make(map[string][]string)}, name: name, cache: c}
	s.transport.Use(s.Server)
	s.feeds = feed.NewGroup(s.Upstream(), &s.transport, c, func() {}, &feed.Policy{
		Kinds: revision.SetOf(revision.Kinds()...), Times: feed.Times{TTL: feed.DefaultTTL, MaxTTL: feed.DefaultMaxTTL},
		Refresh: feed.DefaultRefresh, Policy: client.Policy{MaxList: feed.DefaultMaxList, MaxPages: feed.DefaultMaxPages},
	}, zap.NewNop())
	t.Cleanup(func() {
		s.feeds.Stop()
		s.feeds.AwaitClosed()
		c.Close()
	})
	return s
}

// GoLive registers sources until the test ends.
func GoLive(t *testing.T, sources ...report.Source) {
	t.Helper()
	for _, s := range sources {
		report.Live.Add(s)
		t.Cleanup(func() { report.Live.Remove(s, func(string) {}) })
	}
}

// Through has the upstream reached through another handler.
func (s *Source) Through(h caddyhttp.MiddlewareHandler) { s.transport.Use(h) }

// Disconnect takes the way to the upstream away.
func (s *Source) Disconnect() { s.transport.Use(nil) }

// Pin gives a source a snapshot of a list of those items, fetched before.
func (s *Source) Pin(t *testing.T, r revision.Revision, k revision.Kind, age time.Duration, items ...string) *cache.Entry {
	t.Helper()
	page, err := message.ParsePage(fmt.Appendf(nil, `{%q:[%s]}`, k.ItemsKey(), strings.Join(items, ",")), k)
	if err != nil {
		t.Fatal(err)
	}
	e := &cache.Entry{
		Kind: k, Revision: r, Partition: cache.Public, Mark: s.cache.Mark(k),
		Body: message.Single(k, page), Fetched: time.Now().Add(-age), Lifetime: time.Minute,
	}
	s.cache.Pin(e)
	return e
}

// Name implements [report.Source].
func (s *Source) Name() string { return s.name }

// Upstream implements [report.Source].
func (*Source) Upstream() string { return "http://127.0.0.1:1/mcp" }

// Program implements [report.Source].
func (s *Source) Program() report.Program { return s.Runs }

// Remarks implements [report.Source].
func (s *Source) Remarks() []string { return s.Remarked }

// Fleet implements [report.Source].
func (s *Source) Fleet() (*persist.Fleet, fleet.Status) { return s.Together, s.FleetStatus }

// Replicas implements [report.Source].
func (s *Source) Replicas() []string { return append([]string{s.Upstream()}, s.Others...) }

// Feeds implements [report.Source].
func (s *Source) Feeds() *feed.Group { return s.feeds }

// Ready implements [report.Source].
func (s *Source) Ready() bool { return s.feeds.Hydrated() }

// Toolkit implements [report.Source].
func (*Source) Toolkit() report.Toolkit { return nil }

// Pinned implements [report.Source].
func (s *Source) Pinned(r revision.Revision, k revision.Kind) *cache.Entry {
	return s.cache.Pinned(r, k)
}

// Left implements [report.Source].
func (s *Source) Left(e *cache.Entry, now time.Time) time.Duration { return s.cache.Left(e, now) }

// Announce has a change of a kind announced.
func (s *Source) Announce(k revision.Kind) { s.cache.Bump(revision.SetOf(k)) }

// Hits implements [report.Source].
func (s *Source) Hits(r revision.Revision, k revision.Kind) uint64 { return s.Count[r][k].Load() }

// Policy implements [report.Source].
func (s *Source) Policy() report.Policy {
	if s.Ruled == nil {
		return nil
	}
	return s.Ruled
}

// Show has a caller be shown a snapshot.
func (s *Source) Show(e *cache.Entry, v *policy.View) {
	s.cache.VisibleTo(context.Background(), e, v, time.Now())
}

// FilteredLists implements [report.Source].
func (s *Source) FilteredLists() []cache.FilteredList { return s.cache.FilteredLists() }

// Callers implements [report.Source].
func (s *Source) Callers() int { return s.Remembered }

// Purge implements [report.Source].
func (s *Source) Purge() { s.cache.Purge() }

// Interface guards
var _ report.Source = (*Source)(nil)
