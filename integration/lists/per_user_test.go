package lists

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// newPerUser runs the example in front of an upstream that lets nobody in
// without credentials and has a list of tools for each user and language. Its
// mark ends with the version.
func newPerUser(t *testing.T) (w *caddytest.World, version *atomic.Value) {
	w, version = caddytest.NewUpstream(t), new(atomic.Value)
	version.Store("v1")
	w.SetHints(`"ttlMs":3600000`)
	w.SetDoor(func(r *http.Request) int {
		if r.Header.Get("Authorization") == "" {
			return http.StatusUnauthorized
		}
		return 0
	})
	w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		w.SetPrivateList(x.Auth, scripted.ToolsList, scripted.Items(scripted.ToolsList, markFor(x.Auth, x.R.Header.Get("Accept-Language"), version), 3))
		x.Default()
	})
	w.Host.Start()
	w.StartExample(t, "per-user")
	fixture.Await(t, "the feeds", func() bool { return w.Streams(scripted.Feeds) == len(caddytest.Revisions) })
	return w, version
}

func markFor(user, language string, version *atomic.Value) string {
	return user + ", " + language + ", " + version.Load().(string)
}

// TestExamplePerUser lists as two users in two languages: everybody gets their
// own list from the cache, a new one after a change that only the feed was
// told of, and nobody gets one without credentials.
func TestExamplePerUser(t *testing.T) {
	w, version := newPerUser(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		type caller struct {
			*fixture.Raw
			user, language string
		}
		var callers []caller
		for _, user := range []string{"Bearer alice", "Bearer bob"} {
			for _, language := range []string{"de", "fr"} {
				c := fixture.NewWith(t, w.Proxy.URL, revision, user, http.Header{"Accept-Language": {language}})
				callers = append(callers, caller{c, user, language})
			}
		}
		for range 2 {
			for _, c := range callers {
				want := markFor(c.user, c.language, version)
				if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != want {
					t.Errorf("%s got %s", want, a)
				}
			}
		}
		for _, c := range callers {
			caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, markFor(c.user, c.language, version))
		}
		version.Store(revision)
		w.Changed(scripted.Feeds, scripted.ToolsList)
		for _, c := range callers {
			want := markFor(c.user, c.language, version)
			c.AwaitList(scripted.ToolsList, "the new list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, want) })
		}
	})
	a := fixture.NewModern(t, w.Proxy.URL, "").List(scripted.ToolsList)
	caddytest.WantForwarded(t, a)
	if a.Status != http.StatusUnauthorized {
		t.Errorf("without credentials: %s", a)
	}
}
