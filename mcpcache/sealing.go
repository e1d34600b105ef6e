package mcpcache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cursor"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// MostPageSize is the largest value of the option page_size, in items.
const MostPageSize = 1_000_000

// sealing has what seals one sort of text that callers keep for us: with secrets from a
// file, or from Caddy's storage.
type sealing[S any] struct {
	what    string // is sealed
	with    func(secret.Ring) S
	file    *secretfile.File[S] // nil: the storage has the secrets
	own     secret.Secret       // of this process
	stored  atomic.Pointer[S]
	settled chan struct{} // closed once the secrets are there that others have, too
	tried   chan struct{} // closed then, or once the first attempt to get them has failed or taken too long
	logger  *zap.Logger
}

// newSealing returns what seals with the secrets in a file; "" for those of the storage.
func newSealing[S any](what, path string, with func(secret.Ring) S, logger *zap.Logger) (*sealing[S], error) {
	s := &sealing[S]{what: what, with: with, settled: make(chan struct{}), tried: make(chan struct{}), logger: logger}
	if path == "" {
		return s, nil
	}
	s.file = &secretfile.File[S]{Path: path, What: "secret file", Log: logger, Parse: func(content []byte) (none S, err error) {
		ring, err := secret.Parse(content)
		if err != nil {
			return none, err
		}
		return with(ring), nil
	}}
	if _, err := s.file.Reload(); err != nil {
		return nil, fmt.Errorf("secret_file: %w", err)
	}
	close(s.settled)
	close(s.tried)
	return s, nil
}

// newCursors returns what seals the handler's cursors, or nil if there are none.
func (h *Handler) newCursors() (*sealing[*cursor.Sealer], error) {
	switch {
	case h.PageSize < 0 || h.PageSize > MostPageSize:
		return nil, fmt.Errorf("page_size: %d is not a whole number from 0, for one page, to %d", h.PageSize, MostPageSize)
	case h.PageSize == 0:
		return nil, nil
	}
	return newSealing("cursors", h.SecretFile, cursor.NewSealer, h.logger)
}

// newSharing returns what has the secrets of snapshots that instances share, or nil if the
// store is this instance's own.
func (h *Handler) newSharing(inToolkit bool) (*sealing[secret.Ring], error) {
	if _, shared := h.store.(stores.Shared); shared {
		return newSealing("shared lists", h.SecretFile, func(ring secret.Ring) secret.Ring { return ring }, h.logger)
	}
	if h.SecretFile != "" && h.PageSize == 0 && !inToolkit {
		return nil, errors.New("secret_file: it seals the cursors of pages, and lists in a store that instances share: set page_size or such a store, or leave it out")
	}
	return nil, nil
}

// use has a secret of this process seal as long as there are none from the storage. What it
// has sealed is opened afterwards, too.
func (s *sealing[S]) use(own secret.Secret) {
	s.own = own
	s.store(secret.Ring{own})
}

func (s *sealing[S]) store(ring secret.Ring) {
	sealer := s.with(ring)
	s.stored.Store(&sealer)
}

// await returns what seals once the secrets are there that others have, too.
func (s *sealing[S]) await(ctx context.Context) (none S, err error) {
	select {
	case <-s.settled:
		return s.sealer(), nil
	case <-ctx.Done():
		return none, fmt.Errorf("waiting for the secrets of %s: %w", s.what, ctx.Err())
	}
}

// sealer returns what seals and opens now.
func (s *sealing[S]) sealer() S {
	if s.file == nil {
		return *s.stored.Load()
	}
	sealer, _ := s.file.Get() // it has been read once
	return sealer
}

const (
	// tryFor is how long one attempt to get secrets from a storage may take. The lock of an
	// instance that was killed while it made them is free after a few seconds.
	tryFor = 30 * time.Second
	// Requests wait for the first attempt until requestsWait after it has begun.
	requestsWait = 5 * time.Second
	// firstRetry and lastRetry are the pauses after a first failed attempt and after many.
	firstRetry, lastRetry = time.Second, time.Minute
)

// start has the secrets loaded from a storage, if they are not in a file, or made there. It
// is tried until ctx ends.
func (s *sealing[S]) start(ctx context.Context, storage secret.Storage) {
	if s.file == nil {
		go s.load(ctx, storage)
	}
}

func (s *sealing[S]) load(ctx context.Context, storage secret.Storage) {
	tried := sync.OnceFunc(func() { close(s.tried) })
	defer tried()
	defer time.AfterFunc(requestsWait, tried).Stop()
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		ring, err := storedSecrets(ctx, storage)
		if err == nil {
			if s.own != (secret.Secret{}) {
				ring = append(ring, s.own)
			}
			s.store(ring)
			close(s.settled)
			if retry > firstRetry {
				s.logger.Info("the secrets of " + s.what + " are there")
			}
			return
		}
		tried()
		if ctx.Err() == nil && retry == firstRetry {
			s.logger.Warn("getting the secrets of "+s.what+" from storage fails, and is tried again: until then, they are of use to this process alone", zap.Error(err))
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
