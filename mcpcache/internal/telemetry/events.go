package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"
)

// Events that other modules can subscribe to in Caddy's events app.
const (
	// eventChanged: a list has changed. Data: handler, kind, revision, items,
	// added, removed, changed (lists of names: of each the first 1000, cut to
	// 256 bytes).
	eventChanged = "mcp_cache.changed"
	// eventState: a feed has entered another state. Data: handler, era,
	// revision, from, to.
	eventState = "mcp_cache.state"
)

const (
	// maxEvents is how many events may wait for their subscribers.
	maxEvents = 64
	// maxEventNames is how many names an event has of a kind of change, and
	// maxEventName how long they are in bytes: the events app logs all of it.
	maxEventNames = 1000
	maxEventName  = 256
)

// events hands a handler's events to Caddy's events app; stop ends its goroutine.
type events struct {
	ctx    caddy.Context
	app    *caddyevents.App
	logger *zap.Logger
	// inForce reports whether all apps of the configuration have started. Before that
	// the events app is still taking its subscriptions.
	inForce func() bool

	queue   chan event
	done    chan struct{} // closed by stop
	closing sync.Once
	ended   sync.WaitGroup
}

type event struct {
	name string
	data map[string]any
}

// newEvents returns events that are delivered once inForce reports true.
func newEvents(ctx caddy.Context, app *caddyevents.App, inForce func() bool, logger *zap.Logger) *events {
	q := &events{
		ctx: ctx, app: app, logger: logger, inForce: inForce,
		queue: make(chan event, maxEvents), done: make(chan struct{}),
	}
	q.ended.Go(q.run)
	return q
}

// How often is looked whether the configuration is in force, while an event waits for
// that: less and less often, for whoever never runs it. Caddy tells nobody but
// subscribers to its event "started", and subscribing is not safe while other modules,
// such as health checks of proxies that are provisioned already, emit events.
const firstLook, longestLook = 10 * time.Millisecond, 10 * time.Second

// await waits until the configuration is in force. It reports false if it never was.
func (q *events) await() bool {
	for pause := firstLook; !q.inForce(); pause = min(2*pause, longestLook) {
		select {
		case <-time.After(pause):
		case <-q.done:
			return false
		}
	}
	return true
}

// run hands events to their subscribers, who may take their time: a feed does
// not wait for them.
func (q *events) run() {
	for begun := false; ; {
		select {
		case <-q.done:
			return
		case e := <-q.queue:
			begun = begun || q.await()
			if !begun || q.stopped() {
				return
			}
			q.deliver(e)
		}
	}
}

func (q *events) deliver(e event) {
	defer func() {
		if p := recover(); p != nil {
			q.logger.Error("event subscriber panicked", zap.String("event", e.name), zap.String("panic", fmt.Sprint(p)))
		}
	}()
	q.app.Emit(q.ctx, e.name, e.data)
}

// stop ends the delivery. An event that is being delivered is not waited for:
// its subscriber may itself be waiting for the reload that stops the delivery.
func (q *events) stop() {
	q.closing.Do(func() { close(q.done) })
}

func (q *events) stopped() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

func (q *events) emit(name string, data map[string]any) {
	if q.stopped() {
		return
	}
	select {
	case q.queue <- event{name, data}:
	default:
		q.logger.Warn("event dropped, its subscribers are too slow", zap.String("event", name))
	}
}

// eventNames cuts names that an upstream has chosen to what an event may hold.
func eventNames(names []string) []string {
	names = slices.Clone(names[:min(len(names), maxEventNames)])
	for i, name := range names {
		if len(name) > maxEventName {
			names[i] = strings.ToValidUTF8(strings.Clone(name[:maxEventName]), "")
		}
	}
	return names
}
