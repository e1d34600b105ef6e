package mcpcache

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
//
// A request goes one way: it is let in or refused by where it comes from;
// understood or not; answered from the cache or forwarded. When in doubt, it is
// forwarded, and the upstream's own answer comes back.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.URL.Path != h.settings.endpoint {
		return h.pass(w, r, next)
	}
	now := time.Now()
	x := &exchange{h: h, w: w, r: r, arrived: now, now: now}
	x.begin()
	defer x.end()
	if reason := h.settings.origins.refuses(r); reason != "" {
		return h.refuse(w, reason)
	}
	if session := r.Header["Mcp-Session-Id"]; len(session) == 1 {
		x.session = session[0]
	}
	reason, err := x.understand()
	if err != nil {
		return err
	}
	if reason != understood {
		return x.forward(next, found{reason: reason}, false)
	}
	f := x.lookup()
	if f.entry == nil {
		f.reason = x.blame(f.reason)
		return x.forward(next, f, true)
	}
	if !h.shared.cache.Hold(f.entry) {
		return x.forward(next, found{}, true)
	}
	defer h.shared.cache.Release(f.entry)
	return x.answer(f)
}

// pass hands a request for another path than the endpoint to the upstream,
// untouched, unless it must not be let in.
func (h *Handler) pass(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if reason := h.settings.origins.refusesElsewhere(r); reason != "" {
		return h.refuse(w, reason)
	}
	return h.upstream.ServeHTTP(w, r, next)
}
