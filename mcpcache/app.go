package mcpcache

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exit"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/instance"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/persist"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/reported"
)

func init() {
	caddy.RegisterModule(new(app))
}

// app is a Caddy app without options. It starts the feeds of all handlers once their
// whole configuration has been accepted, so that `caddy validate` and a configuration
// that is rejected send nothing. It also ends them together.
type app struct {
	runs     []func()
	backends *exit.Group // ends the backends of the handlers together
	// instance names this instance of Caddy.
	instance func() (string, error)
	// servers are those of this configuration.
	servers []*reported.Server
	logger  *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*app) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "mcp_cache", New: func() caddy.Module { return newApp() }}
}

func newApp() *app {
	return &app{backends: exit.NewGroup(persist.ShutdownTimeout), instance: instance.Name}
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
	reported.WarnOfNamesakes(a.servers, a.logger)
	for _, run := range a.runs {
		run()
	}
	return nil
}

// eventsApp returns Caddy's app for events.
func eventsApp(ctx caddy.Context) (*caddyevents.App, error) {
	loaded, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("loading the events app: %w", err)
	}
	return loaded.(*caddyevents.App), nil
}

// Stop implements [caddy.App]. The feeds end with what they belong to, which
// may live on in the next configuration.
func (*app) Stop() error { return nil }

// Interface guards
var (
	_ caddy.App         = (*app)(nil)
	_ caddy.Provisioner = (*app)(nil)
)
