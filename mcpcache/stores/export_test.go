package stores

import "github.com/caddyserver/certmagic"

// NewCaddy returns a store in a storage of Caddy's.
func NewCaddy(s certmagic.Storage) *Caddy { return &Caddy{storage: s} }
