package integration

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// world is a scripted upstream behind Caddy.
type world struct {
	*scripted.Server

	t     testing.TB
	host  *fixture.Host
	proxy *proxy
}

// newWorld starts a scripted upstream of both eras, whose four lists are marked
// v1, behind mcp_cache with those options.
func newWorld(t testing.TB, options ...string) *world {
	t.Helper()
	w := newUpstream(t)
	w.start(options...)
	return w
}

// newUpstream makes the upstream of a world, still down and without Caddy.
func newUpstream(t testing.TB) *world {
	t.Helper()
	return newUpstreamBehind(t, func(s *scripted.Server) http.Handler { return s })
}

// newUpstreamBehind is like newUpstream, with something in front of the server.
func newUpstreamBehind(t testing.TB, front func(*scripted.Server) http.Handler) *world {
	t.Helper()
	s := scripted.New()
	w := &world{Server: s, t: t, host: fixture.NewDownHost(t, front(s))}
	for _, method := range scripted.ListMethods() {
		w.mark(method, "v1")
	}
	return w
}

// start starts the upstream, and Caddy with mcp_cache and those options before it.
func (w *world) start(options ...string) {
	w.t.Helper()
	w.host.Start()
	w.proxy = startProxy(w.t, mcpCache(w.host.URL, options...))
}

// on returns the world for a subtest, which then is what fails and what clients
// end with.
func (w *world) on(t testing.TB) *world {
	sub, site := *w, *w.proxy
	site.t = t
	sub.t, sub.proxy = t, &site
	return &sub
}

// mark replaces a list by one of that mark.
func (w *world) mark(method, mark string) { w.SetList(method, scripted.Items(method, mark, 3)) }

// client returns a client of a revision that goes through Caddy.
func (w *world) client(revision string) *fixture.Raw {
	w.t.Helper()
	return fixture.New(w.t, w.proxy.URL, revision, "")
}

// clientAs is like client, with that Authorization.
func (w *world) clientAs(revision, authorization string) *fixture.Raw {
	w.t.Helper()
	return fixture.New(w.t, w.proxy.URL, revision, authorization)
}

// warm returns a client of a revision for whom all lists are hits, after the
// feed has opened its stream.
func (w *world) warm(revision string) *fixture.Raw {
	w.t.Helper()
	c := w.client(revision)
	for _, method := range scripted.ListMethods() {
		c.Settle(method)
	}
	fixture.Await(w.t, "the feed's stream", func() bool {
		return w.Streams(func(s scripted.StreamInfo) bool { return s.Feed && s.Modern == c.Modern() }) > 0
	})
	return c
}

// revisions are one of each era.
var revisions = []string{scripted.Modern, scripted.LatestLegacy}

// eachEra runs a test with a client of each era.
func eachEra(t *testing.T, test func(t *testing.T, revision string)) {
	t.Helper()
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) { test(t, revision) })
	}
}

// markOf returns the mark of a list, "" if it is empty or none.
func markOf(a *fixture.Answer, method string) string {
	items := a.Items(scripted.ItemsKey(method))
	if len(items) == 0 {
		return ""
	}
	var item struct{ Description string }
	if json.Unmarshal([]byte(items[0]), &item) != nil {
		return ""
	}
	return item.Description
}

// isHit reports whether a list came from the cache, whole and with that mark.
func isHit(a *fixture.Answer, method, mark string) bool {
	return a.Status == http.StatusOK && a.CacheStatus().Hit && markOf(a, method) == mark
}

// wantHit fails unless a list came from the cache with that mark.
func wantHit(t testing.TB, a *fixture.Answer, method, mark string) {
	t.Helper()
	if !isHit(a, method, mark) {
		t.Errorf("want a hit of %s with mark %s, got %s", method, mark, a)
	}
}

// wantForwarded fails if an answer came from the cache.
func wantForwarded(t testing.TB, a *fixture.Answer) {
	t.Helper()
	if s := a.CacheStatus(); s.Hit || s.Forward == "" {
		t.Errorf("want a forwarded answer, got %s", a)
	}
}

// wantEnded fails unless lists of a client's session are refused as those of a
// session that the upstream does not have.
func wantEnded(t testing.TB, c *fixture.Raw) {
	t.Helper()
	for range 2 {
		a := c.List(scripted.ToolsList)
		wantForwarded(t, a)
		if a.Status != http.StatusNotFound {
			t.Errorf("a list of the ended session gave %s", a)
		}
	}
}
