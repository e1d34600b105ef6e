package mcpcache

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/keeper"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// pool holds what outlives a configuration, by what shapes it. A new
// configuration takes its references before the old one drops its own, so
// that snapshots, feeds and admissions survive a reload that keeps the
// upstream.
var pool = caddy.NewUsagePool()

// shared is everything that belongs to one upstream and not to one
// configuration.
type shared struct {
	transport upstream.Transport
	cache     *cache.Cache
	admission *admission.Memo
	variants  *variant.Table
	// languages says that the upstream has been seen to mind Accept-Language.
	languages atomic.Bool
	readOnlyLists
	// hanging is until when the upstream, which may have been started anew, is
	// known not to answer, in Unix nanoseconds.
	hanging atomic.Int64
	feeds   *feed.Group
	keeper  *keeper.Keeper
	// compressor compresses what the cache wants compressed.
	compressor *encoded.Compressor
	cors       corsMemo
	// secret keys the hashes that stand for credentials.
	secret [32]byte

	ctx     context.Context // until Destruct
	cancel  context.CancelFunc
	started sync.Once
	running sync.WaitGroup
	ended   chan struct{} // closed when all has ended that Destruct ends

	mu    sync.Mutex
	users []*user
}

// user is one handler's part in what is shared.
type user struct {
	handler  caddyhttp.MiddlewareHandler
	settings *settings
	store    stores.Store
	// instance names this instance of Caddy, if its upstream is its own.
	instance func() (string, error)
	logger   *zap.Logger
}

// acquireShared returns what belongs to the upstream that key stands for. Each
// call must be followed by a releaseShared.
func acquireShared(key, endpointURL string, u *user) (*shared, error) {
	value, _, err := pool.LoadOrNew(key, func() (caddy.Destructor, error) {
		return newShared(key, endpointURL, u)
	})
	if err != nil {
		return nil, err
	}
	return value.(*shared), nil
}

func newShared(key, endpointURL string, u *user) (*shared, error) {
	c, err := cache.New(u.settings.memory)
	if err != nil {
		return nil, err
	}
	s := &shared{
		cache: c, admission: admission.New(admission.DefaultCapacity), keeper: keeper.New(key, u.instance, c),
		ended: make(chan struct{}),
	}
	s.transport.Host = u.settings.host
	s.compressor = encoded.NewCompressor(c, s.logger)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	_, _ = rand.Read(s.secret[:]) // crypto/rand never returns an error
	s.variants = variant.New(s.secret)
	s.feeds = feed.NewGroup(endpointURL, &s.transport, c, s.admission.LoseSessions, &u.settings.feed, u.logger)
	return s, nil
}

// attach makes u's handler and settings the ones in use. They stay so until
// another user attaches, or until detach takes them away again.
func (s *shared) attach(u *user) (detach func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users = append(s.users, u)
	s.apply()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.users = slices.DeleteFunc(s.users, func(other *user) bool { return other == u })
		s.apply()
	}
}

// apply puts the newest user's part to use. A feed keeps every kind that any
// of them wants, lists are compressed if any of them wants that, and the memory
// is what the one wants that wants the most. The last handler stays in use
// until the feeds have ended, to say farewell through.
func (s *shared) apply() {
	if len(s.users) == 0 {
		return
	}
	newest := s.users[len(s.users)-1]
	policy := newest.settings.feed
	memory, precompress := int64(0), false
	for _, u := range s.users {
		policy.Kinds |= u.settings.kinds
		memory = max(memory, u.settings.memory)
		precompress = precompress || u.settings.precompress
	}
	s.transport.Use(newest.handler)
	s.keeper.Use(newest.store, newest.settings.feed.MaxList, newest.logger)
	s.cache.SetMemory(memory)
	s.cache.SetPrecompress(precompress)
	s.feeds.Set(&policy, newest.logger)
}

// run starts the feeds, after what they can have from before a restart. It
// starts them once, whichever configuration comes first.
func (s *shared) run() {
	s.started.Do(func() {
		s.running.Go(func() {
			defer s.recover()
			s.compressor.Run(s.ctx)
		})
		s.running.Go(func() {
			defer s.recover()
			s.keeper.Load(s.ctx)
			s.admitStored()
			s.feeds.Run()
			s.keeper.Run(s.ctx)
		})
	})
}

// admitStored lets in callers without credentials whom the upstream had let in
// before a restart, for no longer than the newest settings allow.
func (s *shared) admitStored() {
	s.mu.Lock()
	admitFor := time.Duration(0)
	if len(s.users) > 0 {
		admitFor = s.users[len(s.users)-1].settings.admitFor
	}
	s.mu.Unlock()
	latest := time.Now().Add(admitFor)
	for _, r := range revision.All() {
		until := s.keeper.AdmittedUntil(r)
		if until.After(latest) {
			until = latest
		}
		if until.After(time.Now()) && s.admission.Context(cache.Anonymous, r) == nil {
			s.admission.AdmitContext(cache.Anonymous, r, s.admission.Ticket(), until)
		}
	}
}

// recover keeps a panic in the background from ending the process.
func (s *shared) recover() {
	if p := recover(); p != nil {
		s.logger().Error("background task panicked", zap.Any("panic", p), zap.Stack("stack"))
	}
}

// logger returns the newest handler's.
func (s *shared) logger() *zap.Logger {
	return s.keeper.Logger()
}

// Destruct implements [caddy.Destructor]. It waits for nothing: ended is closed
// when the end has come.
func (s *shared) Destruct() error {
	go s.end()
	return nil
}

// end ends the feeds. What they have brought last is saved while the servers
// are told that their sessions are over.
func (s *shared) end() {
	defer close(s.ended)
	defer s.recover()
	s.feeds.Stop()
	s.cancel()
	s.running.Wait()
	s.feeds.Farewell()
	s.transport.Use(nil)
	s.cache.Close()
}
