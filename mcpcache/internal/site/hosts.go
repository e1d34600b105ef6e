package site

import (
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Hosts are the hosts of the routes of a Caddy server, as the addresses of sites and host
// matchers name them.
type Hosts struct {
	once     sync.Once
	matchers []caddyhttp.MatchHost
}

// Name reports whether host is one of the hosts of the server at which a request has arrived. It
// looks for them at the first request, as the server is not known while Caddy provisions a
// handler.
func (s *Hosts) Name(r *http.Request, host string) bool {
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

// find adds the hosts that routes name, and the routes inside them. It leaves out the hosts that a
// not matcher names.
func (s *Hosts) find(routes caddyhttp.RouteList) {
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
