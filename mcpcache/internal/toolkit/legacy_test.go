package toolkit

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy/policytest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/seal"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
)

// TestSessionsAwaitSecrets has a request wait for secrets only during the first attempt to load them.
func TestSessionsAwaitSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		settled, tried time.Duration // when
		want           bool
		after          time.Duration
	}{
		"it is there":             {0, 0, true, 0},
		"it comes":                {time.Second, time.Minute, true, time.Second},
		"it could not be loaded":  {time.Minute, 0, false, 0},
		"it can not be loaded":    {time.Minute, time.Second, false, time.Second},
		"nobody knows about that": {time.Minute, time.Minute, false, secretsWithin},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closedIn := func(d time.Duration) <-chan struct{} {
					done := make(chan struct{})
					time.AfterFunc(d, func() { close(done) })
					return done
				}
				e := &Endpoint{Settings: Settings{Settled: closedIn(c.settled), Tried: closedIn(c.tried)}}
				synctest.Wait()
				v, began := &request{viewer: viewer{endpoint: e, r: httptest.NewRequest("POST", "/mcp", nil)}}, time.Now()
				if got, took := v.awaitSealer(secretsWithin), time.Since(began); got != c.want || took != c.after {
					t.Errorf("got %v after %v, want %v after %v", got, took, c.want, c.after)
				}
			})
		})
	}
}

// A legacy client gets a session of the revision that it asks for, or of the newest of its era. It can ask in it at once.
func TestSessionsAreOpened(t *testing.T) {
	run(t, func(w *world) {
		for asked, want := range map[string]revision.Revision{
			"2025-11-25": legacy, "2025-03-26": revision.V20250326, "2025-06-18": revision.V20250618,
			"2026-07-28": legacy, "2099-01-01": legacy, "": legacy,
		} {
			c := &caller{w: w, at: legacy, header: make(http.Header)}
			params := fmt.Sprintf(`"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"test","version":"1"}`, asked)
			a := c.post(c.message("initialize", params), "Mcp-Protocol-Version", asked)
			a.want(w, asked, http.StatusOK, 0)
			result := string(a.response().Result)
			for _, part := range []string{`"protocolVersion":"` + want.String() + `"`, `"name":"mcp_cache"`, `"version":"1"`} {
				if !strings.Contains(result, part) || a.status() != "detail=own" {
					w.Errorf("to %q, the client is told %s", asked, a)
				}
			}
			c.session = a.Header().Get("Mcp-Session-Id")
			all := new(counted)
			w.Observer = all
			c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b")
			if len(all.requests) != 1 || !strings.Contains(all.requests[0], " at "+want.String()) {
				w.Errorf("in a session of %s, the metrics count %q", want, all.requests)
			}
		}
		c := &caller{w: w, at: legacy, header: make(http.Header)}
		a := c.post(c.message("initialize", `"protocolVersion":"2025-11-25","capabilities":{"a":1,"a":2}`))
		if a.want(w, "an initialize that is not certain", http.StatusBadRequest, jsonrpc.InvalidParams); a.Header().Get("Mcp-Session-Id") != "" {
			w.Error("it opens a session")
		}
	}, serves("one"))
}

