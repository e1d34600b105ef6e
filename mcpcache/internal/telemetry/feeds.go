package telemetry

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// What became of a fetch, as a metric label.
const (
	resultChanged   = "changed"
	resultUnchanged = "unchanged"
	resultFailed    = "failed"
)

// refreshResults are all of them.
var refreshResults = [...]string{resultChanged, resultUnchanged, resultFailed}

// feeds turns what a handler's feeds do into metrics, spans and events.
type feeds struct{ t *Telemetry }

// Refreshed implements [feed.Observer].
func (o feeds) Refreshed(r revision.Revision, k revision.Kind, took time.Duration, same bool, err error) {
	result := resultChanged
	switch {
	case err != nil:
		result = resultFailed
	case same:
		result = resultUnchanged
	}
	countRefresh(o.t.name, k, result, took)
	o.t.spans.refreshed(o.t.name, r, k, result, took, err)
}

// Changed implements [feed.Observer].
func (o feeds) Changed(c feed.Change) {
	o.t.events.emit(eventChanged, map[string]any{
		"handler": o.t.name, "kind": c.Kind.String(), "revision": c.Revision.String(), "items": c.Items,
		"added": eventNames(c.Added), "removed": eventNames(c.Removed), "changed": eventNames(c.Changed),
	})
}

// StateChanged implements [feed.Observer].
func (o feeds) StateChanged(from feed.State, now feed.Status) {
	o.t.events.emit(eventState, map[string]any{
		"handler": o.t.name, "era": now.Revision.Era().String(), "revision": now.Revision.String(),
		"from": string(from), "to": string(now.State),
	})
}

// Noticed implements [feed.Observer].
func (o feeds) Noticed(kinds revision.KindSet) { countChanges(o.t.name, kinds, sourceFeed) }

// Interface guards
var _ feed.Observer = feeds{}
