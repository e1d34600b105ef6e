package mcpcache

import (
	"sync"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(starter{})
}

// starter is a Caddy app that takes no configuration: it starts the feeds and
// the events of all handlers once their whole configuration has been accepted,
// so that `caddy validate` and a configuration that is rejected reach nobody. It
// also has them end together.
type starter struct {
	runs       []func()
	departures *departures
	// instance names this instance of Caddy.
	instance func() (string, error)
}

// CaddyModule returns the Caddy module information.
func (starter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "mcp_cache", New: func() caddy.Module { return newStarter() }}
}

func newStarter() *starter {
	return &starter{departures: new(departures), instance: sync.OnceValues(instanceName)}
}

// onStart has run called when the configuration starts. It is called while
// handlers are provisioned, one after the other.
func (s *starter) onStart(run func()) { s.runs = append(s.runs, run) }

// Start implements [caddy.App].
func (s *starter) Start() error {
	for _, run := range s.runs {
		run()
	}
	return nil
}

// Stop implements [caddy.App]. The feeds end with what they belong to, which
// may live on in the next configuration.
func (*starter) Stop() error { return nil }

// Interface guards
var _ caddy.App = (*starter)(nil)
