package caddytest

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// World is a scripted upstream behind Caddy.
type World struct {
	*scripted.Server

	T     testing.TB    // what fails, and what clients end with
	Host  *fixture.Host // of the upstream: it counts requests, and dies on demand
	Proxy *Proxy        // the site in front of it; nil before Start
}

// NewWorld starts a scripted upstream of both eras, whose four lists are marked
// v1, behind mcp_cache with those options.
func NewWorld(t testing.TB, options ...string) *World {
	t.Helper()
	w := NewUpstream(t)
	w.Start(options...)
	return w
}

// NewUpstream makes the upstream of a world, still down and without Caddy.
func NewUpstream(t testing.TB) *World {
	t.Helper()
	return NewUpstreamBehind(t, func(s *scripted.Server) http.Handler { return s })
}

// NewUpstreamBehind is like [NewUpstream], with something in front of the server.
func NewUpstreamBehind(t testing.TB, front func(*scripted.Server) http.Handler) *World {
	t.Helper()
	s := scripted.New()
	w := &World{Server: s, T: t, Host: fixture.NewDownHost(t, front(s))}
	for _, method := range scripted.ListMethods() {
		w.Mark(method, "v1")
	}
	return w
}

// Start starts the upstream, and Caddy with mcp_cache and those options before it.
func (w *World) Start(options ...string) {
	w.T.Helper()
	w.Host.Start()
	w.Proxy = StartProxy(w.T, Directive(w.Host.URL, options...))
}

// On returns the world for a subtest, which then is what fails and what clients
// end with.
func (w *World) On(t testing.TB) *World {
	sub, site := *w, *w.Proxy
	site.T = t
	sub.T, sub.Proxy = t, &site
	return &sub
}

// Mark replaces a list by one of that mark.
func (w *World) Mark(method, mark string) { w.SetList(method, scripted.Items(method, mark, 3)) }

// Client returns a client of a revision that goes through Caddy.
func (w *World) Client(revision string) *fixture.Raw {
	w.T.Helper()
	return fixture.New(w.T, w.Proxy.URL, revision, "")
}

// ClientAs is like [World.Client], with that Authorization.
func (w *World) ClientAs(revision, authorization string) *fixture.Raw {
	w.T.Helper()
	return fixture.New(w.T, w.Proxy.URL, revision, authorization)
}

// Warm returns a client of a revision. It waits until all lists of the client are hits,
// and the feed has opened its stream.
func (w *World) Warm(revision string) *fixture.Raw {
	w.T.Helper()
	c := w.Client(revision)
	for _, method := range scripted.ListMethods() {
		c.Settle(method)
	}
	fixture.Await(w.T, "the feed's stream", func() bool {
		return w.Streams(func(s scripted.StreamInfo) bool { return s.Feed && s.Modern == c.Modern() }) > 0
	})
	return c
}

// Revisions are one of each era.
var Revisions = []string{scripted.Modern, scripted.LatestLegacy}

// EachEra runs a test with a client of each era.
func EachEra(t *testing.T, test func(t *testing.T, revision string)) {
	t.Helper()
	for _, revision := range Revisions {
		t.Run(revision, func(t *testing.T) { test(t, revision) })
	}
}

// EraOf returns the era of a revision: "modern" or "legacy".
func EraOf(revision string) string {
	if revision == scripted.Modern {
		return "modern"
	}
	return "legacy"
}

// OfEra chooses the streams of clients of an era.
func OfEra(c *fixture.Raw) func(scripted.StreamInfo) bool {
	return func(i scripted.StreamInfo) bool { return !i.Feed && i.Modern == c.Modern() }
}
