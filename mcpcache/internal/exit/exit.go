// Package exit handles the end of a configuration, and of the process. [Before] calls a function
// when the process of Caddy is about to end. A [Group] waits for the modules of a configuration
// together.
package exit

import (
	"context"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Before calls end when the process of Caddy ends: after the option shutdown_delay, in which Caddy still
// takes requests, and before Caddy waits for the requests that are open. A reload does not call it.
func Before(ctx caddy.Context, end func()) error {
	events, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("loading the events app: %w", err)
	}
	return events.(*caddyevents.App).On("stopping", &ending{ctx, end})
}

// ending waits for the end of Caddy.
type ending struct {
	ctx caddy.Context
	end func()
}

// Handle implements [caddyevents.Handler]. Caddy goes on when it returns.
func (e *ending) Handle(context.Context, caddy.Event) error {
	if !caddy.Exiting() {
		return nil
	}
	if delay := e.delay(); delay > 0 {
		time.AfterFunc(delay, e.end)
	} else {
		e.end()
	}
	return nil
}

// delay returns the option shutdown_delay.
func (e *ending) delay() time.Duration {
	app, err := e.ctx.AppIfConfigured("http")
	if err != nil {
		return 0 // no requests
	}
	return time.Duration(app.(*caddyhttp.App).ShutdownDelay)
}
