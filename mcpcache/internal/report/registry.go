package report

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Live is the registry of handlers that are in force: what the admin API,
// the commands and the gauges look at. Admin routers outlive rejected
// configurations, so nothing of a configuration may be kept there.
var Live Registry

// Registry knows the sources of live handlers. Its zero value is empty and ready
// for use, by several goroutines at once.
type Registry struct {
	mu      sync.RWMutex
	sources map[string][]Source // by name, the newest last
}

// Add registers a source under its name.
func (r *Registry) Add(s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sources == nil {
		r.sources = make(map[string][]Source)
	}
	name := s.Name()
	r.sources[name] = append(r.sources[name], s)
}

// Remove takes a source out. If none of its name is left, forget is called with
// the name, before another can be added or anything is counted for it.
func (r *Registry) Remove(s Source, forget func(name string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := s.Name()
	left := slices.DeleteFunc(r.sources[name], func(other Source) bool { return other == s })
	if len(left) > 0 {
		r.sources[name] = left
		return
	}
	delete(r.sources, name)
	forget(name)
}

// WhileLive calls count, unless the last handler of that name has gone: to
// count for it then would bring back the series that went with it.
func (r *Registry) WhileLive(name string, count func()) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.sources[name]) > 0 {
		count()
	}
}

// Names returns the names in use, sorted.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := make([]string, 0, len(r.sources))
	for name := range r.sources {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Named returns the sources of that name, one for each upstream: during a
// reload the old and the new one share theirs.
func (r *Registry) Named(name string) []Source {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var found []Source
	for _, s := range slices.Backward(r.sources[name]) {
		if !slices.ContainsFunc(found, func(other Source) bool { return other.Feeds() == s.Feeds() }) {
			found = append(found, s)
		}
	}
	slices.Reverse(found)
	return found
}

// Find returns the only source of that name. Its errors are of the type *[Error].
func (r *Registry) Find(name string) (Source, error) {
	sources := r.Named(name)
	switch len(sources) {
	case 0:
		return nil, trouble(NotFound, "no handler is called %q; there are: %s", name, strings.Join(r.Names(), ", "))
	case 1:
		return sources[0], nil
	}
	return nil, trouble(Ambiguous, "%d handlers are called %q, in front of %s: give them different names, with the option name",
		len(sources), name, strings.Join(upstreamsOf(sources), " and "))
}

func upstreamsOf(sources []Source) []string {
	urls := make([]string, len(sources))
	for i, s := range sources {
		urls[i] = s.Upstream()
	}
	return urls
}

// Statuses tells how all handlers are, by their names.
func (r *Registry) Statuses(now time.Time) []Status {
	statuses := []Status{}
	for _, name := range r.Names() {
		for _, s := range r.Named(name) {
			statuses = append(statuses, Describe(s, now))
		}
	}
	return statuses
}
