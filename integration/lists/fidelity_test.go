package lists

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// oddItems are items that no SDK would write and few would keep.
func oddItems(method string) []scripted.Page {
	odd := []string{
		`"zz":1,"name":"big","n":9007199254740993,"d":1.0,"huge":1e400,"neg":-0,"aa":2`,
		`"name" : "space" ,  "nested":{ "b":[1 ,2],	"a":{"x-vendor":null} }`,
		`"name":"es\u0063aped\/\ud83d\ude00","\u0065xtra":"é \"quoted\""`,
		`"name":"schema","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"a":{}},"oneOf":[{}],"x-mcp-header":"bad header"}`,
		`"name":"` + strings.Repeat("long", 5000) + `","_meta":{"vendor/key":[]},"icons":[]`,
	}
	var items scripted.Page
	for i, members := range odd {
		key := map[string]string{scripted.ResourcesList: `"uri"`, scripted.TemplatesList: `"uriTemplate"`}[method]
		if key != "" {
			members = fmt.Sprintf(`%s:"test://%d",%s`, key, i, members)
		}
		items = append(items, "{"+members+"}")
	}
	return []scripted.Page{items[:2], items[2:3], {}, items[3:]}
}

// TestItemsAreTheUpstreamsBytes serves odd lists of several pages: each item
// leaves as it came, in the order it came, on one page.
func TestItemsAreTheUpstreamsBytes(t *testing.T) {
	for name, sse := range map[string]bool{"json": false, "event streams": true} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			want := make(map[string][]string)
			for _, method := range scripted.ListMethods() {
				pages := oddItems(method)
				w.SetList(method, pages...)
				want[method] = slices.Concat(pages[0], pages[1], pages[3])
			}
			w.SetSSE(sse, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
			w.Start()
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				c := w.Client(revision)
				for _, method := range scripted.ListMethods() {
					a := c.Settle(method)
					if got := a.Items(scripted.ItemsKey(method)); !slices.Equal(got, want[method]) {
						t.Errorf("items of %s differ:\n%.300q\n%.300q", method, got, want[method])
					}
					if next := a.Part("result", "nextCursor"); next != nil {
						t.Errorf("joined pages of %s have a cursor %s", method, next)
					}
				}
			})
		})
	}
}

// TestIDsAreEchoed asks with ids of every kind: each comes back to the byte. Those
// that not every server can read as they are, the server answers.
func TestIDsAreEchoed(t *testing.T) {
	w := caddytest.NewWorld(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		for _, id := range []string{
			`0`, `1`, `-7`, `9007199254740991`, `-9007199254740991`,
			`""`, `"a"`, `"1"`, `"es\u0063\/aped \"\\ \ud83d\ude00"`, `"` + strings.Repeat("x", 500) + `"`,
		} {
			a := c.Post(fixture.Message(id, scripted.ToolsList, c.Params("")), http.Header{"Mcp-Method": {scripted.ToolsList}})
			caddytest.WantHit(t, a, scripted.ToolsList, "v1")
			if got := string(a.Part("id")); got != id {
				t.Errorf("id %s came back as %s", id, got)
			}
		}
		for _, id := range []string{`9007199254740992`, `123456789012345678901234567890`, `-9223372036854775809`} {
			a := c.Post(fixture.Message(id, scripted.ToolsList, c.Params("")), http.Header{"Mcp-Method": {scripted.ToolsList}})
			if got := string(a.Part("id")); got != id || caddytest.IsHit(a, scripted.ToolsList, "v1") {
				t.Errorf("id %s came back as %s: %s", id, got, a)
			}
		}
	})
}

// TestSameListSameBytes refreshes a list that has not changed: what clients get
// stays the same to the byte, as prompt caches need it.
func TestSameListSameBytes(t *testing.T) {
	w := caddytest.NewWorld(t, "refresh 10ms")
	w.SetHints("")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		ask := func() []byte {
			a := c.Post(fixture.Message("1", scripted.ToolsList, c.Params("")), http.Header{"Mcp-Method": {scripted.ToolsList}})
			caddytest.WantHit(t, a, scripted.ToolsList, "v1")
			return a.Part("result", "tools")
		}
		first, fetched := ask(), w.Host.CountFeed(scripted.ToolsList)
		w.Changed(scripted.Feeds, scripted.ToolsList)
		fixture.Await(t, "the refresh", func() bool { return w.Host.CountFeed(scripted.ToolsList) > fetched })
		c.Settle(scripted.ToolsList)
		if second := ask(); !bytes.Equal(first, second) {
			t.Errorf("the same list became\n%s\nfrom\n%s", second, first)
		}
	})
}

// TestRemainingTTL looks at what cached answers say of their lifetime.
func TestRemainingTTL(t *testing.T) {
	w := caddytest.NewWorld(t)
	c := w.Warm(scripted.Modern)
	for _, method := range append(scripted.ListMethods(), "server/discover") {
		a := c.Settle(method)
		var ttl int
		if _, err := fmt.Sscan(string(a.Part("result", "ttlMs")), &ttl); err != nil {
			t.Fatalf("%s has ttlMs %s", method, a.Part("result", "ttlMs"))
		}
		if ttl <= 3500_000 || ttl >= 3600_000 {
			t.Errorf("%s has %d ms left of an hour", method, ttl)
		}
		s := a.CacheStatus()
		if !s.HasTTL || s.TTL > ttl/1000+1 || s.TTL < ttl/1000-1 || s.Cache != "mcp_cache" {
			t.Errorf("%s: %d ms are left, Cache-Status is %q", method, ttl, s.Raw)
		}
		if scope := string(a.Part("result", "cacheScope")); scope != `"public"` {
			t.Errorf("%s has scope %s", method, scope)
		}
	}
	legacy := w.Warm(scripted.LatestLegacy).List(scripted.ToolsList)
	if legacy.Part("result", "ttlMs") != nil || legacy.Part("result", "resultType") != nil {
		t.Errorf("legacy answer has modern members: %s", legacy.Body)
	}
}

// TestTTLZeroIsObeyed serves lists that the upstream forbids to keep.
func TestTTLZeroIsObeyed(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(`"ttlMs":0,"cacheScope":"public"`)
	w.Start()
	c := w.Client(scripted.Modern)
	fixture.Await(t, "the feed's first list", func() bool { return w.Host.CountFeed(scripted.ToolsList) > 0 })
	for i := range 3 {
		w.Mark(scripted.ToolsList, fmt.Sprint("now", i))
		if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != fmt.Sprint("now", i) {
			t.Errorf("list of lifetime 0 is old: %s", a)
		}
	}
}

// TestAcceptDecides asks for lists with either type preferred; a list that
// comes as an event stream is the same list.
func TestAcceptDecides(t *testing.T) {
	w := caddytest.NewWorld(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		want := c.List(scripted.ToolsList).Items("tools")
		for _, accept := range []string{
			"application/json, text/event-stream", "text/event-stream, application/json",
			"application/json;q=0.5, text/event-stream;q=1", "application/json, text/event-stream;q=0.1",
		} {
			c.Header.Set("Accept", accept)
			a := c.List(scripted.ToolsList)
			c.Header.Del("Accept")
			if !a.CacheStatus().Hit || !slices.Equal(a.Items("tools"), want) {
				t.Errorf("Accept %q: got %s", accept, a)
			}
		}
	})
}
