package operate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// traffic is what several clients do without a pause.
type traffic struct {
	requests, failures, again atomic.Int64
	first                     atomic.Pointer[string] // the first failure

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// startTraffic lets clients of both eras list and call until the traffic is
// stopped. Everything but a whole list or a called tool is a failure.
func startTraffic(w *caddytest.World, clients int) *traffic {
	ctx, cancel := context.WithCancel(w.T.Context())
	t := &traffic{stop: cancel}
	w.T.Cleanup(func() { t.end() })
	for i := range clients {
		c := w.Client(caddytest.Revisions[i%len(caddytest.Revisions)])
		t.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				method := scripted.ListMethods()[n%4]
				a, err := t.insist(func() (*fixture.Answer, error) { return c.TryList(ctx, method) })
				t.note(ctx, method, a, err, err == nil && len(a.Items(scripted.ItemsKey(method))) == 3)
				params := c.Params(`"name":"item-0000"`)
				a, err = t.insist(func() (*fixture.Answer, error) {
					return c.Try(ctx, http.MethodPost, fixture.Message(c.NextID(), "tools/call", params),
						http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"item-0000"}})
				})
				t.note(ctx, "tools/call", a, err, err == nil && a.Part("result", "content") != nil)
			}
		})
	}
	return t
}

// insist is [fixture.Insist], and counts what it sends again.
func (t *traffic) insist(send func() (*fixture.Answer, error)) (*fixture.Answer, error) {
	return fixture.Insist(func() (*fixture.Answer, error) {
		a, err := send()
		if fixture.Cut(err) {
			t.again.Add(1)
		}
		return a, err
	})
}

func (t *traffic) note(ctx context.Context, method string, a *fixture.Answer, err error, good bool) {
	if ctx.Err() != nil {
		return // the end of the traffic has cut it short
	}
	t.requests.Add(1)
	if good {
		return
	}
	t.failures.Add(1)
	failure := fmt.Sprintf("%s: %s, %v", method, a, err)
	t.first.CompareAndSwap(nil, &failure)
}

func (t *traffic) end() {
	t.stop()
	t.wg.Wait()
}

// want fails the test if there was no traffic, or not all of it went well.
func (t *traffic) want(w *caddytest.World) {
	w.T.Helper()
	if n := t.failures.Load(); n > 0 {
		w.T.Errorf("%d of %d requests failed, the first: %s", n, t.requests.Load(), *t.first.Load())
	}
	if t.requests.Load() == 0 {
		w.T.Error("there was no traffic")
	}
	// A handler that gives up a request looks like a lost connection too.
	for _, message := range []string{"panic", "aborting"} {
		if strings.Contains(w.Proxy.Log(), message) {
			w.T.Errorf("the log has %q", message)
		}
	}
	w.T.Logf("%d requests, %d sent again", t.requests.Load(), t.again.Load())
}

// TestReloadsUnderLoad reloads an unchanged configuration while clients work:
// no request fails, snapshot and feed live on, no goroutine stays.
func TestReloadsUnderLoad(t *testing.T) {
	w := caddytest.NewWorld(t)
	for _, revision := range caddytest.Revisions {
		w.Warm(revision)
	}
	counts := func() string {
		n := ""
		for _, method := range append(scripted.ListMethods(), "initialize", "subscriptions/listen") {
			n += fmt.Sprint(method, " ", w.Host.CountFeed(method), "; ")
		}
		return n
	}
	caddytest.AwaitReady(t, "mcp_cache")
	// The calls would have the feed find out whether changes are announced at
	// all, as long as it has seen none.
	before := w.Host.CountFeed("resources/templates/list")
	for _, method := range []string{scripted.ToolsList, "prompts/list", "resources/list"} {
		w.Changed(scripted.Feeds, method)
	}
	for _, method := range scripted.ListMethods() {
		fixture.Await(t, "what both feeds fetch after a notice", func() bool { return w.Host.CountFeed(method) == before+len(caddytest.Revisions) })
	}
	caddytest.AwaitReady(t, "mcp_cache")
	fetched, feeds := counts(), w.Streams(scripted.Feeds)
	w.Proxy.Reload(caddytest.Directive(w.Host.URL))
	resting := caddytest.Census()
	load := startTraffic(w, 4)
	for range caddytest.Pick(50, 1000) {
		w.Proxy.Reload(caddytest.Directive(w.Host.URL))
	}
	if after := counts(); after != fetched {
		t.Errorf("the feed's requests were\n%s and are\n%s", fetched, after)
	}
	if n := w.Streams(scripted.Feeds); n != feeds {
		t.Errorf("the feed had %d streams and has %d", feeds, n)
	}
	load.end()
	load.want(w)
	caddytest.AwaitCensus(t, resting)
}

