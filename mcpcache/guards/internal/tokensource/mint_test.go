package tokensource

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// mint is a fetch function that counts and can be told to fail.
type mint struct {
	mu    sync.Mutex
	life  time.Duration // 0: no end
	delay time.Duration
	err   error
	count int
	ends  map[string]time.Time
}

func (m *mint) fetch(ctx context.Context) (Token, error) {
	m.mu.Lock()
	m.count++
	n, err, life := m.count, m.err, m.life
	m.mu.Unlock()
	select {
	case <-time.After(m.delay):
	case <-ctx.Done():
		return Token{}, ctx.Err()
	}
	if err != nil {
		return Token{}, err
	}
	got := Token{Value: fmt.Sprintf("token-%d", n)}
	if life != 0 {
		got.Expires = time.Now().Add(life)
		m.mu.Lock()
		if m.ends == nil {
			m.ends = make(map[string]time.Time)
		}
		m.ends[got.Value] = got.Expires
		m.mu.Unlock()
	}
	return got, nil
}

func (m *mint) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *mint) end(token string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ends[token]
}

func (m *mint) fetches() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// newSource makes a source that ends with its bubble, and its log.
func newSource(t *testing.T, m *mint) (*Source, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.DebugLevel)
	s := New(m.fetch, zap.New(core))
	t.Cleanup(s.Close)
	return s, logs
}

func wantToken(t *testing.T, s *Source, want string) {
	t.Helper()
	if got, err := s.Get(t.Context()); err != nil || got != want {
		t.Fatalf("Get() = %q, %v; want %q", got, err, want)
	}
}

func is(token string) func(string) bool {
	return func(other string) bool { return other == token }
}
