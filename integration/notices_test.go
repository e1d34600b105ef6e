package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// ofEra chooses the streams of clients of an era.
func ofEra(c *fixture.Raw) func(scripted.StreamInfo) bool {
	return func(i scripted.StreamInfo) bool { return !i.Feed && i.Modern == c.Modern() }
}

// feedOf chooses the stream of the feed of an era. A change that one feed hears of outdates the lists of
// both eras: where both are told, the second notice may come when the list is a hit again.
func feedOf(c *fixture.Raw) func(scripted.StreamInfo) bool {
	return func(i scripted.StreamInfo) bool { return i.Feed && i.Modern == c.Modern() }
}

// TestFeedSeesChanges announces changes to the feed alone.
func TestFeedSeesChanges(t *testing.T) {
	w := newWorld(t, "refresh 10ms")
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		c := w.warm(revision)
		for _, method := range scripted.ListMethods() {
			before := w.host.CountClients(method)
			w.mark(method, "v2 "+revision)
			w.Changed(scripted.Feeds, method)
			c.AwaitList(method, "the changed list", func(a *fixture.Answer) bool { return isHit(a, method, "v2 "+revision) })
			// Each feed hears of it, and one list shows what such clients get since.
			if n := w.host.CountClients(method) - before; n > len(revisions) {
				t.Errorf("the change of %s sent %d client requests to the upstream", method, n)
			}
		}
	})
}

// TestFeedTakesNoStreamWithoutSession serves a legacy upstream that opens no
// sessions: it cannot tell streams apart, and what it has to say to a client
// would go to the feed's.
func TestFeedTakesNoStreamWithoutSession(t *testing.T) {
	w := newUpstream(t)
	w.SetSessions(false)
	w.SetRevisions(scripted.LatestLegacy)
	w.start("ttl 300ms", "refresh 10ms")
	w.client(scripted.LatestLegacy).Settle(toolsList)
	before := w.host.CountFeed(toolsList)
	await(t, "a refresh", func() bool { return w.host.CountFeed(toolsList) > before })
	if n := w.host.CountHTTP(http.MethodGet); n > 0 {
		t.Errorf("the feed asked for a stream %d times", n)
	}
}

// TestResourceNoticeCoversTemplates announces a change of resources when only
// the templates have changed: there is no other notice for them.
func TestResourceNoticeCoversTemplates(t *testing.T) {
	w := newWorld(t)
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		c := w.warm(revision)
		s := c.Notices()
		w.mark(templatesList, "v2 "+revision)
		await(t, "the stream", func() bool { return w.Changed(ofEra(c), resourcesList) > 0 })
		s.Await("notifications/resources/list_changed")
		if a := c.List(templatesList); markOf(a, templatesList) != "v2 "+revision {
			t.Errorf("after the notice, the templates are %s", describe(a))
		}
	})
}

// TestToldClientGetsTheNewList announces changes on clients' own streams only:
// whoever lists after that, in either era, gets the new list.
func TestToldClientGetsTheNewList(t *testing.T) {
	w := newWorld(t)
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		c, other := w.warm(revision), w.client(revision)
		wantHit(t, other.Settle(toolsList), toolsList, markOf(c.List(toolsList), toolsList))
		s := c.Notices()
		await(t, "the stream", func() bool { return w.Streams(ofEra(c)) == 1 })
		for i := range 20 {
			mark := fmt.Sprint("v", i, " ", revision)
			w.mark(toolsList, mark)
			w.Changed(ofEra(c), toolsList)
			s.Await("notifications/tools/list_changed")
			for name, client := range map[string]*fixture.Raw{"told": c, "other": other} {
				if a := client.List(toolsList); markOf(a, toolsList) != mark {
					t.Fatalf("round %d: the %s client got %s", i, name, describe(a))
				}
			}
		}
		c.Settle(toolsList)
	})
}

// TestNoticeInAnswer announces a change on the stream of a call's answer.
func TestNoticeInAnswer(t *testing.T) {
	w := newWorld(t)
	const notice = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		c := w.warm(revision)
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
					w.mark(toolsList, mark)
					send(x)
					x.Result(`{"content":[]}`)
				})
				params := c.Params(`"name":"item-0000"`)
				a := c.Post(fixture.Message("1", "tools/call", params), http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"item-0000"}})
				if a.Status != http.StatusOK {
					t.Fatalf("the call gave %s", describe(a))
				}
				if a := c.List(toolsList); markOf(a, toolsList) != mark {
					t.Errorf("after the notice, the list is %s", describe(a))
				}
				c.AwaitList(toolsList, "a hit again", func(a *fixture.Answer) bool { return isHit(a, toolsList, mark) })
			})
		}
	})
}

