package backend

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/keeper"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// observer has the keeper save what feeds bring, and tells the tenant's own
// observer, if there is one.
type observer struct {
	keeper *keeper.Keeper
	next   feed.Observer
}

// Refreshed implements [feed.Observer].
func (o observer) Refreshed(r revision.Revision, k revision.Kind, took time.Duration, same bool, err error) {
	if err == nil {
		o.keeper.Refreshed(r, k, same)
	}
	if o.next != nil {
		o.next.Refreshed(r, k, took, same, err)
	}
}

// Changed implements [feed.Observer].
func (o observer) Changed(c feed.Change) {
	if o.next != nil {
		o.next.Changed(c)
	}
}

// StateChanged implements [feed.Observer].
func (o observer) StateChanged(from feed.State, now feed.Status) {
	if o.next != nil {
		o.next.StateChanged(from, now)
	}
}

// Noticed implements [feed.Observer].
func (o observer) Noticed(kinds revision.KindSet) {
	if o.next != nil {
		o.next.Noticed(kinds)
	}
}

// Interface guards
var _ feed.Observer = observer{}
