package toolkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/notices"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
)

// written is a client's connection, which breaks after so many writes.
type written struct {
	strings.Builder
	writes, breaks int
}

func (*written) Header() http.Header              { return make(http.Header) }
func (*written) WriteHeader(int)                  {}
func (*written) Flush()                           {}
func (*written) SetWriteDeadline(time.Time) error { return nil }

func (w *written) Write(p []byte) (int, error) {
	if w.writes++; w.breaks > 0 && w.writes >= w.breaks {
		return 0, errors.New("the connection is broken")
	}
	return w.Builder.Write(p)
}

// TestStreamShowsThatItIsThere: a stream that has nothing to say says so, and ends when it
// cannot, or the client has gone.
func TestStreamShowsThatItIsThere(t *testing.T) {
	for name, breaks := range map[string]int{"the client goes": 0, "the connection breaks": 5} {
		synctest.Test(t, func(t *testing.T) {
			board := notices.NewBroker()
			board.SetLimit(1)
			p := board.Publisher(func() {})
			p.Publish(revision.Legacy, revision.Tools, notices.Digest{}, true)
			l, err := board.Listen(notices.Listening{Wants: revision.SetOf(revision.Tools)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancel(t.Context())
			w := &written{breaks: breaks}
			v := &request{w: w, viewer: viewer{r: (&http.Request{}).WithContext(ctx), endpoint: &Endpoint{}}}
			var ended atomic.Bool
			go func() {
				v.openStream(l).run()
				ended.Store(true)
			}()
			time.Sleep(3 * beat)
			synctest.Wait()
			if got := w.String(); got != ":\n\n:\n\n:\n\n" || ended.Load() {
				t.Errorf("%s: after three times it has written %q, ended: %v", name, got, ended.Load())
			}
			if breaks == 0 {
				p.Publish(revision.Legacy, revision.Tools, notices.Digest{1}, true)
				p.Notify(revision.Legacy, revision.Tools)
				synctest.Wait()
				if _, said, _ := strings.Cut(w.String(), "id: "); !strings.HasSuffix(said, "\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n") {
					t.Errorf("%s: a change is announced by %q", name, said)
				}
				leave()
			}
			time.Sleep(2 * beat)
			synctest.Wait()
			if !ended.Load() {
				t.Errorf("%s: the stream goes on", name)
			}
			leave()
		})
	}
}

// newStream returns the stream of a client that listens for nothing, opened now.
func newStream(t *testing.T, ctx context.Context) *stream {
	t.Helper()
	board := notices.NewBroker()
	board.SetLimit(1)
	l, err := board.Listen(notices.Listening{})
	if err != nil {
		t.Fatal(err)
	}
	v := &request{w: new(written), viewer: viewer{r: (&http.Request{}).WithContext(ctx), arrived: time.Now(), endpoint: &Endpoint{}}}
	return v.openStream(l)
}

// TestStreamEndsWithItsCaller: a client that may not listen any more is not told of anything
// from the next beat on.
func TestStreamEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t, t.Context())
		began := time.Now()
		s.isOver = func() bool { return time.Since(began) > 2*beat }
		s.run()
		if took := time.Since(began); took != 3*beat {
			t.Errorf("the stream ended after %s", took)
		}
	})
}

// TestClientsAreNotToldOfTheBeginning: a client that listens before the servers are there is not told of their lists, which
// are the first ones.
func TestClientsAreNotToldOfTheBeginning(t *testing.T) {
	one := serves("one")
	slow(one, revision.Tools, time.Second)
	runWith(t, setup{waits: true}, func(w *world) {
		w.Endpoint.Run()
		c := &caller{w: w, at: modern}
		a, leave := c.listens()
		defer leave()
		w.after(time.Minute)
		a.wantHeard(w, "at the beginning")
		c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b")
	}, one)
}

// TestStreamEndsWithTheSession: a client whose session is over listens no longer.
func TestStreamEndsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t, t.Context())
		s.request.client = &session.Claims{Expires: s.request.arrived.Add(time.Hour)}
		s.run()
		if took := time.Since(s.request.arrived); took != time.Hour {
			t.Errorf("it ends after %v", took)
		}
	})
}

// TestStreamEndsBeforeItHasTo: Caddy cuts an answer after its timeout, so a stream ends before.
func TestStreamEndsBeforeItHasTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithValue(t.Context(), caddyhttp.ServerCtxKey, &caddyhttp.Server{WriteTimeout: caddy.Duration(10 * time.Second)})
		s := newStream(t, ctx)
		s.run()
		if took := time.Since(s.request.arrived); took != 9*time.Second {
			t.Errorf("it ends after %v", took)
		}
	})
}

