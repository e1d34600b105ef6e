package mcpcache

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// cors is what pages of one origin may do with an answer: the fields of the
// CORS protocol (Fetch, "HTTP responses"). A field is "" where there is none.
type cors struct {
	allowOrigin, allowCredentials, exposeHeaders string
}

// usualExposed are the headers that a client in a browser has to be able to
// read, besides those that it always is.
const usualExposed = "Mcp-Session-Id, Mcp-Protocol-Version"

// corsMemo remembers what the upstream lets the pages of each origin do, so
// that an answer from the cache lets them do the same. All methods may be called
// from several goroutines at once; reading takes no lock.
type corsMemo struct {
	mu      sync.Mutex // serializes writers
	origins atomic.Pointer[map[string]cors]
}

const (
	// maxCORSOrigins bounds how many origins a memo remembers.
	maxCORSOrigins = 64
	// maxCORS is the most bytes that it remembers of a field, or of an origin.
	maxCORS = 1 << 10
)

// of returns what pages of an origin may do, if that is known.
func (m *corsMemo) of(origin string) (cors, bool) {
	known := m.origins.Load()
	if known == nil {
		return cors{}, false
	}
	c, ok := (*known)[origin]
	return c, ok
}

// learn takes what an answer of the upstream lets pages of an origin do.
func (m *corsMemo) learn(origin string, h http.Header) {
	c := cors{
		allowOrigin:      strings.Join(h["Access-Control-Allow-Origin"], ", "),
		allowCredentials: strings.Join(h["Access-Control-Allow-Credentials"], ", "),
		exposeHeaders:    strings.Join(h["Access-Control-Expose-Headers"], ", "),
	}
	if known, ok := m.of(origin); ok && known == c ||
		max(len(origin), len(c.allowOrigin), len(c.allowCredentials), len(c.exposeHeaders)) > maxCORS {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next := make(map[string]cors)
	if known := m.origins.Load(); known != nil && len(*known) < maxCORSOrigins {
		maps.Copy(next, *known)
	}
	next[origin] = c
	m.origins.Store(&next)
}

// allowPage lets the page that asks, if it is one, do with the answer what it
// might do with the upstream's. Before the upstream has answered one of its
// origin, a page whose origin the operator has named may read it. Where a
// handler in front of this one has decided, that is left alone.
func (x *exchange) allowPage(h http.Header) {
	origin := x.r.Header["Origin"]
	if len(origin) != 1 || h["Access-Control-Allow-Origin"] != nil {
		return
	}
	c, known := x.h.shared.cors.of(origin[0])
	if !known && x.h.settings.origins.allowed[lower(origin[0])] {
		c = cors{allowOrigin: origin[0], exposeHeaders: usualExposed}
	}
	if c.allowOrigin == "" {
		return
	}
	x.values.set(h, "Access-Control-Allow-Origin", c.allowOrigin)
	if c.allowCredentials != "" {
		x.values.set(h, "Access-Control-Allow-Credentials", c.allowCredentials)
	}
	if c.exposeHeaders != "" {
		x.values.set(h, "Access-Control-Expose-Headers", c.exposeHeaders)
	}
	if c.allowOrigin != "*" {
		x.values.vary(h, "Origin")
	}
}

// learnCORS takes what an answer of the upstream lets the page do that asked.
func (x *exchange) learnCORS(status int, h http.Header) {
	if origin := x.r.Header["Origin"]; len(origin) == 1 && status == http.StatusOK && x.r.Method == http.MethodPost {
		x.h.shared.cors.learn(origin[0], h)
	}
}
