package feed

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Group has the feeds of one upstream, at most one for each revision. The newest
// revision of each era that is spoken has one from the start, others get one when a
// client uses them.
type Group struct {
	url      string
	base     http.RoundTripper
	cache    *cache.Cache
	readSlot client.ReadSlot
	lose     func()
	policy   atomic.Pointer[Policy]
	logger   atomic.Pointer[zap.Logger]

	feeds  [revision.Count]atomic.Pointer[Feed]
	single singleSession

	mu      sync.Mutex
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	closing sync.WaitGroup // of sessions, after Stop
}

// NewGroup prepares the feeds of the MCP endpoint at url, which base reaches. Nothing is
// sent before Run. lose is called whenever the upstream may have lost its sessions; it
// must return at once.
func NewGroup(url string, base http.RoundTripper, c *cache.Cache, lose func(), p *Policy, logger *zap.Logger) *Group {
	g := &Group{url: url, base: base, cache: c, readSlot: client.NewReadSlot(), lose: lose}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.Set(p, logger)
	return g
}

// loggerName is the name of the feeds' loggers, below the handler's.
const loggerName = "feed"

// Set changes what an operator may change while the feeds go on. Kinds that
// are wanted from now on are fetched, others are forgotten.
func (g *Group) Set(p *Policy, logger *zap.Logger) {
	g.policy.Store(p)
	g.logger.Store(logger.Named(loggerName))
	for _, f := range g.All() {
		f.reconsider()
	}
}

// Run starts the feeds that run from the start, unless they run already: that of the legacy
// era, and then the modern one, which waits for it. See [Feed.awaitFirstEra].
func (g *Group) Run() {
	g.start(revision.LatestLegacy, false)
	g.start(revision.LatestModern, true)
}

// Start starts the feed of a revision that a client has asked for or the upstream has
// offered. If it runs already and waits for the legacy era, it need not wait any longer. An era
// that the operator does not want spoken is left alone.
func (g *Group) Start(r revision.Revision) {
	if r == revision.Unknown {
		return
	}
	if f := g.feeds[r].Load(); f != nil {
		f.hurry()
		return
	}
	g.start(r, false)
}

// start starts the feed of a revision, unless it runs already. One that waits sends
// nothing before its wait is over.
func (g *Group) start(r revision.Revision, waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil || g.feeds[r].Load() != nil || !g.policy.Load().speaks(r.Era()) {
		return
	}
	f := newFeed(r, g)
	f.waits.Store(waits)
	g.feeds[r].Store(f)
	g.running.Go(func() { f.run(g.ctx) })
}

// Of returns the feed of a revision, or nil if none runs.
func (g *Group) Of(r revision.Revision) *Feed { return g.feeds[r].Load() }

// All returns the feeds that run, oldest revision first; of a nil group none.
func (g *Group) All() []*Feed {
	if g == nil {
		return nil
	}
	feeds := make([]*Feed, 0, 2) // eras
	for _, r := range revision.All() {
		if f := g.Of(r); f != nil {
			feeds = append(feeds, f)
		}
	}
	return feeds
}

// Hydrated reports whether there is a copy of every list that one of the feeds has found.
func (g *Group) Hydrated() bool {
	return slices.ContainsFunc(g.All(), func(f *Feed) bool { return f.Status().Hydrated })
}

// SuspectsSessions reports whether [Feed.SuspectsSession] is true of any feed.
func (g *Group) SuspectsSessions() bool {
	for r := range g.feeds {
		if f := g.feeds[r].Load(); f != nil && f.SuspectsSession() {
			return true
		}
	}
	return false
}

// Stop ends all feeds and returns when they have ended: nothing is fetched and
// published any more. Their sessions are still being closed; see AwaitClosed.
func (g *Group) Stop() {
	g.mu.Lock()
	g.cancel()
	g.mu.Unlock()
	g.running.Wait()
}

// AwaitClosed waits, after Stop, until all sessions have been closed, or
// [farewellTimeout] has passed.
func (g *Group) AwaitClosed() { g.closing.Wait() }

const (
	// closeTimeout is how long a feed that goes on waits for the end of a session.
	closeTimeout = time.Second
	// farewellTimeout is the same after Stop, when nobody need wait for it: where a
	// thousand feeds say farewell at once, the last of them takes longer than its
	// server does.
	farewellTimeout = 5 * time.Second
)

// closeSession closes a session. After Stop it does not wait for that, so that all
// feeds of a group close theirs at once.
func (g *Group) closeSession(s *client.Session) {
	if g.ctx.Err() == nil {
		s.Close(closeTimeout)
		return
	}
	g.closing.Go(func() {
		defer func() { _ = recover() }() // the server ends the session by itself
		s.Close(farewellTimeout)
	})
}

// clientPolicy returns the part of the policy that is for the feeds' clients.
func (g *Group) clientPolicy() client.Policy {
	return g.policy.Load().Policy
}
