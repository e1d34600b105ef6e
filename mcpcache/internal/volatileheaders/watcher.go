// Package volatileheaders finds the request headers that keep requests from ever being hits. Such
// a header has a new value in each request. So each request has an authorization context of its
// own, which the upstream has not let in yet. The package keeps hashes, never values. It knows
// nothing of what a request asks for.
package volatileheaders

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

const (
	// NewValues is how many new values in a row it takes.
	NewValues = 8
	// MaxFound bounds how many headers are found, because clients can make them up.
	MaxFound = 16
	// NumTrails bounds how many clients' headers are watched at a time.
	NumTrails = 256
	// cold is how long after its last request a trail may be displaced.
	cold = time.Minute
)

// Watcher watches request headers. Its methods may be called from several goroutines at once.
//
// A header is found when one client has sent [NewValues] new values of it in a row, and was let
// in by the upstream each time but never came back with the same one.
type Watcher struct {
	seed maphash.Seed

	mu sync.Mutex
	// trails are found by their key. One that is being added to is not displaced,
	// so that some are completed however many clients there are.
	trails [NumTrails]trail
	found  map[string]bool // at most MaxFound
}

// trail is what one client has sent in one header lately.
type trail struct {
	key      uint64 // a hash of header and client; 0 if there is none
	last     time.Time
	n        int
	values   [NewValues]uint64 // hashes
	contexts [NewValues]cache.Partition
}

// Sent is a header in a forwarded request whose caller is not known.
type Sent struct {
	// Client is what is the same in the requests of one client.
	Client []string
	Name   string
	Values []string
	// Context is the caller's authorization context.
	Context cache.Partition
	At      time.Time
}

// New returns a watcher that knows nothing yet.
func New() *Watcher {
	return &Watcher{seed: maphash.MakeSeed(), found: make(map[string]bool)}
}

// Watch notes a header, and reports whether its values keep changing. leadsNowhere reports
// whether the upstream has let the client in, and it has not come back in any of the
// authorization contexts of its last requests.
func (h *Watcher) Watch(s Sent, leadsNowhere func([]cache.Partition) bool) bool {
	key, value := h.hash(append(s.Client, s.Name)), h.hash(s.Values)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.found[s.Name] {
		return true
	}
	if len(h.found) == MaxFound {
		return false
	}
	t := &h.trails[key%NumTrails]
	if t.key != key {
		if t.key != 0 && s.At.Sub(t.last) < cold {
			return false
		}
		*t = trail{key: key}
	}
	t.last = s.At
	if !t.add(value, s.Context) || !leadsNowhere(t.contexts[:]) {
		return false
	}
	*t = trail{}
	h.found[s.Name] = true
	return true
}

// add adds a value, and reports whether there are enough. A value that is not new
// starts the trail over.
func (t *trail) add(value uint64, context cache.Partition) (enough bool) {
	if t.n == NewValues || slices.Contains(t.values[:t.n], value) {
		t.n = 0
	}
	t.values[t.n], t.contexts[t.n] = value, context
	t.n++
	return t.n == NewValues
}

// hash returns a hash that is not 0.
func (h *Watcher) hash(texts []string) uint64 {
	var sum maphash.Hash
	sum.SetSeed(h.seed)
	for _, text := range texts {
		// An error is never returned.
		_, _ = sum.WriteString(text)
		_ = sum.WriteByte(0)
	}
	return max(sum.Sum64(), 1)
}
