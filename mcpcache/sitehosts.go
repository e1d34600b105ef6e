package mcpcache

import (
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
)

// IsOrigin reports whether the option origins can have a value.
func IsOrigin(value string) bool { return origin.IsOrigin(value) }

// siteHosts are the Hosts that the routes of a server are for, as the addresses of sites and host
// matchers name them.
type siteHosts struct {
	once     sync.Once
	matchers []caddyhttp.MatchHost
}

// name reports whether a host is one of those of the server at which a request has arrived. They
// are looked for at the first request: while a handler is provisioned, its server is not known.
func (s *siteHosts) name(r *http.Request, host string) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return false
	}
	s.once.Do(func() { s.find(server.Routes) })
	at := r.WithContext(r.Context()) // a copy
	at.Host = host
	for _, m := range s.matchers {
		// An error is never returned.
		if named, _ := m.MatchWithError(at); named {
			return true
		}
	}
	return false
}

// find adds the hosts that routes name, and the routes in them. What a not matcher names is not
// among them.
func (s *siteHosts) find(routes caddyhttp.RouteList) {
	for _, route := range routes {
		for _, set := range route.MatcherSets {
			for _, matcher := range set {
				if hosts, ok := matcher.(*caddyhttp.MatchHost); ok {
					s.matchers = append(s.matchers, *hosts)
				}
			}
		}
		for _, handler := range route.Handlers {
			if inner, ok := handler.(*caddyhttp.Subroute); ok {
				s.find(inner.Routes)
			}
		}
	}
}
