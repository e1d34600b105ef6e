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
	// maxCORSOrigins bounds how many origins it remembers. One more takes the place
	// of any.
	maxCORSOrigins = 256
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
	m.change(func(next map[string]PageRights) {
		if _, known := next[origin]; !known && len(next) == maxCORSOrigins {
			for other := range next {
				delete(next, other)
				break
			}
		}
		next[origin] = c
	})
}

// Forget has nothing be known of an origin.
func (m *CORS) Forget(origin string) {
	if _, known := m.Of(origin); known {
		m.change(func(next map[string]PageRights) { delete(next, origin) })
	}
}

// change puts a changed copy in the place of what is remembered.
func (m *CORS) change(change func(map[string]PageRights)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := make(map[string]PageRights)
	if known := m.origins.Load(); known != nil {
		maps.Copy(next, *known)
	}
	change(next)
	m.origins.Store(&next)
}
