package lists

import (
	"crypto/tls"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestCertificateExpiry lets the upstream's certificate expire: lists go on,
// calls fail; with a new certificate all is well.
func TestCertificateExpiry(t *testing.T) {
	authority := fixture.NewAuthority(t)
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicBrief)
	var cert atomic.Pointer[tls.Certificate]
	cert.Store(authority.Issue(time.Now().Add(time.Hour)))
	w.Host.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.Load(), nil }}
	w.Host.Start()
	w.Proxy = caddytest.StartProxy(t, caddytest.Directive("https://"+w.Host.Addr+"/mcp", "ttl 300ms", "refresh 10ms",
		"reverse_proxy {\ntransport http {\ntls_trust_pool file "+authority.File+"\n}\n}"))
	modern, legacy := w.Warm(scripted.Modern), w.Warm(scripted.LatestLegacy)
	w.Host.Kill() // connections live on with the certificate they began with
	cert.Store(authority.Issue(time.Now().Add(-time.Hour)))
	w.Host.Start()
	for _, c := range []*fixture.Raw{modern, legacy} {
		if a := c.AwaitList(scripted.ToolsList, "a stale hit", caddytest.IsStale); caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
			t.Errorf("with an expired certificate, a list gave %s", a)
		}
		wantCall(t, c, http.StatusBadGateway)
	}
	w.Mark(scripted.ToolsList, "v2")
	cert.Store(authority.Issue(time.Now().Add(time.Hour)))
	for _, c := range []*fixture.Raw{modern, legacy} {
		c.AwaitList(scripted.ToolsList, "a fresh list", func(a *fixture.Answer) bool {
			return caddytest.IsHit(a, scripted.ToolsList, "v2") && !caddytest.IsStale(a)
		})
	}
}

// TestNameFailure has an upstream whose name cannot be resolved at first, then
// can, then cannot again.
func TestNameFailure(t *testing.T) {
	resolver := fixture.NewResolver(t)
	resolver.Fail(true)
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicBrief)
	w.Host.Start()
	url := strings.Replace(w.Host.URL, "127.0.0.1", "upstream.test", 1)
	w.Proxy = caddytest.StartProxy(t, caddytest.Directive(url, "ttl 300ms", "refresh 10ms",
		"reverse_proxy {\ntransport http {\nresolvers "+resolver.Addr+"\n}\n}"))
	c := fixture.NewModern(t, w.Proxy.URL, "")
	if a := c.List(scripted.ToolsList); a.Status != http.StatusBadGateway {
		t.Errorf("without a name, a list gave %s", a)
	}
	resolver.Fail(false)
	c.AwaitList(scripted.ToolsList, "a hit", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v1") })
	resolver.Fail(true)
	c.AwaitList(scripted.ToolsList, "a stale hit", func(a *fixture.Answer) bool {
		// The server starts again at the same address. Its name leads nowhere, so only a
		// connection that was being opened before can reach it.
		w.Host.Kill()
		w.Host.Start()
		return caddytest.IsStale(a)
	})
	fixture.Await(t, "a call that finds nobody", func() bool {
		w.Host.Kill()
		w.Host.Start()
		return c.Call("tools/call", c.Params(`"name":"item-0000"`)).Status == http.StatusBadGateway
	})
	w.Mark(scripted.ToolsList, "v2")
	resolver.Fail(false)
	c.AwaitList(scripted.ToolsList, "a fresh list", func(a *fixture.Answer) bool {
		return caddytest.IsHit(a, scripted.ToolsList, "v2") && !caddytest.IsStale(a)
	})
	if resolver.Asked() == 0 {
		t.Error("nobody asked the resolver")
	}
}

// TestFailuresAreLoggedOnce lets refreshes fail many times: the log tells of the
// change of state, not of each retry.
func TestFailuresAreLoggedOnce(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(`"ttlMs":20,"cacheScope":"public"`)
	w.SetRevisions(scripted.Modern)
	w.Start("refresh 1ms")
	c := w.Client(scripted.Modern)
	c.Settle(scripted.ToolsList)
	before := w.Host.CountFeed(scripted.ToolsList)
	w.SetScript(scripted.ToolsList, scripted.Status(500))
	fixture.Await(t, "many failed refreshes", func() bool { return w.Host.CountFeed(scripted.ToolsList)-before >= 6 })
	warnings := 0
	for line := range strings.SplitSeq(w.Proxy.Log(), "\n") {
		if strings.Contains(line, "mcp_cache") && (strings.Contains(line, `"level":"warn"`) || strings.Contains(line, `"level":"error"`)) {
			warnings++
		}
	}
	if warnings == 0 || warnings > 2 {
		t.Errorf("%d failed refreshes gave %d warnings", w.Host.CountFeed(scripted.ToolsList)-before, warnings)
	}
}

// TestRetryAfterIsObeyed asks the feed to wait: it does, though it would have
// tried again by then.
func TestRetryAfterIsObeyed(t *testing.T) {
	if !caddytest.Long() {
		t.Skip("compares with a clock: -long")
	}
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicBrief)
	w.SetRevisions(scripted.Modern)
	w.Start("refresh 1ms")
	c := w.Client(scripted.Modern)
	c.Settle(scripted.ToolsList)
	before := w.Host.CountFeed(scripted.ToolsList)
	w.SetScript(scripted.ToolsList, scripted.TooManyRequests(3))
	fixture.Await(t, "the refusal", func() bool { return w.Host.CountFeed(scripted.ToolsList) > before })
	refused := time.Now()
	w.SetScript(scripted.ToolsList, nil)
	w.Mark(scripted.ToolsList, "v2")
	c.AwaitList(scripted.ToolsList, "a fresh list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v2") })
	if took := time.Since(refused); took < 2900*time.Millisecond {
		t.Errorf("the feed asked again after %v", took)
	}
}

// TestHungUpstreamIsGivenUp never lets the feed's requests have an answer: the
// feed gives them up by itself and asks again.
func TestHungUpstreamIsGivenUp(t *testing.T) {
	if !caddytest.Long() {
		t.Skip("waits for the feed's own deadlines: -long")
	}
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicBrief)
	w.Start("ttl 300ms", "refresh 10ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		w.SetScript(scripted.ToolsList, nil)
		w.Mark(scripted.ToolsList, "v1 "+revision)
		c := w.Client(revision)
		c.AwaitList(scripted.ToolsList, "the list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v1 "+revision) })
		asked := func() int {
			return len(w.Host.Requests(func(r *fixture.Request) bool {
				return r.Method == scripted.ToolsList && r.Feed && r.Header.Get("Mcp-Protocol-Version") == revision
			}))
		}
		before := asked()
		w.SetScript(scripted.ToolsList, scripted.Hang(nil))
		fixture.Await(t, "a request that hangs", func() bool { return asked() > before })
		w.SetScript(scripted.ToolsList, nil)
		w.Mark(scripted.ToolsList, "v2 "+revision)
		start := time.Now()
		fixture.AwaitFor(t, 2*time.Minute, "the feed to give up an answer that never comes", func() bool {
			return caddytest.IsHit(c.List(scripted.ToolsList), scripted.ToolsList, "v2 "+revision)
		})
		t.Logf("fresh after %v", time.Since(start).Round(time.Second))
	})
}
