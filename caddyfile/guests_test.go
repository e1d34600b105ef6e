package caddyfile

import (
	"context"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

func init() {
	caddy.RegisterModule(impostor{})
	caddy.RegisterModule(unwritable{})
	caddy.RegisterModule(notAStore{})
}

// impostor is a guest of the guards' namespace that is no guard.
type impostor struct{}

func (impostor) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  guards.Namespace + ".impostor",
		New: func() caddy.Module { return new(impostor) },
	}
}

func (*impostor) UnmarshalCaddyfile(*caddyparse.Dispenser) error { return nil }

// unwritable is a guard that JSON cannot hold.
type unwritable struct{}

func (unwritable) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  guards.Namespace + ".unwritable",
		New: func() caddy.Module { return new(unwritable) },
	}
}

func (*unwritable) UnmarshalCaddyfile(*caddyparse.Dispenser) error { return nil }
func (*unwritable) Authorize(context.Context, *http.Request) error { return nil }
func (*unwritable) Identity() string                               { return "" }
func (*unwritable) MarshalJSON() ([]byte, error)                   { return nil, errors.New("cannot be written") }

// notAStore is a guest of the stores' namespace that is no store.
type notAStore struct{}

func (notAStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  stores.Namespace + ".notastore",
		New: func() caddy.Module { return new(notAStore) },
	}
}

func (*notAStore) UnmarshalCaddyfile(*caddyparse.Dispenser) error { return nil }

// Interface guards
var (
	_ caddyparse.Unmarshaler = (*impostor)(nil)
	_ caddyparse.Unmarshaler = (*unwritable)(nil)
	_ guards.Guard           = (*unwritable)(nil)
)
