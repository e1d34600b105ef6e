package mcpcache

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

func init() {
	caddy.RegisterModule(modelStore{})
}

// modelStore keeps snapshots in a world's memory. Now and then it fails.
type modelStore struct {
	World string `json:"world"`

	w *world
}

// CaddyModule returns the Caddy module information.
func (modelStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: stores.Namespace + ".model", New: func() caddy.Module { return new(modelStore) }}
}

// Provision finds the world.
func (s *modelStore) Provision(caddy.Context) (err error) {
	s.w, err = worldNamed(s.World)
	return err
}

// Load implements [stores.Store].
func (s *modelStore) Load(_ context.Context, key string) ([]byte, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	value, ok := s.w.stored[key]
	switch {
	case !ok:
		return nil, fmt.Errorf("loading %s: %w", key, fs.ErrNotExist)
	case s.fails("load", key):
		return nil, errModel
	}
	return bytes.Clone(value), nil
}

// Save implements [stores.Store].
func (s *modelStore) Save(_ context.Context, key string, value []byte) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.fails("save", key) {
		return errModel
	}
	s.w.stored[key] = bytes.Clone(value)
	return nil
}

// Delete implements [stores.Store].
func (s *modelStore) Delete(_ context.Context, key string) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.fails("delete", key) {
		return errModel
	}
	delete(s.w.stored, key)
	return nil
}

// fails reports whether the store does not work this time.
func (s *modelStore) fails(what, key string) bool {
	fails := s.w.draw(8, what, key, s.w.known.next()) == 0
	switch {
	case fails:
		s.w.unsaved[key] = true
	case what != "load":
		delete(s.w.unsaved, key)
	}
	return fails
}
