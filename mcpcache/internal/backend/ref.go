package backend

import (
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/persist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// Ref is one handler's reference to a backend, and what the handler brings along.
type Ref struct {
	// Backend is shared by the refs of a server. [Ref.Acquire] sets it.
	*Backend

	// Upstream is the handler that reaches the server.
	Upstream caddyhttp.MiddlewareHandler
	Settings *Settings
	// Placeholders are the names of the placeholders that Upstream uses.
	Placeholders []string
	// Identity tells the callers of the server apart. [Ref.Acquire] sets its
	// secret.
	Identity identity.Rules
	Store    stores.Store
	// Secrets are those with which instances seal what they share in Store.
	Secrets persist.Secrets
	// Sleeper is the server if it sleeps while nobody uses it; nil if it never does.
	Sleeper Sleeper
	// Instance names this instance of Caddy if the backend is its alone; nil if not.
	Instance func() (string, error)
	Logger   *zap.Logger

	// Key is the key in the pool; "" while nothing is acquired.
	Key string

	pool *caddy.UsagePool
	// unwatch ends the watch of the sleeper; nil if there is none.
	unwatch func()
}

// Sleeper is a server that sleeps while nobody uses it.
type Sleeper interface {
	feed.Sleeper
	// OnWake calls woken whenever a client uses the server that has slept, with the time when it
	// began to wake, until stop is called.
	OnWake(woken func(since time.Time)) (stop func())
}

// Acquire takes the backend that key stands for from the pool, or makes it. Each
// call that succeeds must be followed by a [Ref.Release]. A new configuration
// acquires before the old one releases, so that snapshots, feeds and admissions
// survive a reload that keeps the server.
func (r *Ref) Acquire(pool *caddy.UsagePool, key, endpointURL string) error {
	value, _, err := pool.LoadOrNew(key, func() (caddy.Destructor, error) {
		return New(key, endpointURL, r)
	})
	if err != nil {
		return err
	}
	r.Backend, r.pool, r.Key = value.(*Backend), pool, key
	r.Identity.Secret = r.Secret
	return nil
}

// Attach puts the ref's handler and settings to use, until another ref attaches, or until
// [Ref.Detach].
func (r *Ref) Attach() {
	b := r.Backend
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refs = append(b.refs, r)
	if r.Sleeper != nil {
		r.Settings.Feed.Sleeper = r.Sleeper
		r.unwatch = r.Sleeper.OnWake(b.Feeds.Woken)
	}
	b.apply()
}

// Detach takes the ref's handler and settings out of use.
func (r *Ref) Detach() {
	b := r.Backend
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refs = slices.DeleteFunc(b.refs, func(other *Ref) bool { return other == r })
	if r.unwatch != nil {
		r.unwatch()
	}
	b.apply()
}

// Release gives the backend back. With its last ref the backend ends: ended is
// closed when it has. Otherwise ended is nil.
func (r *Ref) Release() (ended <-chan struct{}, err error) {
	last, err := r.pool.Delete(r.Key)
	r.Key = ""
	if last {
		ended = r.Ended()
	}
	return ended, err
}
