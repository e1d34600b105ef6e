package lists

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// feedOf chooses the stream of the feed of an era. A change that one feed hears of outdates the lists of
// both eras: where both are told, the second notice may come when the list is a hit again.
func feedOf(c *fixture.Raw) func(scripted.StreamInfo) bool {
	return func(i scripted.StreamInfo) bool { return i.Feed && i.Modern == c.Modern() }
}

// TestFeedSeesChanges announces changes to the feed alone.
func TestFeedSeesChanges(t *testing.T) {
	w := caddytest.NewWorld(t, "refresh 10ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		for _, method := range scripted.ListMethods() {
			before := w.Host.CountClients(method)
			w.Mark(method, "v2 "+revision)
			w.Changed(scripted.Feeds, method)
			c.AwaitList(method, "the changed list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, method, "v2 "+revision) })
			// Each feed hears of it, and one list shows what such clients get since.
			if n := w.Host.CountClients(method) - before; n > len(caddytest.Revisions) {
				t.Errorf("the change of %s sent %d client requests to the upstream", method, n)
			}
		}
	})
}

// TestFeedTakesNoStreamWithoutSession serves a legacy upstream that opens no
// sessions: it cannot tell streams apart, and what it has to say to a client
// would go to the feed's.
func TestFeedTakesNoStreamWithoutSession(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetSessions(false)
	w.SetRevisions(scripted.LatestLegacy)
	w.Start("ttl 300ms", "refresh 10ms")
	w.Client(scripted.LatestLegacy).Settle(scripted.ToolsList)
	before := w.Host.CountFeed(scripted.ToolsList)
	fixture.Await(t, "a refresh", func() bool { return w.Host.CountFeed(scripted.ToolsList) > before })
	if n := w.Host.CountHTTP(http.MethodGet); n > 0 {
		t.Errorf("the feed asked for a stream %d times", n)
	}
}

// TestResourceNoticeCoversTemplates announces a change of resources when only
// the templates have changed: there is no other notice for them.
func TestResourceNoticeCoversTemplates(t *testing.T) {
	w := caddytest.NewWorld(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		s := c.Notices()
		w.Mark(scripted.TemplatesList, "v2 "+revision)
		fixture.Await(t, "the stream", func() bool { return w.Changed(caddytest.OfEra(c), scripted.ResourcesList) > 0 })
		s.Await("notifications/resources/list_changed")
		if a := c.List(scripted.TemplatesList); caddytest.MarkOf(a, scripted.TemplatesList) != "v2 "+revision {
			t.Errorf("after the notice, the templates are %s", a)
		}
	})
}

// TestToldClientGetsTheNewList announces changes on clients' own streams only:
// whoever lists after that, in either era, gets the new list.
func TestToldClientGetsTheNewList(t *testing.T) {
	w := caddytest.NewWorld(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c, other := w.Warm(revision), w.Client(revision)
		caddytest.WantHit(t, other.Settle(scripted.ToolsList), scripted.ToolsList, caddytest.MarkOf(c.List(scripted.ToolsList), scripted.ToolsList))
		s := c.Notices()
		fixture.Await(t, "the stream", func() bool { return w.Streams(caddytest.OfEra(c)) == 1 })
		for i := range 20 {
			mark := fmt.Sprint("v", i, " ", revision)
			w.Mark(scripted.ToolsList, mark)
			w.Changed(caddytest.OfEra(c), scripted.ToolsList)
			s.Await("notifications/tools/list_changed")
			for name, client := range map[string]*fixture.Raw{"told": c, "other": other} {
				if a := client.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != mark {
					t.Fatalf("round %d: the %s client got %s", i, name, a)
				}
			}
		}
		c.Settle(scripted.ToolsList)
	})
}

// TestNoticeInAnswer announces a change on the stream of a call's answer.
func TestNoticeInAnswer(t *testing.T) {
	w := caddytest.NewWorld(t)
	const notice = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		for name, send := range map[string]func(*scripted.Exchange){
			"an event":            func(x *scripted.Exchange) { x.Event(notice) },
			"before other events": func(x *scripted.Exchange) { x.Bytes("data: " + notice + "\n\n: comment\n\ndata: {}\n\n") },
			"CRLF":                func(x *scripted.Exchange) { x.Bytes("event: message\r\ndata: " + notice + "\r\n\r\n") },
			"CR":                  func(x *scripted.Exchange) { x.Bytes("data: " + notice + "\r\r") },
			"several data lines": func(x *scripted.Exchange) {
				x.Bytes("data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\ndata:\"notifications/tools/list_changed\"}\n\n")
			},
			"escaped": func(x *scripted.Exchange) {
				x.Bytes(`data: {"jsonrpc":"2.0","m\u0065thod":"notifications\/tools\/list_changed"}` + "\n\n")
			},
			"byte by byte": func(x *scripted.Exchange) {
				for _, b := range []byte("id: 7\ndata: " + notice + "\n\n") {
					x.Bytes(string([]byte{b}))
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				mark := name + revision
				w.SetScript("tools/call", func(x *scripted.Exchange) {
					w.Mark(scripted.ToolsList, mark)
					send(x)
					x.Result(`{"content":[]}`)
				})
				params := c.Params(`"name":"item-0000"`)
				a := c.Post(fixture.Message("1", "tools/call", params), http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"item-0000"}})
				if a.Status != http.StatusOK {
					t.Fatalf("the call gave %s", a)
				}
				if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != mark {
					t.Errorf("after the notice, the list is %s", a)
				}
				c.AwaitList(scripted.ToolsList, "a hit again", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, mark) })
			})
		}
	})
}

