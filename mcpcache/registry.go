package mcpcache

import (
	"slices"
	"sync"
)

// live is the registry of handlers that are in force: what the admin API,
// the commands and the gauges look at. Admin routers outlive rejected
// configurations, so nothing of a configuration may be kept there.
var live = registry{handlers: make(map[string][]*Handler)}

type registry struct {
	mu       sync.RWMutex
	handlers map[string][]*Handler // by name, the newest last
}

// add registers a handler under its name.
func (r *registry) add(h *Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := h.settings.name
	r.handlers[name] = append(r.handlers[name], h)
}

// remove takes a handler out. With the last one of a name go its metrics.
func (r *registry) remove(h *Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := h.settings.name
	left := slices.DeleteFunc(r.handlers[name], func(other *Handler) bool { return other == h })
	if len(left) > 0 {
		r.handlers[name] = left
		return
	}
	delete(r.handlers, name)
	collectors.forget(name)
}

// whileLive calls count, unless the last handler of that name has gone: to
// count for it then would bring back the series that went with it.
func (r *registry) whileLive(name string, count func()) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.handlers[name]) > 0 {
		count()
	}
}

// names returns the names in use, sorted.
func (r *registry) names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := make([]string, 0, len(r.handlers))
	for name := range r.handlers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// named returns the handlers of that name, one for each upstream: during a
// reload the old and the new one share theirs.
func (r *registry) named(name string) []*Handler {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var found []*Handler
	for _, h := range slices.Backward(r.handlers[name]) {
		if !slices.ContainsFunc(found, func(other *Handler) bool { return other.shared == h.shared }) {
			found = append(found, h)
		}
	}
	slices.Reverse(found)
	return found
}
