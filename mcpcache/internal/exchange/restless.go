package exchange

import (
	"hash/maphash"
	"net"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
)

// restless finds the request headers that keep requests from ever being hits: their
// value is new in each request, which gives each request an authorization context
// of its own that the upstream has not let in yet. It looks at forwarded requests
// only, and keeps hashes, never values.
//
// A header is found when one client has sent newValues new values of it in a row,
// and was let in by the upstream each time but never came back with the same one.
// All methods may be called from several goroutines at once.
type restless struct {
	seed maphash.Seed

	mu sync.Mutex
	// trails are found by their key. One that is being added to is not displaced,
	// so that some are completed however many clients there are.
	trails [numTrails]trail
	found  map[string]bool // at most maxFound
}

// trail is what one client has sent in one header lately.
type trail struct {
	key      uint64 // a hash of header and client; 0 if there is none
	last     time.Time
	n        int
	values   [newValues]uint64 // hashes
	contexts [newValues]cache.Partition
}

const (
	// newValues is how many new values in a row it takes.
	newValues = 8
	// numTrails bounds how many trails are kept.
	numTrails = 256
	// cold is how long after its last request a trail may be displaced.
	cold = time.Minute
	// maxFound bounds how many headers are named, because clients can make
	// them up.
	maxFound = 16
	// maxHeaderName is how much of a header's name is logged.
	maxHeaderName = 64
)

func newRestless() *restless {
	return &restless{seed: maphash.MakeSeed(), found: make(map[string]bool)}
}

// blame returns [bypassHeader] instead of [bypassAdmission] if a header with ever
// new values is why the upstream has not let this caller in. The first time, that
// is logged.
func (x *exchange) blame(reason bypass) bypass {
	if reason != bypassAdmission && reason != understood {
		return reason
	}
	x.noteHost()
	if x.context.IsAnonymous() || x.caller() != nil {
		return reason
	}
	blamed := false
	for name, values := range x.r.Header {
		// New credentials are new callers, but a DPoP proof is new in each request.
		if x.backend.Identity.Harmless.Has(name) || identity.IsCredential(name) && name != "Dpop" {
			continue
		}
		found, first := x.endpoint.restless.watch(x, name, values)
		blamed = blamed || found
		if first {
			x.logRestless(name)
		}
	}
	if blamed && reason == bypassAdmission {
		return bypassHeader
	}
	return reason
}

func (x *exchange) logRestless(name string) {
	name = name[:min(len(name), maxHeaderName)]
	if identity.IsCredential(name) {
		x.endpoint.Logger.Warn("lists are not answered from the cache: a credential has a new value in each request",
			zap.String("header", name))
		return
	}
	x.endpoint.Logger.Warn("lists are not answered from the cache: a request header has a new value in each request; "+
		"if it does not tell callers apart, name it in the option harmless", zap.String("header", name))
}

// watch notes the values of a header in a request whose caller is not known. It
// reports whether the header is known to be restless, and whether that is new.
func (s *restless) watch(x *exchange, name string, values []string) (found, first bool) {
	key, value := s.hash(append(clientOf(x), name)), s.hash(values)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found[name] {
		return true, false
	}
	if len(s.found) == maxFound {
		return false, false
	}
	t := &s.trails[key%numTrails]
	if t.key != key {
		if t.key != 0 && x.now.Sub(t.last) < cold {
			return false, false
		}
		*t = trail{key: key}
	}
	t.last = x.now
	if !t.add(value, x.context) || !t.leadsNowhere(x) {
		return false, false
	}
	*t = trail{}
	s.found[name] = true
	return true, true
}

// add adds a value, and reports whether there are enough. A value that is not new
// starts the trail over.
func (t *trail) add(value uint64, context cache.Partition) (enough bool) {
	if t.n == newValues || slices.Contains(t.values[:t.n], value) {
		t.n = 0
	}
	t.values[t.n], t.contexts[t.n] = value, context
	t.n++
	return t.n == newValues
}

// leadsNowhere reports whether the upstream has let the client in, and it has not
// come back in any of the authorization contexts of the trail.
func (t *trail) leadsNowhere(x *exchange) bool {
	ledger := x.backend.Admission
	if x.session != "" {
		session := ledger.Session(x.session)
		return session != nil && session.Alive()
	}
	letIn := 0
	for _, context := range t.contexts[:t.n-1] {
		if c := ledger.Context(context, x.question.revision); c != nil && c.Alive() {
			if c.Returned() {
				return false
			}
			letIn++
		}
	}
	return letIn >= newValues/2
}

// clientOf returns what is the same in the requests of one client.
func clientOf(x *exchange) []string {
	address, _, _ := net.SplitHostPort(x.r.RemoteAddr)
	client := []string{address, x.session}
	for _, name := range [...]string{"User-Agent", "X-Forwarded-For", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "Fly-Client-Ip"} {
		client = append(client, name)
		client = append(client, x.r.Header[name]...)
	}
	return client
}

// hash returns a hash that is not 0.
func (s *restless) hash(texts []string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, text := range texts {
		// An error is never returned.
		_, _ = h.WriteString(text)
		_ = h.WriteByte(0)
	}
	return max(h.Sum64(), 1)
}

// noteHost logs, once, that a client was not given a list of the feed for no other
// reason than its Host.
func (x *exchange) noteHost() {
	if x.context == cache.Anonymous || !x.context.IsAnonymous() {
		return
	}
	e := x.catalog.List(x.question.revision, x.question.kind)
	if e == nil || e.Partition != cache.Anonymous {
		return
	}
	x.endpoint.notedHost.Do(func() {
		x.endpoint.Logger.Warn("lists are not shared with clients that reach the server by another Host than the feed; "+
			"name theirs in the option host", zap.String("host", x.r.Host), zap.String("feed_host", x.backend.Identity.Host))
	})
}