// A client whose session is not certain is told to open one, or that it is over. No server hears of its requests.
func TestSessionsThatAreNotCertain(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *world, c *caller, id http.Header)
		status int
		says   string
	}{
		"none":            {func(_ *world, _ *caller, h http.Header) { h.Del("Mcp-Session-Id") }, 400, "begin with initialize"},
		"an empty one":    {func(_ *world, _ *caller, h http.Header) { h.Set("Mcp-Session-Id", "") }, 400, "begin with initialize"},
		"two":             {func(_ *world, c *caller, h http.Header) { h.Add("Mcp-Session-Id", c.session) }, 400, "begin with initialize"},
		"a made up one":   {func(_ *world, _ *caller, h http.Header) { h.Set("Mcp-Session-Id", "made-up") }, 404, "Session not found"},
		"another user's":  {func(w *world, c *caller, _ http.Header) { c.user = "other" }, 404, "Session not found"},
		"another place's": {func(w *world, _ *caller, _ http.Header) { w.Settings.Name = "other" }, 404, "Session not found"},
		"an old one":      {func(w *world, _ *caller, _ http.Header) { w.after(time.Hour + time.Second) }, 404, "Session not found"},
		"one that ended": {func(_ *world, c *caller, _ http.Header) {
			c.send(c.request(http.MethodDelete, "/mcp", "")).want(c.w, "DELETE", http.StatusNoContent, 0)
		}, 404, "Session not found"},
	} {
		t.Run(name, func(t *testing.T) {
			one := serves("one")
			run(t, func(w *world) {
				records, c := one.records(), &caller{w: w, at: legacy, header: make(http.Header), user: "a"}
				c.open()
				c.call("one__tools_a").wantOf(w, "one")
				records.of("tools/call")
				h := http.Header{"Mcp-Session-Id": {c.session}}
				tt.change(w, c, h)
				call := c.message("tools/call", `"name":"one__tools_a"`)
				for _, method := range []string{http.MethodPost, http.MethodDelete} {
					for _, body := range []string{call, `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
						r := c.request(method, "/mcp", body)
						r.Header["Mcp-Session-Id"] = h["Mcp-Session-Id"]
						a := c.send(r)
						if a.want(w, method, tt.status, jsonrpc.InvalidRequest); !strings.Contains(a.says(), tt.says) {
							w.Errorf("%s is refused with %q", method, a.says())
						}
					}
				}
				if sent := records.of("tools/call"); len(sent) > 0 {
					w.Errorf("the server is sent %v", sent)
				}
			}, one)
		})
	}
}

// The sessions with servers that were opened for a client end with its own.
func TestEndedSessionsEndAtServers(t *testing.T) {
	one := serves("one", legacy)
	run(t, func(w *world) {
		c := w.calls(legacy)
		c.call("one__tools_a").wantOf(w, "one")
		used, before := one.last(t, "tools/call").Header.Get("Mcp-Session-Id"), one.Count("DELETE")
		a := c.send(c.request(http.MethodDelete, "/mcp", ""))
		if a.want(w, "DELETE", http.StatusNoContent, 0); a.status() != "detail=own" {
			w.Errorf("the end is answered with %s", a)
		}
		w.after(time.Minute)
		if n := one.Count("DELETE") - before; n != 1 || one.last(t, "DELETE").Header.Get("Mcp-Session-Id") != used {
			w.Errorf("%d sessions end at the server", n)
		}
	}, one)
}

// A request is told that its session was ended if that happens while it waits for a server.
func TestSessionsThatEndMeanwhile(t *testing.T) {
	one := serves("one").with(func(m *member) { m.of.Rules = policytest.Parse(t, "deny tools hint:destructive") })
	one.On("tools/list", annotated("read"))
	run(t, func(w *world) {
		c, comes := w.calls(legacy), make(chan struct{})
		one.On("tools/list", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
			<-comes
			return annotated("read")(w, r, c)
		})
		w.outdate(one, revision.Tools)
		a, leave := c.begin(c.request(http.MethodPost, "/mcp", c.message("tools/call", `"name":"one__read"`)))
		defer leave()
		c.send(c.request(http.MethodDelete, "/mcp", "")).want(w, "DELETE", http.StatusNoContent, 0)
		close(comes)
		w.after(time.Second)
		if a.want(w, "the call", http.StatusNotFound, jsonrpc.InvalidRequest); a.says() != "Session not found: it was ended" {
			w.Errorf("the client is told %q", a.says())
		}
	}, one)
}

// An empty result answers a ping. A client that rather has a stream is given one.
func TestPings(t *testing.T) {
	run(t, func(w *world) {
		c := w.calls(legacy)
		for accept, want := range map[string]string{
			"application/json, text/event-stream": "application/json", "": "application/json",
			"application/json;q=0.5, text/event-stream": "text/event-stream",
		} {
			a := c.ask("ping", "", "Accept", accept)
			a.want(w, "ping", http.StatusOK, 0)
			got, response := a.Header().Get("Content-Type"), a.response()
			if got != want || string(response.Result) != "{}" || string(response.ID) != fmt.Sprint(c.sent) {
				w.Errorf("a ping with Accept: %q is answered with %s: %s", accept, got, a)
			}
			if length := a.Header().Get("Content-Length"); length != fmt.Sprint(a.Body.Len()) {
				w.Errorf("the answer has %s bytes, want %d", length, a.Body.Len())
			}
			if cached := a.Header().Get("Cache-Control"); (cached == "no-cache") != (want == "text/event-stream") {
				w.Errorf("the answer says Cache-Control: %q", cached)
			}
		}
	}, serves("one"))
}

// Servers are told which log messages a client wants. A level that does not exist is refused.
func TestLevels(t *testing.T) {
	one := serves("one", modern)
	run(t, func(w *world) {
		records, c := one.records(), w.calls(legacy)
		for level, want := range map[string]bool{"debug": true, "emergency": true, "loud": false, "": false, "Debug": false} {
			a := c.ask("logging/setLevel", fmt.Sprintf(`"level":%q`, level))
			if !want {
				if a.want(w, level, http.StatusOK, jsonrpc.InvalidParams); !strings.HasPrefix(a.says(), "level is none of debug, info, ") {
					w.Errorf("%s is refused with %q", level, a.says())
				}
				continue
			}
			if a.want(w, level, http.StatusOK, 0); string(a.response().Result) != "{}" {
				w.Errorf("%s is answered with %s", level, a)
			}
			c.call("one__tools_a").wantOf(w, "one")
			if sent := records.of("tools/call"); len(sent) != 1 || !strings.Contains(sent[0].body, fmt.Sprintf(`logLevel":%q`, level)) {
				w.Errorf("the server is sent %v, want the level %s", sent, level)
			}
		}
	}, one)
}

// The endpoint accepts notifications and answers of a client. A server is told of the end of a request that it works on.
func TestNotificationsOfLegacyClients(t *testing.T) {
	one := serves("one", legacy)
	one.On("tools/call", clienttest.Hang)
	run(t, func(w *world) {
		records, c := one.records(), w.calls(legacy)
		r := c.request(http.MethodPost, "/mcp", c.message("tools/call", `"name":"one__tools_a"`))
		a, leave := c.begin(r)
		defer leave()
		opened := one.last(t, "tools/call").Header.Get("Mcp-Session-Id")
		for _, body := range []string{
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":7,"result":{}}`,
			`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":""}}`, `{"jsonrpc":"2.0","method":"made/up"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`,
			`{"jsonrpc":"2.0","method":"initialize","params":{}}`,
		} {
			got := c.post(body)
			if got.want(w, body, http.StatusAccepted, 0); got.Body.Len() > 0 || got.status() != "detail=own" {
				w.Errorf("%s is answered with %s", body, got)
			}
		}
		if sent := records.of("notifications/cancelled"); len(sent) > 0 {
			w.Errorf("the server is sent %v", sent)
		}
		other := w.calls(legacy)
		cancel := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"late"}}`, c.sent)
		other.post(cancel).want(w, "a cancellation of another's request", http.StatusAccepted, 0)
		if n := one.Count("notifications/cancelled"); n > 0 || a.isOver() {
			w.Errorf("the server is told %d times that another's request is cancelled", n)
		}
		c.post(cancel).want(w, "a cancellation", http.StatusAccepted, 0)
		sent := records.of("notifications/cancelled")
		if len(sent) != 1 || sent[0].Header.Get("Mcp-Session-Id") != opened || !strings.Contains(sent[0].body, `"reason":"late"`) {
			w.Errorf("in the session %s, the server is sent %v", opened, sent)
		}
	}, one)
}

// A client is told to try again while as many sessions are in use as may be. It is answered once one of them is idle.
func TestSessionsWithoutAPlace(t *testing.T) {
	one := serves("one", legacy)
	runWith(t, setup{settings: func(s *Settings) { s.Sessions.SetLimit(1) }}, func(w *world) {
		first, second := w.calls(legacy), w.calls(legacy)
		one.On("tools/call", clienttest.Hang)
		_, leave := first.begin(first.request(http.MethodPost, "/mcp", first.message("tools/call", `"name":"one__tools_a"`)))
		for method, params := range map[string]string{"tools/call": `"name":"one__tools_a"`, "logging/setLevel": `"level":"info"`} {
			a := second.ask(method, params)
			a.want(w, method, http.StatusServiceUnavailable, jsonrpc.InternalError)
			if !strings.Contains(a.says(), "max_sessions") || a.Header().Get("Retry-After") != "1" {
				w.Errorf("%s is refused with %s", method, a)
			}
		}
		second.list(revision.Tools).want(w, "a list", http.StatusOK, 0) // which needs no place
		leave()
		one.On("tools/call", echoes(one))
		second.call("one__tools_a").wantOf(w, "one")
		first.call("one__tools_a").wantOf(w, "one") // the other's is idle
		second.ask("logging/setLevel", `"level":"info"`).want(w, "a level", http.StatusOK, 0)
		first.call("one__tools_a").wantOf(w, "one")
	}, one)
}

// The endpoint waits for the secrets of sessions that were opened before a restart. A client is told to try again, and not
// that its session is over, where they do not come.
func TestSessionsFromBeforeARestart(t *testing.T) {
	for name, tt := range map[string]struct {
		settled, tried time.Duration // after the restart
		waited         time.Duration
		status         int
	}{
		"they come":       {time.Second, time.Minute, time.Second, http.StatusOK},
		"they do not":     {time.Minute, time.Second, time.Second, http.StatusServiceUnavailable},
		"they come later": {20 * time.Second, time.Minute, secretsWithin, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				c, before, after := w.calls(legacy), w.Settings.Sealer(), session.NewSealer(secret.Ring{secret.New()})
				settled, tried := make(chan struct{}), make(chan struct{})
				w.Settings.Settled, w.Settings.Tried = settled, tried
				w.Settings.Sealer = func() *seal.Sealer {
					select {
					case <-settled:
						return before
					default:
						return after
					}
				}
				time.AfterFunc(tt.settled, func() { close(settled) })
				time.AfterFunc(tt.tried, func() { close(tried) })
				began := time.Now()
				a := c.ask("ping", "")
				if waited := time.Since(began); waited != tt.waited || a.Code != tt.status {
					w.Errorf("after %s, the client is told %s, want %d after %s", waited, a, tt.status, tt.waited)
				}
				if again := a.Header().Get("Retry-After") == "1"; again != (tt.status != http.StatusOK) {
					w.Errorf("the client is told %v", a.Header())
				}
				w.after(time.Minute)
				c.ask("ping", "").want(w, "a ping after that", http.StatusOK, 0)
			}, serves("one"))
		})
	}
}

// A session that is opened before the secrets are there waits for them, as long as the option gate says.
func TestNewSessionsAwaitSecrets(t *testing.T) {
	run(t, func(w *world) {
		w.Settings.Settled, w.Settings.Tried = make(chan struct{}), make(chan struct{})
		began := time.Now()
		w.calls(legacy)
		if waited := time.Since(began); waited != w.Settings.Gate {
			w.Errorf("a new session waits for %s, want %s", waited, w.Settings.Gate)
		}
	}, serves("one"))
}
