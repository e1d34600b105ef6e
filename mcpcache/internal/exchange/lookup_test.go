package exchange

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache/cachetest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestSessionWithAListOfItsOwn tells a session of a change. Whether that was its
// own, the feed's fetches around the notice say: fresh or as a copy for bad
// times, the session is not given a list that lacks it.
func TestSessionWithAListOfItsOwn(t *testing.T) {
	const legacy = revision.V20251125
	for name, c := range map[string]struct {
		method string     // of the stream on which the session is told
		after  [][]string // what the feed is given afterwards
		own    bool
	}{
		"nothing changed":           {http.MethodGet, [][]string{{"a"}}, true},
		"the list changed":          {http.MethodGet, [][]string{{"b"}}, false},
		"it changed later":          {http.MethodGet, [][]string{{"a"}, {"b"}}, true},
		"it went and came back":     {http.MethodGet, [][]string{{"b"}, {"a"}}, true},
		"told in an answer":         {http.MethodPost, [][]string{{"b"}}, true},
		"answered, nothing changed": {http.MethodPost, [][]string{{"a"}}, true},
	} {
		for _, state := range []string{"fresh", "expired", "outdated"} {
			t.Run(name+", "+state, func(t *testing.T) {
				age := time.Second
				if state == "expired" {
					age = 2 * time.Minute
				}
				f := newFace(t, config{Gate: duration(0)})
				f.session(t, "s", legacy)
				f.pinned(t, legacy, cache.Public, time.Minute, 0, "a")
				f.upstreamIs(answering(http.StatusOK, "text/event-stream", noticeOf("tools/list_changed")))
				stream := legacyRequest(legacy, "s", "tools/call")
				stream.Method = c.method
				f.serve(t, stream)
				for _, items := range c.after {
					f.pinned(t, legacy, cache.Public, time.Minute, age, items...)
				}
				if state == "outdated" { // by a notice that this session did not get
					f.backend.Cache.Bump(revision.SetOf(revision.Tools))
				}
				f.upstreamIs(failsWith(http.StatusServiceUnavailable))
				w := f.serve(t, legacyRequest(legacy, "s", "tools/list"))
				if given := w.Code == http.StatusOK; given == c.own {
					t.Errorf("got %d, %q", w.Code, w.Header().Get("Cache-Status"))
				}
			})
		}
	}
}

// TestFallbackOfResources lets the upstream fail after an update of one
// resource: who was told of it gets the failure for that one, and copies of the
// others.
func TestFallbackOfResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := func(uri string) *http.Request {
			return withName(modernRequest("resources/read", fmt.Sprintf(`"uri":%q`, uri)), uri)
		}
		f := newFace(t, config{Gate: duration(0)})
		f.letIn(t, "Bearer a")
		uris := map[string]int{"test://a": http.StatusServiceUnavailable, "test://b": http.StatusOK}
		for uri := range uris {
			f.as(t, "Bearer a", read(uri), resultOf(`"contents":[],"ttlMs":60000`))
		}
		f.as(t, "Bearer a", modernRequest("subscriptions/listen", ""),
			answering(http.StatusOK, "text/event-stream", updateOf("test://a")))
		time.Sleep(2 * time.Minute) // both have expired
		for uri, want := range uris {
			if w := f.as(t, "Bearer a", read(uri), failsWith(http.StatusServiceUnavailable)); w.Code != want {
				t.Errorf("%s gave %d, want %d", uri, w.Code, want)
			}
		}
	})
}

// TestFallbackAfterARestart has an upstream fail that has announced a change
// before a restart: whoever asks now may have been told of it.
func TestFallbackAfterARestart(t *testing.T) {
	for name, c := range map[string]struct {
		mark   cache.Mark
		notice bool // stale_if_error … after_notice
		want   int
	}{
		"nothing announced":       {cache.Start(), false, http.StatusOK},
		"announced":               {cache.Mark{}, false, http.StatusServiceUnavailable},
		"announced, after_notice": {cache.Mark{}, true, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0), Admit: "all", StaleAfterNotice: c.notice})
			e := cachetest.Tools(t, 3)
			e.Mark, e.Lifetime, e.Fetched = c.mark, time.Nanosecond, time.Now().Add(-time.Minute)
			f.backend.Cache.Restore(e)
			f.upstreamIs(failsWith(http.StatusServiceUnavailable))
			w := f.serve(t, modernRequest("tools/list", ""))
			if w.Code != c.want {
				t.Errorf("got %d, %q", w.Code, w.Header().Get("Cache-Status"))
			}
		})
	}
}
