package backend

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// PageRights are what pages of one origin may do with an answer: the fields of the
// CORS protocol (Fetch, "HTTP responses"). A field is "" where there is none.
type PageRights struct {
	AllowOrigin, AllowCredentials, ExposeHeaders string
}

// CORS remembers what the upstream lets the pages of each origin do, so
// that an answer from the cache lets them do the same. All methods may be called
// from several goroutines at once; reading takes no lock.
type CORS struct {
	mu      sync.Mutex // serializes writers
	origins atomic.Pointer[map[string]PageRights]
}

const (
	// maxCORSOrigins bounds how many origins it remembers.
	maxCORSOrigins = 64
	// MaxPageRights is the most bytes that it remembers of a field, or of an
	// origin.
	MaxPageRights = 1 << 10
)

// Of returns what pages of an origin may do, if that is known.
func (m *CORS) Of(origin string) (PageRights, bool) {
	known := m.origins.Load()
	if known == nil {
		return PageRights{}, false
	}
	c, ok := (*known)[origin]
	return c, ok
}

// Learn takes what an answer of the upstream lets pages of an origin do.
func (m *CORS) Learn(origin string, h http.Header) {
	c := PageRights{
		AllowOrigin:      strings.Join(h["Access-Control-Allow-Origin"], ", "),
		AllowCredentials: strings.Join(h["Access-Control-Allow-Credentials"], ", "),
		ExposeHeaders:    strings.Join(h["Access-Control-Expose-Headers"], ", "),
	}
	if known, ok := m.Of(origin); ok && known == c ||
		max(len(origin), len(c.AllowOrigin), len(c.AllowCredentials), len(c.ExposeHeaders)) > MaxPageRights {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next := make(map[string]PageRights)
	if known := m.origins.Load(); known != nil && len(*known) < maxCORSOrigins {
		maps.Copy(next, *known)
	}
	next[origin] = c
	m.origins.Store(&next)
}
