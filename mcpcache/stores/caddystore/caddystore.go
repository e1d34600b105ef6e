// Package caddystore is the store "caddy". It keeps snapshots in Caddy's own storage, and knows
// nothing of what is in them.
package caddystore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/options"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

func init() {
	caddy.RegisterModule(Caddy{})
}

// Caddy keeps snapshots in Caddy's own storage, next to its certificates. What
// that is, the global `storage` option decides; by default it is a folder.
type Caddy struct {
	storage certmagic.Storage
}

// CaddyModule returns the Caddy module information.
func (Caddy) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: stores.Namespace + ".caddy", New: func() caddy.Module { return new(Caddy) }}
}

// Provision sets the store up. The storage is not touched.
func (c *Caddy) Provision(ctx caddy.Context) error {
	c.storage = ctx.Storage()
	return nil
}

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	store caddy
func (c *Caddy) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return options.None(d) }

// prefix is the part of the storage that is ours.
const prefix = "mcp_cache/"

// Load implements [stores.Store].
func (c *Caddy) Load(ctx context.Context, key string) ([]byte, error) {
	value, err := c.storage.Load(ctx, prefix+key)
	if err != nil {
		return nil, fmt.Errorf("loading from storage: %w", err)
	}
	return value, nil
}

// Save implements [stores.Store].
func (c *Caddy) Save(ctx context.Context, key string, value []byte) error {
	if err := c.storage.Store(ctx, prefix+key, value); err != nil {
		return fmt.Errorf("saving to storage: %w", err)
	}
	return nil
}

// Delete implements [stores.Store].
func (c *Caddy) Delete(ctx context.Context, key string) error {
	err := c.storage.Delete(ctx, prefix+key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting from storage: %w", err)
	}
	return nil
}

// Size implements [stores.Sizer].
func (c *Caddy) Size(ctx context.Context, key string) (int64, error) {
	info, err := c.storage.Stat(ctx, prefix+key)
	if err != nil {
		return 0, fmt.Errorf("looking at storage: %w", err)
	}
	return info.Size, nil
}

// Interface guards
var (
	_ stores.Store          = (*Caddy)(nil)
	_ stores.Sizer          = (*Caddy)(nil)
	_ stores.Sweeper        = (*Caddy)(nil)
	_ caddy.Provisioner     = (*Caddy)(nil)
	_ caddyfile.Unmarshaler = (*Caddy)(nil)
)
