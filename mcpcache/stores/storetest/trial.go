package storetest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// Trial is a [stores.Store] that keeps values in memory, remembers what it was
// asked for, and fails or hangs on demand.
type Trial struct {
	mu     sync.Mutex
	values map[string][]byte
	saved  map[string]time.Time
	at     map[string]time.Time // of values that are as of a time
	leases map[string]*lease    // of each key the last
	places map[string]*place
	asked  []string // "save KEY" and so on
	// trouble is called first of all, without a lock.
	trouble func(ctx context.Context, operation, key string) error
}

// NewTrial returns an empty store.
func NewTrial() *Trial {
	return &Trial{
		values: make(map[string][]byte), saved: make(map[string]time.Time),
		at: make(map[string]time.Time), leases: make(map[string]*lease), places: make(map[string]*place),
	}
}

func (s *Trial) ask(ctx context.Context, operation, key string) error {
	s.mu.Lock()
	s.asked = append(s.asked, operation+" "+key)
	trouble := s.trouble
	s.mu.Unlock()
	if trouble != nil {
		return trouble(ctx, operation, key)
	}
	return nil
}

// Load implements [stores.Store].
func (s *Trial) Load(ctx context.Context, key string) ([]byte, error) {
	if err := s.ask(ctx, "load", key); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[key]
	if !ok {
		return nil, fmt.Errorf("loading %s: %w", key, fs.ErrNotExist)
	}
	return bytes.Clone(value), nil
}

// Save implements [stores.Store].
func (s *Trial) Save(ctx context.Context, key string, value []byte) error {
	if err := s.ask(ctx, "save", key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key], s.saved[key] = bytes.Clone(value), time.Now()
	delete(s.at, key)
	return nil
}

// Delete implements [stores.Store].
func (s *Trial) Delete(ctx context.Context, key string) error {
	if err := s.ask(ctx, "delete", key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, key)
	delete(s.at, key)
	return nil
}

// Size implements [stores.Sizer].
func (s *Trial) Size(ctx context.Context, key string) (int64, error) {
	if err := s.ask(ctx, "size", key); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[key]
	if !ok {
		return 0, fmt.Errorf("looking at %s: %w", key, fs.ErrNotExist)
	}
	return int64(len(value)), nil
}

// Sweep implements [stores.Sweeper].
func (s *Trial) Sweep(ctx context.Context, since time.Time) error {
	if err := s.ask(ctx, "sweep", ""); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, saved := range s.saved {
		if !saved.After(since) {
			delete(s.values, key)
		}
	}
	return nil
}

// SetTrouble makes what is asked for from now on go wrong; nil ends that.
func (s *Trial) SetTrouble(trouble func(ctx context.Context, operation, key string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = trouble
}

// Take returns the operations since the last call that change something.
func (s *Trial) Take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := slices.DeleteFunc(s.asked, func(a string) bool {
		return !strings.HasPrefix(a, "save ") && !strings.HasPrefix(a, "delete ")
	})
	s.asked = nil
	slices.Sort(asked)
	return asked
}

// Count returns how often it was asked for something since Take.
func (s *Trial) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// Len returns how many values there are.
func (s *Trial) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.values)
}

// Set makes a value what nobody has saved.
func (s *Trial) Set(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = value
}

// Get returns a value, or nil.
func (s *Trial) Get(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key]
}

// Interface guards
var (
	_ stores.Store   = (*Trial)(nil)
	_ stores.Sizer   = (*Trial)(nil)
	_ stores.Sweeper = (*Trial)(nil)
)
