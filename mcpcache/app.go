package mcpcache

import (
	"sync"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(app{})
}

// app is a Caddy app without options. It starts the feeds of all handlers once their
// whole configuration has been accepted, so that `caddy validate` and a configuration
// that is rejected send nothing. It also ends them together.
type app struct {
	runs     []func()
	shutdown *shutdown
	// instance names this instance of Caddy.
	instance func() (string, error)
}

// CaddyModule returns the Caddy module information.
func (app) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "mcp_cache", New: func() caddy.Module { return newApp() }}
}

func newApp() *app {
	return &app{shutdown: new(shutdown), instance: sync.OnceValues(instanceName)}
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
	for _, run := range a.runs {
		run()
	}
	return nil
}

// Stop implements [caddy.App]. The feeds end with what they belong to, which
// may live on in the next configuration.
func (*app) Stop() error { return nil }

// Interface guards
var _ caddy.App = (*app)(nil)
