// Package backend holds everything that this process keeps of one MCP server: its feeds, its
// cache, its admissions, and what is known of its clients. A feed is the cache's own background
// connection to the server. A [Backend] outlives the configurations that use it; each of them has
// a [Ref].
//
// It knows nothing of requests on their way, and of how a list is put together for a caller.
package backend

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/fleet"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/persist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// Backend is everything that belongs to one upstream and not to one
// configuration.
type Backend struct {
	Cache     *cache.Cache
	Admission *admission.Ledger
	Variants  *variant.Table
	// Apart has the variants of clients whose requests ask for something else than the feeds.
	Apart  *variant.Table
	Feeds  *feed.Group
	Keeper *persist.Keeper
	Fleet  *fleet.Member
	// Compressor compresses what the cache wants compressed.
	Compressor *encoded.Compressor
	// CORS is what the upstream lets pages of other origins do.
	CORS CORS
	// Messages is the memory of messages on their way to and from a program.
	Messages *budget.Room
	// Secret keys the hashes that stand for credentials.
	Secret [32]byte

	transport upstream.Transport
	readOnlyLists
	// languages says that answers of the upstream depend on Accept-Language.
	languages atomic.Bool
	// hanging is until when the upstream is taken not to answer, in Unix nanoseconds.
	hanging atomic.Int64

	ctx     context.Context // until Destruct
	cancel  context.CancelFunc
	started sync.Once
	stored  chan struct{} // closed once the stored lists have been loaded
	begun   atomic.Bool   // Run has been called
	running sync.WaitGroup
	ended   chan struct{}

	mu   sync.Mutex
	refs []*Ref
}

// New returns the backend of the server that key stands for, without refs yet.
// It takes settings, instance and logger from t. The feeds send their requests to
// endpointURL.
func New(key, endpointURL string, t *Ref) (*Backend, error) {
	c, err := cache.New(t.Settings.Memory)
	if err != nil {
		return nil, err
	}
	b := &Backend{
		Messages: budget.NewRoom(0), Cache: c, Admission: admission.New(admission.DefaultCapacity), Keeper: persist.New(key, t.Instance, c),
		stored: make(chan struct{}), ended: make(chan struct{}),
	}
	b.Fleet = fleet.New(b.Keeper.Place, c)
	b.transport.Host, b.transport.Slash.Addresses = t.Settings.Host, t.Settings.Addresses
	b.Compressor = encoded.NewCompressor(c.Wanted(), b.logger)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	_, _ = rand.Read(b.Secret[:]) // crypto/rand never returns an error
	b.Variants, b.Apart = variant.New(b.Secret), variant.New(b.Secret)
	if t.Sleeper != nil {
		b.Keeper.KeepClients(clients{b.Variants})
		b.Variants.OnAgree(b.Keeper.Renew)
	}
	b.Feeds = feed.NewGroup(endpointURL, &b.transport, c, b.Admission.LoseSessions, &t.Settings.Feed, t.Logger)
	return b, nil
}

// apply puts the newest ref's handler and settings to use, but keeps every kind
// that any ref caches, compresses if any of them does, and takes as much memory
// as the largest of them. After the last ref its handler stays in use until the
// feeds have ended, for their last requests. The caller holds b.mu.
func (b *Backend) apply() {
	if len(b.refs) == 0 {
		return
	}
	newest := b.refs[len(b.refs)-1]
	policy := newest.Settings.Feed
	policy.Leases = leases{b.Keeper, b.Fleet}
	memory, precompress := int64(0), false
	for _, t := range b.refs {
		policy.Kinds |= t.Settings.Kinds
		memory = max(memory, t.Settings.Memory)
		precompress = precompress || t.Settings.Precompress
	}
	b.transport.Use(newest.Upstream)
	b.Keeper.Use(newest.Store, newest.Secrets, newest.Settings.Feed.MaxList, newest.Logger)
	b.Fleet.Use(newest.Store, newest.Logger)
	b.Fleet.UseSecrets(fleet.Secrets(newest.Secrets))
	b.Cache.SetMemory(memory)
	b.Messages.SetLimit(memory)
	b.Cache.SetPrecompress(precompress)
	b.Cache.SetAsleep(nil)
	if policy.Sleeper != nil {
		b.Cache.SetAsleep(policy.Sleeper.Asleep)
	}
	b.Feeds.Set(&policy, newest.Logger)
}

