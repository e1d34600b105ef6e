package backend

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// Tenant is one handler's part in a backend.
type Tenant struct {
	// Backend is what the tenants of a server share. [Tenant.Acquire] sets it.
	*Backend

	// Upstream is the handler that reaches the server.
	Upstream caddyhttp.MiddlewareHandler
	Settings *Settings
	// Placeholders are the names of the placeholders that Upstream uses.
	Placeholders []string
	// Identity tells the callers of the server apart. [Tenant.Acquire] sets its
	// secret.
	Identity identity.Rules
	Store    stores.Store
	// Instance names this instance of Caddy if the backend is its alone; nil if not.
	Instance func() (string, error)
	Logger   *zap.Logger

	// Key is the key in the pool; "" while nothing is acquired.
	Key string

	pool *caddy.UsagePool
}

// Acquire takes the backend that key stands for from the pool, or makes it. Each
// call that succeeds must be followed by a [Tenant.Release]. A new configuration
// acquires before the old one releases, so that snapshots, feeds and admissions
// survive a reload that keeps the server.
func (t *Tenant) Acquire(pool *caddy.UsagePool, key, endpointURL string) error {
	value, _, err := pool.LoadOrNew(key, func() (caddy.Destructor, error) {
		return New(key, endpointURL, t)
	})
	if err != nil {
		return err
	}
	t.Backend, t.pool, t.Key = value.(*Backend), pool, key
	t.Identity.Secret = t.Secret
	return nil
}

// Attach makes the tenant's handler and settings the ones in use. They stay so
// until another tenant attaches, or until Detach takes them away again.
func (t *Tenant) Attach() {
	b := t.Backend
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenants = append(b.tenants, t)
	b.apply()
}

// Detach takes the tenant's handler and settings out of use.
func (t *Tenant) Detach() {
	b := t.Backend
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenants = slices.DeleteFunc(b.tenants, func(other *Tenant) bool { return other == t })
	b.apply()
}

// Release gives the backend back. With its last tenant the backend ends: ended is
// closed when it has. Otherwise ended is nil.
func (t *Tenant) Release() (ended <-chan struct{}, err error) {
	last, err := t.pool.Delete(t.Key)
	t.Key = ""
	if last {
		ended = t.Ended()
	}
	return ended, err
}
