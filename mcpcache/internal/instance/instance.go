// Package instance names this instance of Caddy.
package instance

import (
	"fmt"
	"sync"

	"github.com/caddyserver/caddy/v2"
)

var mu sync.Mutex

// Name returns Caddy's own name of this instance, which it keeps in its data directory, wherever its
// storage is. Asked for the first time by two at once, Caddy would make two.
func Name() (string, error) {
	mu.Lock()
	defer mu.Unlock()
	id, err := caddy.InstanceID()
	if err != nil {
		return "", fmt.Errorf("finding the name of this instance: %w", err)
	}
	return id.String(), nil
}
