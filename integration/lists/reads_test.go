package lists

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

const readMethod = "resources/read"

// newLibrary starts a world with three resources, of which one is below
// another.
func newLibrary(t *testing.T, options ...string) *caddytest.World {
	t.Helper()
	w := caddytest.NewUpstream(t)
	for _, uri := range []string{"test://a", "test://a/b", "test://c"} {
		w.SetContents(uri, `"text":"v1"`)
	}
	w.Start(options...)
	return w
}

func read(c *fixture.Raw, uri, more string) *fixture.Answer {
	return c.Call(readMethod, c.Params(fmt.Sprintf(`"uri":%q%s`, uri, more)))
}

// settleRead waits until a resource comes from the cache.
func settleRead(t *testing.T, c *fixture.Raw, uri string) {
	t.Helper()
	c.Settle(scripted.ToolsList) // what lets a caller in is a list
	fixture.Await(t, "a cached "+uri, func() bool { return read(c, uri, "").CacheStatus().Hit })
}

// TestReadsAreCachedByURI reads resources that may be kept.
func TestReadsAreCachedByURI(t *testing.T) {
	w := newLibrary(t)
	c := w.Client(scripted.Modern)
	for _, uri := range []string{"test://a", "test://a/b", "test://c"} {
		settleRead(t, c, uri)
		before := w.Host.CountClients(readMethod)
		a := read(c, uri, "")
		if !a.CacheStatus().Hit || !strings.Contains(string(a.Body), fmt.Sprintf(`{"uri":%q,"text":"v1"}`, uri)) {
			t.Errorf("%s is %s", uri, a)
		}
		if w.Host.CountClients(readMethod) != before {
			t.Errorf("reading %s from the cache reached the upstream", uri)
		}
	}
	if a := read(c, "test://none", ""); a.ErrorCode() != -32602 || a.CacheStatus().Hit {
		t.Errorf("a resource that does not exist gave %s", a)
	}
}

// TestReadsThatAreNotCached reads in ways that no cache may answer.
func TestReadsThatAreNotCached(t *testing.T) {
	w := newLibrary(t)
	c, legacy := w.Client(scripted.Modern), w.Client(scripted.LatestLegacy)
	settleRead(t, c, "test://a")
	for _, more := range []string{`,"requestState":"x"`, `,"inputResponses":{}`, `,"unknown":1`} {
		for range 2 {
			caddytest.WantForwarded(t, read(c, "test://a", more))
		}
	}
	for range 3 {
		caddytest.WantForwarded(t, read(legacy, "test://a", "")) // legacy results carry no ttlMs
	}
	t.Run("input required", func(t *testing.T) {
		w.SetScript(readMethod, func(x *scripted.Exchange) {
			x.Result(`{"resultType":"input_required","inputRequests":{},"requestState":"s","ttlMs":3600000,"cacheScope":"public"}`)
		})
		for range 3 {
			caddytest.WantForwarded(t, read(c, "test://c", ""))
		}
	})
	t.Run("ttl 0", func(t *testing.T) {
		w.SetScript(readMethod, nil)
		w.SetHints(`"ttlMs":0,"cacheScope":"public"`)
		for range 3 {
			caddytest.WantForwarded(t, read(c, "test://c", ""))
		}
	})
	t.Run("no hints", func(t *testing.T) {
		w.SetHints("")
		for range 3 {
			caddytest.WantForwarded(t, read(c, "test://c", ""))
		}
	})
}

// TestUpdatesReachReads announces updates of a resource: what lies below it is
// read anew as well, and nothing else.
func TestUpdatesReachReads(t *testing.T) {
	w := newLibrary(t)
	c, other := w.Client(scripted.Modern), w.Client(scripted.Modern)
	for _, uri := range []string{"test://a", "test://a/b", "test://c"} {
		settleRead(t, c, uri)
	}
	s := c.Listen("test://a")
	asked := w.Host.Count(readMethod)
	for i := range 10 {
		text := fmt.Sprintf(`"text":"update %d"`, i)
		w.SetContents("test://a", text)
		w.SetContents("test://a/b", text)
		w.Notify(scripted.Clients, "notifications/resources/updated", `{"uri":"test://a"}`)
		s.Await("notifications/resources/updated")
		for _, client := range []*fixture.Raw{c, other} {
			for _, uri := range []string{"test://a", "test://a/b"} {
				if a := read(client, uri, ""); !strings.Contains(string(a.Body), text) {
					t.Fatalf("round %d: %s is %s", i, uri, a)
				}
			}
		}
	}
	settleRead(t, c, "test://a")
	// What callers without credentials share, the feed has to read for them.
	if n := w.Host.Count(readMethod); n > asked+2*(10*4+1) {
		t.Errorf("%d reads reached the upstream", n-asked)
	}
	if a := read(c, "test://c", ""); !a.CacheStatus().Hit {
		t.Errorf("a resource that nobody has updated gave %s", a)
	}
}

// TestPrivateReads reads a resource that is another one for everybody.
func TestPrivateReads(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PrivateHour)
	w.SetScript(readMethod, func(x *scripted.Exchange) {
		w.SetContents("test://a", fmt.Sprintf(`"text":%q`, x.Auth))
		x.Default()
	})
	w.Start()
	for round := range 3 {
		for i := range 4 {
			c := w.ClientAs(scripted.Modern, auth(i))
			c.List(scripted.ToolsList)
			a := read(c, "test://a", "")
			if !strings.Contains(string(a.Body), fmt.Sprintf(`"text":%q`, auth(i))) {
				t.Errorf("round %d: %s got %s", round, auth(i), a)
			}
			if round == 2 && !a.CacheStatus().Hit {
				t.Errorf("%s is not served its own copy: %s", auth(i), a)
			}
		}
	}
}

// TestReadsWhereValuesTellApart reads what the server calls public, and shows by a
// value that only the proxy sends: the feed reads it for nobody.
func TestReadsWhereValuesTellApart(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetContents("test://a", `"text":"v1"`)
	w.SetScript(readMethod, func(x *scripted.Exchange) {
		x.Result(fmt.Sprintf(`{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","contents":[{"uri":"test://a","text":"of %s."}]}`,
			x.R.Header.Get("X-Tenant")))
	})
	w.Host.Start()
	w.Proxy = caddytest.StartProxy(t, "@tenant header X-Request-Id *\nroute {\nvars @tenant tenant {header.X-Request-Id}\n"+
		caddytest.Directive(w.Host.URL, "reverse_proxy {\nheader_up X-Tenant {vars.tenant}\n}")+"\n}")
	fixture.Await(t, "the feeds' lists", func() bool { return w.Host.CountFeed(scripted.ToolsList) >= len(caddytest.Revisions) })
	for range 3 {
		for _, tenant := range []string{"", "ant", "bee"} {
			c := w.Client(scripted.Modern)
			if tenant != "" {
				c.Header.Set("X-Request-Id", tenant)
			}
			c.List(scripted.ToolsList) // lets the caller in
			if a := read(c, "test://a", ""); !strings.Contains(string(a.Body), `"of `+tenant+`."`) {
				t.Errorf("%q got %s", tenant, a)
			}
		}
	}
	if n := w.Host.CountFeed(readMethod); n != 0 {
		t.Errorf("the feed has read %d times", n)
	}
}
