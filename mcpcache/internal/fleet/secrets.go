package fleet

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

// Secrets returns the secrets with which an instance seals sessions, cursors and shared lists, once
// they are there. The first seals, and each opens.
type Secrets func(context.Context) (secret.Ring, error)

// introductions is what is known of the secrets of members, by marks of those: a mark says nothing
// of its secret. An instance tells the others its own whenever there is a new member.
type introductions struct {
	met chan struct{} // a member is new, or the secrets may be

	mu      sync.Mutex
	secrets Secrets
	own     []string            // nil: not known yet
	said    map[string][]string // of other members, by their names
	warned  map[string]bool
}

// UseSecrets makes these the secrets from now on; nil: there are none.
func (m *Member) UseSecrets(s Secrets) {
	m.known.mu.Lock()
	m.known.secrets = s
	m.known.mu.Unlock()
	flight.Signal(m.known.met)
}

// markSize is how many bytes of a key are the mark of a secret, longestMark how long that is as text.
const (
	markSize    = 8
	longestMark = 2 * markSize
)

// marks returns those of secrets, in their order.
func marks(ring secret.Ring) (all []string) {
	for _, s := range ring {
		key := s.Derive("mark for other instances")
		all = append(all, hex.EncodeToString(key[:markSize]))
	}
	return all
}

// introduce tells the others the marks of the secrets whenever there is a new member, until ctx ends.
func (m *Member) introduce(ctx context.Context) {
	for {
		select {
		case <-m.known.met:
		case <-ctx.Done():
			return
		}
		m.known.mu.Lock()
		secrets := m.known.secrets
		m.known.mu.Unlock()
		if _, members := m.membership.last(); secrets == nil || len(members) < 2 {
			continue
		}
		ring, err := secrets(ctx)
		if err != nil {
			continue // as long as they are not there, others cannot know what is sealed
		}
		m.known.mu.Lock()
		m.known.own = marks(ring)
		m.known.mu.Unlock()
		m.publishNews(news{marks: marks(ring)})
	}
}

// receiveSecrets records the marks of another member's secrets. A message without marks is about
// something else.
func (m *Member) receiveSecrets(member string, marks []string) {
	if len(marks) == 0 {
		return
	}
	if !isName(member) || !areMarks(marks) {
		m.ignores("marks of secrets that none has")
		return
	}
	_, members := m.membership.last()
	m.known.mu.Lock()
	defer m.known.mu.Unlock()
	if len(m.known.said) >= maxMembers {
		maps.DeleteFunc(m.known.said, func(name string, _ []string) bool { return !slices.Contains(members, name) })
	}
	if len(m.known.said) < maxMembers {
		m.known.said[strings.Clone(member)] = marks // the name is a part of all that was announced
	}
}

// forget forgets what members have said that are none any more.
func (m *Member) forget(gone []string) {
	m.known.mu.Lock()
	defer m.known.mu.Unlock()
	for _, name := range gone {
		delete(m.known.said, name)
		delete(m.known.warned, name)
	}
}

// strangers returns those of these members that cannot open what this instance seals, or the other
// way round, in the same order.
func (m *Member) strangers(members []string) (strangers []string) {
	m.known.mu.Lock()
	defer m.known.mu.Unlock()
	own := m.known.own
	for _, name := range members {
		said := m.known.said[name]
		if len(own) > 0 && len(said) > 0 && (!slices.Contains(own, said[0]) || !slices.Contains(said, own[0])) {
			strangers = append(strangers, name)
		}
	}
	return strangers
}

// warnOfStrangers logs each member that is a stranger, once, and one at a time.
func (m *Member) warnOfStrangers() {
	for _, name := range m.Status().Strangers {
		m.known.mu.Lock()
		warned := m.known.warned[name]
		m.known.warned[name] = true
		m.known.mu.Unlock()
		if warned {
			continue
		}
		m.mu.Lock()
		m.logger.Warn("another instance has other secrets: sessions, cursors and stored lists of one are unknown to the other; give all the same secret_file, or one storage of Caddy",
			zap.String("name", m.name), zap.String("other", name))
		m.mu.Unlock()
		return
	}
}