// TestReloadsLeaveNothing reloads at rest: under load, Caddy keeps the
// connections of former configurations for as long as they may be idle.
func TestReloadsLeaveNothing(t *testing.T) {
	w := caddytest.NewWorld(t)
	for _, revision := range caddytest.Revisions {
		w.Warm(revision)
	}
	reload := func(n int) {
		for range n {
			w.Proxy.Reload(caddytest.Directive(w.Host.URL))
		}
	}
	reload(20)
	caddytest.WantNothingLeft(t, "reloads", caddytest.Pick(100, 1000), 1<<20, reload)
}

// TestReloadToAnotherUpstream reloads with another upstream: its lists are
// served, never those of the first, whose feed ends.
func TestReloadToAnotherUpstream(t *testing.T) {
	w := caddytest.NewWorld(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		w.Proxy.Reload(caddytest.Directive(w.Host.URL))
		w.Warm(revision)
		other := caddytest.NewUpstream(t)
		other.Mark(scripted.ToolsList, "other")
		other.Host.Start()
		w.Proxy.Reload(caddytest.Directive(other.Host.URL))
		c := w.Client(revision)
		if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != "other" {
			t.Errorf("after the reload, a list gave %s", a)
		}
		caddytest.WantHit(t, c.Settle(scripted.ToolsList), scripted.ToolsList, "other")
		fixture.Await(t, "the end of the first upstream's feed", func() bool { return w.Streams(scripted.Feeds) == 0 })
	})
}

