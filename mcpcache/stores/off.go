package stores

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func init() {
	caddy.RegisterModule(Off{})
}

// Off keeps nothing: after a restart, lists come from the upstream only.
type Off struct{}

// CaddyModule returns the Caddy module information.
func (Off) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".off", New: func() caddy.Module { return new(Off) }}
}

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	store off
func (*Off) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return noOptions(d) }

// Load implements [Store].
func (*Off) Load(_ context.Context, key string) ([]byte, error) {
	return nil, fmt.Errorf("loading %s: %w", key, fs.ErrNotExist)
}

// Save implements [Store].
func (*Off) Save(context.Context, string, []byte) error { return nil }

// Delete implements [Store].
func (*Off) Delete(context.Context, string) error { return nil }

// Interface guards
var (
	_ Store                 = (*Off)(nil)
	_ caddyfile.Unmarshaler = (*Off)(nil)
)
