package mcpcache

import (
	"maps"
	"reflect"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exit"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/instance"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/keeper"
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
	// upstreams are the servers of this configuration.
	upstreams []*upstream
	logger    *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*app) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "mcp_cache", New: func() caddy.Module { return newApp() }}
}

func newApp() *app {
	return &app{backends: exit.NewGroup(keeper.ShutdownTimeout), instance: instance.Name}
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
	a.warnOfNamesakes()
	for _, run := range a.runs {
		run()
	}
	return nil
}

// warnOfNamesakes warns once of each name that handlers have which are not the same to
// operators: they share no cache, or show it by other rules.
func (a *app) warnOfNamesakes() {
	byName := make(map[string][]*upstream)
	for _, u := range a.upstreams {
		name := u.settings.exchange.Name
		same := func(other *upstream) bool {
			return other.backend.Feeds == u.backend.Feeds && reflect.DeepEqual(other.Rules, u.Rules)
		}
		if !slices.ContainsFunc(byName[name], same) {
			byName[name] = append(byName[name], u)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if len(byName[name]) < 2 {
			continue
		}
		urls := make([]string, len(byName[name]))
		for i, u := range byName[name] {
			urls[i] = u.urls[0]
		}
		a.logger.Warn("several handlers have one name, and differ in their server or rules: metrics, commands and Cache-Status do not tell them apart; give each its own with the option name",
			zap.String("name", name), zap.Strings("upstreams", urls))
	}
}

// Stop implements [caddy.App]. The feeds end with what they belong to, which
// may live on in the next configuration.
func (*app) Stop() error { return nil }

// Interface guards
var (
	_ caddy.App         = (*app)(nil)
	_ caddy.Provisioner = (*app)(nil)
)
