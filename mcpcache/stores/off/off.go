// Package off is the store "off". It keeps nothing.
package off

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/options"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

func init() {
	caddy.RegisterModule(Off{})
}

// Off keeps nothing: after a restart, lists come from the upstream only.
type Off struct{}

// CaddyModule returns the Caddy module information.
func (Off) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: stores.Namespace + ".off", New: func() caddy.Module { return new(Off) }}
}

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	store off
func (*Off) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return options.None(d) }

// Load implements [stores.Store].
func (*Off) Load(_ context.Context, key string) ([]byte, error) {
	return nil, fmt.Errorf("loading %s: %w", key, fs.ErrNotExist)
}

// Save implements [stores.Store].
func (*Off) Save(context.Context, string, []byte) error { return nil }

// Delete implements [stores.Store].
func (*Off) Delete(context.Context, string) error { return nil }

// Interface guards
var (
	_ stores.Store          = (*Off)(nil)
	_ caddyfile.Unmarshaler = (*Off)(nil)
)