// TestClientsAreToldOfChanges: a client that listens is told of each kind of list that it listens for once the new list is
// there, and of no other.
func TestClientsAreToldOfChanges(t *testing.T) {
	eachPair(t, func(w *world, c *caller, m *member) {
		a, leave := c.begin(c.listening("toolsListChanged", "resourcesListChanged"))
		defer leave()
		want, told := []string{}, len(a.announced())
		for k, notice := range map[revision.Kind]string{revision.Tools: "tools", revision.Prompts: "prompts", revision.ResourceTemplates: "resources"} {
			w.changes(m, k, "another")
			w.after(time.Minute)
			if k != revision.Prompts || c.at == legacy {
				want = append(want, "notifications/"+notice+"/list_changed")
			}
		}
		if got := a.announced()[told:]; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) || a.isOver() {
			w.Errorf("a client is told of %q, want %q; the stream is over: %v", got, want, a.isOver())
		}
		for _, message := range a.messages() {
			if id := fmt.Sprintf(`"io.modelcontextprotocol/subscriptionId":%d`, c.sent); strings.Contains(string(message.Params), id) != (c.at == modern) {
				w.Errorf("a client of %s is told %s", c.at, message.Params)
			}
		}
		for name, value := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"} {
			if got := a.Header().Get(name); got != value {
				w.Errorf("the stream has %s: %q, want %q", name, got, value)
			}
		}
		if a.status() != "detail=own" || a.Code != http.StatusOK {
			w.Errorf("the stream has the status %d, %q", a.Code, a.status())
		}
	})
}

// TestFiltersAreAcknowledged: a modern client is told first which of its wishes are granted. With none there is nothing to
// listen for, and the subscription is over. A filter that cannot be read is refused.
func TestFiltersAreAcknowledged(t *testing.T) {
	for params, want := range map[string]string{
		`"notifications":{"toolsListChanged":true,"promptsListChanged":false}`:                            `{"toolsListChanged":true}`,
		`"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"promptsListChanged":true}`: `{"promptsListChanged":true,"resourcesListChanged":true,"toolsListChanged":true}`,
		`"notifications":{"resourceSubscriptions":["one://resources_a"]}`:                                 `{}`, `"notifications":{}`: `{}`,
		``: "", `"notifications":null`: "", `"notifications":[]`: "", `"notifications":{"toolsListChanged":1}`: "",
	} {
		run(t, func(w *world) {
			c := w.calls(modern)
			a, leave := c.begin(c.request(http.MethodPost, "/mcp", c.message("subscriptions/listen", params), "Mcp-Method", "subscriptions/listen"))
			defer leave()
			if want == "" {
				if a.Code != http.StatusBadRequest || a.code() != -32602 || !strings.Contains(a.says(), "params has no notifications") {
					w.Errorf("%s gave %s", params, a)
				}
				return
			}
			all := a.messages()
			if len(all) == 0 || all[0].Method != "notifications/subscriptions/acknowledged" ||
				!strings.Contains(string(all[0].Params), `"notifications":`+want) {
				w.Fatalf("%s gave %s, want %s", params, a, want)
			}
			ends := fmt.Sprintf(`{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":%d}}`, c.sent)
			if isOver := want == "{}"; a.isOver() != isOver || isOver && string(a.response().Result) != ends {
				w.Errorf("%s is over: %v, with %s", params, a.isOver(), a)
			}
		}, serves("one"))
	}
}

// TestClientsComeBack: a legacy client is given an id with which to come back before there is anything to be told, if it
// knows how. With the id it is told at once of what has changed meanwhile.
func TestClientsComeBack(t *testing.T) {
	for at, begins := range map[revision.Revision]bool{legacy: true, revision.V20250618: false} {
		run(t, func(w *world) {
			c, m := w.calls(at), w.members[0]
			a, leave := c.begin(c.listening())
			if got := a.Body.String(); strings.HasPrefix(got, "id: ") != begins || begins && !strings.HasSuffix(got, "\ndata: \n\n") {
				w.Errorf("a client of %s is sent %q at first", at, got)
			}
			w.changes(m, revision.Prompts, "another")
			w.after(time.Minute)
			leave()
			ids := strings.Split(a.Body.String(), "id: ")
			last, _, _ := strings.Cut(ids[len(ids)-1], "\n")
			if got := a.announced(); !slices.Equal(got, []string{"notifications/prompts/list_changed"}) || last == "" {
				w.Fatalf("a client is told %s", a)
			}
			w.changes(m, revision.Tools, "another")
			w.after(time.Minute)
			for id, want := range map[string][]string{last: {"notifications/tools/list_changed"}, "": nil} {
				a, leave = c.begin(c.request(http.MethodGet, "/mcp", "", "Last-Event-ID", id))
				if got := a.announced(); !slices.Equal(got, want) {
					w.Errorf("a client that comes back with %q is told of %q, want %q", id, got, want)
				}
				leave()
			}
		}, serves("one"))
	}
}