// TestBurstsCoalesce announces a thousand changes at once: they cost the
// upstream no more than two lists, and one more for each refresh interval that
// the burst lasts.
func TestBurstsCoalesce(t *testing.T) {
	const interval = 500 * time.Millisecond
	w := caddytest.NewWorld(t, "refresh "+interval.String())
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		feed := func(i scripted.StreamInfo) bool { return i.Feed && i.Modern == c.Modern() }
		before, began := w.Host.CountFeed(scripted.ToolsList), time.Now()
		for range 1000 {
			w.Changed(feed, scripted.ToolsList)
		}
		w.Mark(scripted.ToolsList, "v2 "+revision)
		w.Changed(feed, scripted.ToolsList)
		// The last of the burst is followed by one of another kind: its list
		// is fetched after all that came before was seen.
		w.Mark(scripted.PromptsList, "v2 "+revision)
		w.Changed(feed, scripted.PromptsList)
		c.AwaitList(scripted.PromptsList, "the change after the burst", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.PromptsList, "v2 "+revision) })
		c.AwaitList(scripted.ToolsList, "the burst's change", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v2 "+revision) })
		took := time.Since(began)
		// The other era's feed is of the same upstream, and may refresh too.
		if n := w.Host.CountFeed(scripted.ToolsList) - before; n > (2+int(took/interval))*len(caddytest.Revisions) {
			t.Errorf("in %v, the burst cost %d lists", took, n)
		}
	})
}

// TestMisledCallers changes the list without a notice, and calls a tool that is
// gone: a session that was misled lists again and must not be misled again. Modern
// callers without credentials cannot be told apart: nobody waits, and the list is
// fetched.
func TestMisledCallers(t *testing.T) {
	w := caddytest.NewWorld(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		w.SetList(scripted.ToolsList, scripted.Page{`{"name":"renamed","description":"` + revision + `","inputSchema":{}}`})
		if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.ErrorCode() != -32602 {
			t.Fatalf("the call gave %s", a)
		}
		if a := c.List(scripted.ToolsList); !c.Modern() && caddytest.MarkOf(a, scripted.ToolsList) != revision {
			t.Errorf("after the failed call, the list is %s", a)
		}
		c.AwaitList(scripted.ToolsList, "the changed list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, revision) })
	})
}

// TestFailureAfterNotice announces a change and fails: who was told of it sees
// the failure, who was not gets the old copy, marked stale.
func TestFailureAfterNotice(t *testing.T) {
	for name, option := range map[string]string{"by default": "refresh 10ms"} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewWorld(t, option)
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				w.SetScript(scripted.ToolsList, nil)
				w.Mark(scripted.ToolsList, "v1")
				c := w.Warm(revision)
				other := fixture.New(t, w.Proxy.URL, revision, "")
				if c.Modern() {
					// Modern callers are told as members of their context.
					other = w.ClientAs(revision, "Bearer other")
				}
				other.Settle(scripted.ToolsList)
				s := c.Notices()
				fixture.Await(t, "the stream", func() bool { return w.Streams(caddytest.OfEra(c)) == 1 })
				w.SetScript(scripted.ToolsList, scripted.Status(http.StatusInternalServerError))
				w.Changed(caddytest.OfEra(c), scripted.ToolsList)
				s.Await("notifications/tools/list_changed")
				if a := c.List(scripted.ToolsList); a.Status != http.StatusInternalServerError {
					t.Errorf("the told client got %s", a)
				}
				if a := other.List(scripted.ToolsList); !caddytest.IsStale(a) || caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
					t.Errorf("the other client got %s", a)
				}
				w.SetScript(scripted.ToolsList, nil)
				c.AwaitList(scripted.ToolsList, "a fresh hit", func(a *fixture.Answer) bool {
					return caddytest.IsHit(a, scripted.ToolsList, "v1") && !caddytest.IsStale(a)
				})
			})
		})
	}
}

// TestFeedReconnects ends the feed's streams, and changes a list meanwhile: the
// feed comes back and fetches what it has missed.
func TestFeedReconnects(t *testing.T) {
	w := caddytest.NewWorld(t, "refresh 10ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Warm(revision)
		for i := range 3 {
			// Callers are given the change before the feed listens again.
			fixture.Await(t, "the feed's stream", func() bool {
				return w.Streams(func(s scripted.StreamInfo) bool { return s.Feed && s.Modern == c.Modern() }) > 0
			})
			start := time.Now()
			mark := fmt.Sprint("missed ", i, revision)
			w.Mark(scripted.ToolsList, mark)
			w.EndStreams(scripted.Feeds)
			c.AwaitList(scripted.ToolsList, "the missed change", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, mark) })
			t.Logf("after %v", time.Since(start))
		}
	})
}
