package caddystore

import "github.com/caddyserver/certmagic"

// New returns a store in a storage of Caddy's.
func New(s certmagic.Storage) *Caddy { return &Caddy{storage: s} }