// TestStreamsThatAreRefused: a client that may not listen, or does not take a stream, is told why.
func TestStreamsThatAreRefused(t *testing.T) {
	run(t, func(w *world) {
		c := w.calls(legacy)
		for name, tt := range map[string]struct {
			header       []string
			status, code int
			says         string
		}{
			"a modern client":  {[]string{"Mcp-Protocol-Version", "2026-07-28"}, 405, -32600, "clients of 2026-07-28 listen by subscriptions/listen, which is a POST"},
			"no session":       {[]string{"Mcp-Session-Id", ""}, 400, -32600, "Mcp-Session-Id is missing, and _meta names no revision: begin with initialize, or with server/discover"},
			"JSON alone":       {[]string{"Accept", "application/json"}, 406, -32600, "a GET opens an event stream: send Accept: text/event-stream"},
			"an id of another": {[]string{"Last-Event-ID", "7"}, 400, -32600, "Last-Event-ID is of no stream of this endpoint: answers of servers are not resumed"},
			"a browser":        {[]string{"Accept", "text/html", "Mcp-Session-Id", "", "Mcp-Protocol-Version", ""}, 405, 0, ""},
		} {
			a, leave := c.begin(c.request(http.MethodGet, "/mcp", "", tt.header...))
			if leave(); !a.isOver() {
				w.Fatalf("%s: the stream is open", name)
			}
			a.want(w, name, tt.status, tt.code)
			if wantSaid(w, a, tt.says); tt.status == 405 && a.Header().Get("Allow") != "POST" {
				w.Errorf("%s is allowed %q", name, a.Header()["Allow"])
			}
		}
		for _, accept := range []string{"*/*", "Text/Event-Stream", "application/json;q=0.5, text/event-stream"} {
			a, leave := c.begin(c.request(http.MethodGet, "/mcp", "", "Accept", accept))
			if a.isOver() || a.Code != http.StatusOK {
				w.Errorf("a client that takes %s is given %s", accept, a)
			}
			leave()
		}
	}, serves("one"))
}

// TestStreamsEndWithTheirSession: a legacy client that ends its session is told nothing more on any of its streams.
func TestStreamsEndWithTheirSession(t *testing.T) {
	run(t, func(w *world) {
		c, other := w.calls(legacy), w.calls(legacy)
		var all []*received
		for _, of := range []*caller{c, c, other} {
			a, leave := of.begin(of.listening())
			defer leave()
			all = append(all, a)
		}
		c.send(c.request(http.MethodDelete, "/mcp", "")).want(w, "the end", http.StatusNoContent, 0)
		if w.after(0); !all[0].isOver() || !all[1].isOver() || all[2].isOver() {
			w.Errorf("the streams are over: %v, %v, and that of another %v", all[0].isOver(), all[1].isOver(), all[2].isOver())
		}
		c.send(c.listening()).want(w, "a stream in a session that has ended", http.StatusNotFound, -32600)
	}, serves("one"))
}

// TestNoMoreStreamsThanThereMayBe: a client that wants to listen while as many do as may is told to try again.
func TestNoMoreStreamsThanThereMayBe(t *testing.T) {
	run(t, func(w *world) {
		w.Settings.Broker.SetLimit(1)
		_, leave := w.calls(modern).begin(w.calls(modern).listening("toolsListChanged"))
		w.eachEra(func(c *caller) {
			a := c.send(c.listening("toolsListChanged"))
			a.want(w, "one more stream", http.StatusServiceUnavailable, -32603)
			if wantSaid(w, a, "as many clients listen as max_sessions allows: try again"); a.Header().Get("Retry-After") != "1" {
				w.Errorf("a client of %s is to come again after %q", c.at, a.Header()["Retry-After"])
			}
		})
		leave()
		w.eachEra(func(c *caller) {
			a, leave := c.begin(c.listening("toolsListChanged"))
			if a.isOver() {
				w.Errorf("when there is room, a client of %s is given %s", c.at, a)
			}
			leave()
		})
	}, serves("one"))
}

// TestSubscriptionsEndWithAResult: a modern client whose stream ends for a reason of ours is given the result of its
// subscription, so that it subscribes anew.
func TestSubscriptionsEndWithAResult(t *testing.T) {
	run(t, func(w *world) {
		c := w.calls(modern)
		a, leave := c.begin(c.listening("toolsListChanged"))
		defer leave()
		id := c.sent
		w.Settings.Broker.End()
		synctest.Wait()
		last := a.response()
		if !a.isOver() || !strings.HasPrefix(string(last.Result), `{"resultType":"complete"`) || string(last.ID) != fmt.Sprint(id) {
			w.Errorf("subscription %d is over: %v, with %s", id, a.isOver(), a)
		}
	}, serves("one"))
}
