package seal

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
)

// Source loads the secrets for one kind of text, and makes a sealer of them. The secrets come from
// a file, or from Caddy's storage.
type Source[S any] struct {
	what    string // is sealed, in messages
	with    func(secret.Ring) S
	file    *secretfile.File[S] // nil if the storage has the secrets
	own     secret.Secret       // of this process
	stored  atomic.Pointer[S]
	settled chan struct{}
	tried   chan struct{}
	logger  *zap.Logger
}

// NewSource returns a source of the secrets in the file at path, or of those in the storage if path
// is "". The texts are called what in messages, such as "cursors", and with makes the sealer. An
// error names the mistake in the file.
func NewSource[S any](what, path string, with func(secret.Ring) S, logger *zap.Logger) (*Source[S], error) {
	s := &Source[S]{what: what, with: with, settled: make(chan struct{}), tried: make(chan struct{}), logger: logger}
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

// Use seals with a secret of this process until the secrets from the storage are there. The
// sealer opens what that secret has sealed afterwards, too.
func (s *Source[S]) Use(own secret.Secret) {
	s.own = own
	s.store(secret.Ring{own})
}

func (s *Source[S]) store(ring secret.Ring) {
	sealer := s.with(ring)
	s.stored.Store(&sealer)
}

// Settled returns a channel that is closed once the secrets are there that others have, too.
func (s *Source[S]) Settled() <-chan struct{} { return s.settled }

// Tried returns a channel that is closed when Settled is, or once the first attempt to get the
// secrets has failed or taken 5 seconds.
func (s *Source[S]) Tried() <-chan struct{} { return s.tried }

// Await returns the sealer once the secrets are there that others have, too. It returns an error
// if ctx ends before that.
func (s *Source[S]) Await(ctx context.Context) (none S, err error) {
	select {
	case <-s.settled:
		return s.Sealer(), nil
	case <-ctx.Done():
		return none, fmt.Errorf("waiting for the secrets of %s: %w", s.what, ctx.Err())
	}
}

// Sealer returns the sealer of the secrets that are there now.
func (s *Source[S]) Sealer() S {
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

// Start loads the secrets from a storage, or makes them there, unless they are in a file. It
// returns at once, and goes on trying until ctx ends.
func (s *Source[S]) Start(ctx context.Context, storage secret.Storage) {
	if s.file == nil {
		go s.load(ctx, storage)
	}
}

func (s *Source[S]) load(ctx context.Context, storage secret.Storage) {
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
