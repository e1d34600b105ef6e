package mcpcache

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cursor"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
)

// MostPageSize is the largest value of the option page_size, in items.
const MostPageSize = 1_000_000

// cursors has what seals the cursors of a handler's pages: with secrets from a file, or
// from Caddy's storage.
type cursors struct {
	file   *secretfile.File[*cursor.Sealer] // nil: the storage has the secrets
	own    secret.Secret                    // of this process
	stored atomic.Pointer[cursor.Sealer]
	logger *zap.Logger
}

// newCursors returns what seals the handler's cursors, or nil if there are none.
func (h *Handler) newCursors() (*cursors, error) {
	switch {
	case h.PageSize < 0 || h.PageSize > MostPageSize:
		return nil, fmt.Errorf("page_size: %d is not a whole number from 0, for one page, to %d", h.PageSize, MostPageSize)
	case h.PageSize == 0 && h.SecretFile != "":
		return nil, errors.New("secret_file: it seals the cursors of pages, and lists have one: set page_size, or leave it out")
	case h.PageSize == 0:
		return nil, nil
	}
	c := &cursors{logger: h.logger}
	if h.SecretFile == "" {
		return c, nil
	}
	c.file = &secretfile.File[*cursor.Sealer]{Path: h.SecretFile, What: "secret file", Log: h.logger, Parse: func(content []byte) (*cursor.Sealer, error) {
		ring, err := secret.Parse(content)
		if err != nil {
			return nil, err
		}
		return cursor.NewSealer(ring), nil
	}}
	if _, err := c.file.Reload(); err != nil {
		return nil, fmt.Errorf("secret_file: %w", err)
	}
	return c, nil
}

// use has a secret of this process seal as long as there are none from the storage. What it
// has sealed is opened afterwards, too.
func (c *cursors) use(own secret.Secret) {
	c.own = own
	c.stored.Store(cursor.NewSealer(secret.Ring{own}))
}

// sealer returns what seals and opens now.
func (c *cursors) sealer() *cursor.Sealer {
	if c.file == nil {
		return c.stored.Load()
	}
	s, _ := c.file.Get() // it has been read once
	return s
}

const (
	// tryFor is how long one attempt to get secrets from a storage may take. The lock of an
	// instance that was killed while it made them is free after a few seconds.
	tryFor = 30 * time.Second
	// firstRetry and lastRetry are the pauses after a first failed attempt and after many.
	firstRetry, lastRetry = time.Second, time.Minute
)

// start has the secrets loaded from a storage, if they are not in a file, or made there. It
// is tried until ctx ends.
func (c *cursors) start(ctx context.Context, storage secret.Storage) {
	if c.file == nil {
		go c.load(ctx, storage)
	}
}

func (c *cursors) load(ctx context.Context, storage secret.Storage) {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		ring, err := storedSecrets(ctx, storage)
		if err == nil {
			c.stored.Store(cursor.NewSealer(append(ring, c.own)))
			if retry > firstRetry {
				c.logger.Info("the secrets of cursors are there")
			}
			return
		}
		if ctx.Err() == nil && retry == firstRetry {
			c.logger.Warn("getting the secrets of cursors from storage fails, and is tried again: until then, cursors are of use to this process alone", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}

// storedSecrets is [secret.Stored] for a storage that may hang or panic.
func storedSecrets(ctx context.Context, storage secret.Storage) (ring secret.Ring, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panicking: %v", p)
		}
	}()
	return secret.Stored(ctx, storage)
}
