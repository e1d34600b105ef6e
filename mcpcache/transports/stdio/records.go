package stdio

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/instance"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/caddystore"
)

// records keeps what a program has said of itself in Caddy's storage. Each instance of Caddy has its
// own: another one may run another version of the program.
type records struct {
	store   caddystore.Caddy
	program string // its key
}

// key returns the key in the storage.
func (r *records) key() (string, error) {
	name, err := instance.Name()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x/program", sha256.Sum256([]byte(r.program+" "+name))), nil
}

// Load implements [program.Store].
func (r *records) Load(ctx context.Context) ([]byte, error) {
	key, err := r.key()
	if err != nil {
		return nil, err
	}
	return r.store.Load(ctx, key)
}

// Save implements [program.Store].
func (r *records) Save(ctx context.Context, content []byte) error {
	key, err := r.key()
	if err != nil {
		return err
	}
	return r.store.Save(ctx, key, content)
}