// Run starts the feeds, after the stored snapshots have been loaded. All calls but
// the first do nothing.
func (b *Backend) Run() {
	b.started.Do(func() {
		b.begun.Store(true)
		b.running.Go(func() {
			defer b.recover()
			b.Compressor.Run(b.ctx)
		})
		b.running.Go(func() {
			defer b.recover()
			b.Fleet.Run(b.ctx)
		})
		b.running.Go(func() {
			defer b.recover()
			b.load()
			b.Fleet.Begin(b.ctx)
			b.Feeds.Run()
			b.Keeper.Run(b.ctx)
		})
	})
}

// load loads the stored snapshots, and admits whom the upstream had let in before a restart.
func (b *Backend) load() {
	defer close(b.stored)
	b.Keeper.Load(b.ctx)
	b.admitStored()
}

// A request waits at most loadPatience, counted from its arrival, while Caddy loads lists or secrets.
const loadPatience = time.Second

// AwaitLoaded waits until loaded is closed, or until a second after the request arrived. It reports whether
// it had to wait.
func AwaitLoaded(ctx context.Context, loaded <-chan struct{}, arrived time.Time) (waited bool) {
	select {
	case <-loaded:
		return false
	default:
	}
	timer := time.NewTimer(time.Until(arrived.Add(loadPatience)))
	defer timer.Stop()
	select {
	case <-loaded:
	case <-timer.C:
	case <-ctx.Done():
	}
	return true
}

// AwaitStored waits until the stored lists have been loaded, if Run has been called: without them, a
// request would be told that there is no list. It reports whether it had to wait.
func (b *Backend) AwaitStored(ctx context.Context, arrived time.Time) (waited bool) {
	return b.begun.Load() && AwaitLoaded(ctx, b.stored, arrived)
}

// admitStored admits callers without credentials if the upstream had let them in
// before a restart, for no longer than the newest settings allow.
func (b *Backend) admitStored() {
	b.mu.Lock()
	admitFor := time.Duration(0)
	if len(b.refs) > 0 {
		admitFor = b.refs[len(b.refs)-1].Settings.AdmitFor
	}
	b.mu.Unlock()
	latest := time.Now().Add(admitFor)
	for _, r := range revision.All() {
		until := b.Keeper.AdmittedUntil(r)
		if until.After(latest) {
			until = latest
		}
		if until.After(time.Now()) && b.Admission.Context(cache.Anonymous, r) == nil {
			b.Admission.AdmitContext(cache.Anonymous, r, 0, b.Admission.Ticket(), until)
		}
	}
}

// recover keeps a panic in the background from ending the process.
func (b *Backend) recover() {
	if p := recover(); p != nil {
		b.logger().Error("background task panicked", zap.Any("panic", p), zap.Stack("stack"))
	}
}

// logger returns the newest ref's.
func (b *Backend) logger() *zap.Logger { return b.Keeper.Logger() }

// Context ends when the backend does.
func (b *Backend) Context() context.Context { return b.ctx }

// Ended is closed when everything has ended that Destruct ends.
func (b *Backend) Ended() <-chan struct{} { return b.ended }

// Destruct implements [github.com/caddyserver/caddy/v2.Destructor]. It waits
// for nothing: see [Backend.Ended].
func (b *Backend) Destruct() error {
	go b.endFeeds()
	return nil
}

// endFeeds ends the feeds. Their last snapshots are saved while their sessions are being
// closed.
func (b *Backend) endFeeds() {
	defer close(b.ended)
	defer b.recover()
	b.Feeds.Stop()
	b.cancel()
	b.running.Wait()
	b.Feeds.AwaitClosed()
	b.transport.Use(nil)
	b.Cache.Close()
}

// Slash knows whether the server redirects its endpoint to the same path with a slash more,
// or less, and the server's own addresses.
func (b *Backend) Slash() *redirect.Slash { return &b.transport.Slash }

// Hanging reports whether the upstream is taken not to answer, so that nobody should
// wait to find out.
func (b *Backend) Hanging(now time.Time) bool { return b.hanging.Load() >= now.UnixNano() }

// SetHanging has the upstream taken not to answer until then.
func (b *Backend) SetHanging(until time.Time) { b.hanging.Store(until.UnixNano()) }