// TestInitializeOverAReload opens a session while Caddy reloads with another
// upstream, at a revision that nobody has asked for before: the configuration
// has ended when the first upstream answers.
func TestInitializeOverAReload(t *testing.T) {
	w := caddytest.NewUpstream(t)
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	hang := scripted.Hang(released)
	w.SetScript("initialize", func(x *scripted.Exchange) {
		if x.Feed {
			x.Default()
			return
		}
		hang(x)
	})
	w.Start()
	c := fixture.NewModern(t, w.Proxy.URL, "") // only to send with
	c.Revision = "2025-06-18"
	initialize := fixture.Message("1", "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	opened := make(chan error, 1)
	go func() {
		a, err := c.Try(t.Context(), http.MethodPost, initialize, nil)
		if err == nil && (a.Status != http.StatusOK || a.Header.Get("Mcp-Session-Id") == "") {
			err = errors.New(a.String())
		}
		opened <- err
	}()
	fixture.Await(t, "initialize at the upstream", func() bool { return w.Host.CountClients("initialize") == 1 })
	w.Proxy.Reload("respond gone 410")
	fixture.Await(t, "the end of the feed's session", func() bool { _, feeds := w.Sessions(); return feeds == 0 })
	release()
	if err := <-opened; err != nil {
		t.Errorf("initialize gave %v", err)
	}
	if strings.Contains(w.Proxy.Log(), "panic") {
		t.Error("the log tells of a panic")
	}
}

// TestReloadWithOtherOptions changes what is not the upstream's: the snapshot
// stays, the new options hold.
func TestReloadWithOtherOptions(t *testing.T) {
	w := caddytest.NewWorld(t)
	c := w.Warm(scripted.Modern)
	caddytest.AwaitReady(t, "mcp_cache")
	fetched := w.Host.CountFeed(scripted.ToolsList)
	w.Proxy.Reload(caddytest.Directive(w.Host.URL, "name renamed", "max_request 1KiB"))
	a := c.List(scripted.ToolsList)
	caddytest.WantHit(t, a, scripted.ToolsList, "v1")
	if s := a.CacheStatus(); s.Cache != "renamed" {
		t.Errorf("Cache-Status is %q", s.Raw)
	}
	if n := w.Host.CountFeed(scripted.ToolsList); n != fetched {
		t.Errorf("the reload cost %d lists", n-fetched)
	}
}

// TestFailedReloadChangesNothing loads configurations that are wrong, at
// adapting and at provisioning.
func TestFailedReloadChangesNothing(t *testing.T) {
	w := caddytest.NewWorld(t)
	c := w.Warm(scripted.Modern)
	for _, wrong := range []string{
		caddytest.Directive(w.Host.URL, "no_such_option 1"),
		caddytest.Directive(w.Host.URL, "guard bearer {env.MCP_CACHE_TEST_UNSET}"),
		caddytest.Directive(w.Host.URL) + "\nroute /never {\ntemplates {\nmime\n}\n}",
	} {
		if err := w.Proxy.TryReload(wrong); err == nil {
			t.Errorf("loading %q succeeded", wrong)
		}
		caddytest.WantHit(t, c.List(scripted.ToolsList), scripted.ToolsList, "v1")
	}
	if n := w.Host.CountFeed("subscriptions/listen"); n != 1 {
		t.Errorf("the feed has listened %d times", n)
	}
}

// TestStreamsEndCleanlyOnReload reloads to another upstream under open
// streams: they go on or end, and none hangs.
func TestStreamsEndCleanlyOnReload(t *testing.T) {
	w := caddytest.NewWorld(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		w.Proxy.Reload(caddytest.Directive(w.Host.URL))
		c := w.Warm(revision)
		s := c.Notices()
		own := func(i scripted.StreamInfo) bool { return !i.Feed && i.Modern == c.Modern() }
		fixture.Await(t, "the stream", func() bool { return w.Streams(own) == 1 })
		w.Proxy.Reload("respond gone 410")
		if w.Changed(own, scripted.ToolsList) == 1 {
			if e, ok := s.Next(); ok && !strings.Contains(e.Data, "list_changed") {
				t.Errorf("after the reload the stream gave %s", e.Data)
			}
		}
		w.EndStreams(own)
		s.AwaitEnd()
	})
}

// TestConfigurationMayComeTwice serves one upstream from two handlers of one
// configuration, next to each other.
func TestConfigurationMayComeTwice(t *testing.T) {
	caddytest.CheckGoroutines(t)
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	w.Proxy = caddytest.StartProxy(t, "handle /a/* {\nuri strip_prefix /a\n"+caddytest.Directive(w.Host.URL, "name a")+"\n}\nhandle {\n"+
		caddytest.Directive(w.Host.URL, "name b")+"\n}")
	prefixed := fixture.New(t, "http://"+w.Proxy.Addr+"/a/mcp", scripted.Modern, "")
	caddytest.WantHit(t, prefixed.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
	caddytest.WantHit(t, w.Client(scripted.Modern).Settle(scripted.ToolsList), scripted.ToolsList, "v1")
	if a, b := prefixed.List(scripted.ToolsList).CacheStatus().Cache, w.Client(scripted.Modern).List(scripted.ToolsList).CacheStatus().Cache; a != "a" || b != "b" {
		t.Errorf("handlers are called %q and %q", a, b)
	}
	for _, name := range []string{"a", "b"} {
		w.Proxy.Reload(caddytest.Directive(w.Host.URL, "name "+name))
		caddytest.WantHit(t, w.Client(scripted.Modern).Settle(scripted.ToolsList), scripted.ToolsList, "v1")
	}
}
