package mcpcache

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// timeOption is one of the options ttl, min_ttl and max_ttl: for all kinds, and for single
// ones.
type timeOption struct {
	name    string
	all     caddy.Duration
	byKind  map[string]caddy.Duration
	byField func(*feed.Times) *time.Duration
}

// setTimes fills in how long lists are fresh. Its errors name the option, and the
// kind if it is about one.
func (h *Handler) setTimes(p *feed.Policy) error {
	p.Times = feed.Times{TTL: feed.DefaultTTL, MaxTTL: feed.DefaultMaxTTL}
	for _, option := range [...]timeOption{
		{"ttl", h.TTL, h.TTLByKind, func(t *feed.Times) *time.Duration { return &t.TTL }},
		{"min_ttl", h.MinTTL, h.MinTTLByKind, func(t *feed.Times) *time.Duration { return &t.MinTTL }},
		{"max_ttl", h.MaxTTL, h.MaxTTLByKind, func(t *feed.Times) *time.Duration { return &t.MaxTTL }},
	} {
		if err := option.set(p); err != nil {
			return err
		}
	}
	for _, k := range revision.Kinds() {
		if t := p.Of(k); t.MinTTL > t.MaxTTL {
			return fmt.Errorf("min_ttl: %s of %s is longer than their max_ttl of %s", t.MinTTL, k, t.MaxTTL)
		}
	}
	return nil
}

func (o timeOption) set(p *feed.Policy) error {
	if o.all != 0 {
		if err := checkDuration(o.name, time.Duration(o.all), 1); err != nil {
			return err
		}
		*o.byField(&p.Times) = time.Duration(o.all)
	}
	for _, name := range slices.Sorted(maps.Keys(o.byKind)) {
		k, known := revision.ParseKind(name)
		if !known {
			return fmt.Errorf("%s_by_kind: %q is not one of %s", o.name, name, strings.Join(revision.KindNames(), ", "))
		}
		value := time.Duration(o.byKind[name])
		if err := checkDuration(o.name+"_by_kind: "+name, value, 1); err != nil {
			return err
		}
		*o.byField(&p.ByKind[k]) = value
	}
	return nil
}
