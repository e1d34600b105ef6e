package mcpcache

import (
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

func init() {
	caddy.RegisterModule(new(app))
}

// app is a Caddy app without options. It starts the feeds of all handlers once their
// whole configuration has been accepted, so that `caddy validate` and a configuration
// that is rejected send nothing. It also ends them together.
type app struct {
	runs     []func()
	shutdown *shutdown
	// instance names this instance of Caddy.
	instance func() (string, error)
	// handlers are those of this configuration.
	handlers report.Registry
	logger   *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*app) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "mcp_cache", New: func() caddy.Module { return newApp() }}
}

func newApp() *app {
	return &app{shutdown: new(shutdown), instance: sync.OnceValues(instanceName)}
}

// Provision implements [caddy.Provisioner].
func (a *app) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	return nil
}

// onStart has run called when the configuration starts. It is called while
// handlers are provisioned, one after the other.
func (a *app) onStart(run func()) { a.runs = append(a.runs, run) }

// inForce reports whether the app's configuration is the one in use: Caddy makes it
// that when all of its apps have started.
func (a *app) inForce() bool {
	active, err := caddy.ActiveContext().AppIfConfigured("mcp_cache")
	return err == nil && active == any(a)
}

// Start implements [caddy.App].
func (a *app) Start() error {
	for _, name := range a.handlers.Names() {
		if same := a.handlers.Named(name); len(same) > 1 {
			a.logger.Warn("several handlers have one name, and share no cache: metrics, commands and Cache-Status do not tell them apart; give each its own with the option name",
				zap.String("name", name), zap.Strings("upstreams", report.Upstreams(same)))
		}
	}
	for _, run := range a.runs {
		run()
	}
	return nil
}

// Stop implements [caddy.App]. The feeds end with what they belong to, which
// may live on in the next configuration.
func (*app) Stop() error { return nil }

// Interface guards
var (
	_ caddy.App         = (*app)(nil)
	_ caddy.Provisioner = (*app)(nil)
)
