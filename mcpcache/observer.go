package mcpcache

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
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

// What became of a fetch, as a metric label.
const (
	resultChanged   = "changed"
	resultUnchanged = "unchanged"
	resultFailed    = "failed"
)

// refreshResults are all of them.
var refreshResults = [...]string{resultChanged, resultUnchanged, resultFailed}

// observer turns what feeds do into metrics and events. It belongs to one
// handler; stop ends its goroutine.
type observer struct {
	name   string
	ctx    caddy.Context
	app    *caddyevents.App
	logger *zap.Logger
	spans  spans

	queue   chan event
	started chan struct{} // closed when the configuration is in force
	done    chan struct{} // closed by stop
	opening sync.Once
	closing sync.Once
	ended   sync.WaitGroup
}

type event struct {
	name string
	data map[string]any
}

// newObserver returns an observer whose events are delivered once the
// configuration that is being provisioned is in force: until then, the events
// app is still taking subscriptions. Feeds that live on may be at work already.
func newObserver(ctx caddy.Context, app *caddyevents.App, name string, logger *zap.Logger) *observer {
	o := &observer{
		name: name, ctx: ctx, app: app, logger: logger,
		queue: make(chan event, maxEvents), started: make(chan struct{}), done: make(chan struct{}),
	}
	o.ended.Go(o.run)
	return o
}

// open has events delivered: the configuration is in force.
func (o *observer) open() { o.opening.Do(func() { close(o.started) }) }

// run hands events to their subscribers, who may take their time: a feed does
// not wait for them.
func (o *observer) run() {
	select {
	case <-o.started:
	case <-o.done:
		return
	}
	for {
		select {
		case <-o.done:
			return
		case e := <-o.queue:
			if o.stopped() {
				return
			}
			o.deliver(e)
		}
	}
}

func (o *observer) deliver(e event) {
	defer func() {
		if p := recover(); p != nil {
			o.logger.Error("event subscriber panicked", zap.String("event", e.name), zap.String("panic", fmt.Sprint(p)))
		}
	}()
	o.app.Emit(o.ctx, e.name, e.data)
}

// stop ends the observer. An event that is being delivered is not waited for:
// its subscriber may itself be waiting for the reload that stops the observer.
func (o *observer) stop() {
	o.closing.Do(func() { close(o.done) })
}

func (o *observer) stopped() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

func (o *observer) emit(name string, data map[string]any) {
	if o.stopped() {
		return
	}
	select {
	case o.queue <- event{name, data}:
	default:
		o.logger.Warn("event dropped, its subscribers are too slow", zap.String("event", name))
	}
}

// Refreshed implements [feed.Observer].
func (o *observer) Refreshed(r revision.Revision, k revision.Kind, took time.Duration, same bool, err error) {
	result := resultChanged
	switch {
	case err != nil:
		result = resultFailed
	case same:
		result = resultUnchanged
	}
	countRefresh(o.name, k, result, took)
	o.spans.refreshed(o.name, r, k, result, took, err)
}

// Changed implements [feed.Observer].
func (o *observer) Changed(c feed.Change) {
	o.emit(eventChanged, map[string]any{
		"handler": o.name, "kind": c.Kind.String(), "revision": c.Revision.String(), "items": c.Items,
		"added": eventNames(c.Added), "removed": eventNames(c.Removed), "changed": eventNames(c.Changed),
	})
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

// StateChanged implements [feed.Observer].
func (o *observer) StateChanged(from feed.State, now feed.Status) {
	o.emit(eventState, map[string]any{
		"handler": o.name, "era": now.Revision.Era().String(), "revision": now.Revision.String(),
		"from": string(from), "to": string(now.State),
	})
}

// Noticed implements [feed.Observer].
func (o *observer) Noticed(kinds revision.KindSet) { countChanges(o.name, kinds, sourceFeed) }

// Interface guards
var _ feed.Observer = (*observer)(nil)