// TestBurstsCoalesce announces a thousand changes at once: they cost the
// upstream no more than two lists, and one more for each refresh interval that
// the burst lasts.
func TestBurstsCoalesce(t *testing.T) {
	const interval = 500 * time.Millisecond
	w := newWorld(t, "refresh "+interval.String())
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		c := w.warm(revision)
		feed := func(i scripted.StreamInfo) bool { return i.Feed && i.Modern == c.Modern() }
		before, began := w.host.CountFeed(toolsList), time.Now()
		for range 1000 {
			w.Changed(feed, toolsList)
		}
		w.mark(toolsList, "v2 "+revision)
		w.Changed(feed, toolsList)
		// The last of the burst is followed by one of another kind: its list
		// is fetched after all that came before was seen.
		w.mark(promptsList, "v2 "+revision)
		w.Changed(feed, promptsList)
		c.AwaitList(promptsList, "the change after the burst", func(a *fixture.Answer) bool { return isHit(a, promptsList, "v2 "+revision) })
		c.AwaitList(toolsList, "the burst's change", func(a *fixture.Answer) bool { return isHit(a, toolsList, "v2 "+revision) })
		took := time.Since(began)
		// The other era's feed is of the same upstream, and may refresh too.
		if n := w.host.CountFeed(toolsList) - before; n > (2+int(took/interval))*len(revisions) {
			t.Errorf("in %v, the burst cost %d lists", took, n)
		}
	})
}

// TestMisledCallers changes the list without a notice, and calls a tool that is
// gone: a session that was misled lists again and must not be misled again. Modern
// callers without credentials cannot be told apart: nobody waits, and the list is
// fetched.
func TestMisledCallers(t *testing.T) {
	w := newWorld(t)
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		c := w.warm(revision)
		w.SetList(toolsList, scripted.Page{`{"name":"renamed","description":"` + revision + `","inputSchema":{}}`})
		if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.ErrorCode() != -32602 {
			t.Fatalf("the call gave %s", describe(a))
		}
		if a := c.List(toolsList); !c.Modern() && markOf(a, toolsList) != revision {
			t.Errorf("after the failed call, the list is %s", describe(a))
		}
		c.AwaitList(toolsList, "the changed list", func(a *fixture.Answer) bool { return isHit(a, toolsList, revision) })
	})
}

// TestFailureAfterNotice announces a change and fails: who was told of it sees
// the failure, who was not gets the old copy, marked stale.
func TestFailureAfterNotice(t *testing.T) {
	for name, option := range map[string]string{"by default": "refresh 10ms"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, option)
			eachEra(t, func(t *testing.T, revision string) {
				w := w.on(t)
				w.SetScript(toolsList, nil)
				w.mark(toolsList, "v1")
				c := w.warm(revision)
				other := fixture.New(t, w.proxy.URL, revision, "")
				if c.Modern() {
					// Modern callers are told as members of their context.
					other = w.clientAs(revision, "Bearer other")
				}
				other.Settle(toolsList)
				s := c.Notices()
				await(t, "the stream", func() bool { return w.Streams(ofEra(c)) == 1 })
				w.SetScript(toolsList, scripted.Status(http.StatusInternalServerError))
				w.Changed(ofEra(c), toolsList)
				s.Await("notifications/tools/list_changed")
				if a := c.List(toolsList); a.Status != http.StatusInternalServerError {
					t.Errorf("the told client got %s", describe(a))
				}
				if a := other.List(toolsList); !isStale(a) || markOf(a, toolsList) != "v1" {
					t.Errorf("the other client got %s", describe(a))
				}
				w.SetScript(toolsList, nil)
				c.AwaitList(toolsList, "a fresh hit", func(a *fixture.Answer) bool { return isHit(a, toolsList, "v1") && !isStale(a) })
			})
		})
	}
}

// TestFeedReconnects ends the feed's streams, and changes a list meanwhile: the
// feed comes back and fetches what it has missed.
func TestFeedReconnects(t *testing.T) {
	w := newWorld(t, "refresh 10ms")
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		c := w.warm(revision)
		for i := range 3 {
			// Callers are given the change before the feed listens again.
			await(t, "the feed's stream", func() bool {
				return w.Streams(func(s scripted.StreamInfo) bool { return s.Feed && s.Modern == c.Modern() }) > 0
			})
			start := time.Now()
			mark := fmt.Sprint("missed ", i, revision)
			w.mark(toolsList, mark)
			w.EndStreams(scripted.Feeds)
			c.AwaitList(toolsList, "the missed change", func(a *fixture.Answer) bool { return isHit(a, toolsList, mark) })
			t.Logf("after %v", time.Since(start))
		}
	})
}
