package exchange

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// modernTools is a list that is kept, for whoever has asked.
const modernTools = `{"resultType":"complete","tools":[{"name":"a"}],"ttlMs":60000,"cacheScope":"private"}`

// A herd of sessions with one credential makes one request for a list of its own of
// which there is no copy, and what is not kept is asked for by each, at once.
func TestHerdOfOneCredential(t *testing.T) {
	const callers, takes = 20, 2 * time.Second
	const legacy = revision.V20251125
	type result struct {
		code   int
		status string
		took   time.Duration
	}
	answer := func(status int, result string) stand {
		return func(w http.ResponseWriter, r *http.Request) error {
			time.Sleep(takes)
			if status != http.StatusOK {
				w.WriteHeader(status)
				return nil
			}
			return respond(w, r, []byte(result))
		}
	}
	kept := `{"tools":[{"name":"a"}]}`
	for name, c := range map[string]struct {
		upstream    stand
		credentials int
		before      bool // whether the upstream has answered before, somebody else
		requests    int64
		took        time.Duration // of the last one
		code        int
	}{
		"one credential":      {answer(200, kept), 1, false, 1, takes, 200},
		"three credentials":   {answer(200, kept), 3, false, 3, takes, 200},
		"not kept":            {answer(200, `{"tools":[{"name":"a"}],"ttlMs":0}`), 1, true, callers, takes, 200},
		"not kept, not known": {answer(200, `{"tools":[{"name":"a"}],"ttlMs":0}`), 1, false, callers, 2 * takes, 200},
		"refused":             {answer(401, ""), 1, false, callers, 2 * takes, 401},
		"failing":             {answer(503, ""), 1, false, callers, 2 * takes, 503},
		"hanging": {func(_ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			return r.Context().Err()
		}, 1, false, callers, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFace(t, config{Gate: duration(0)})
				f.upstreamIs(c.upstream)
				request := func(session, credential string) *http.Request {
					r := legacyRequest(legacy, session, "tools/list")
					r.Header.Set("Authorization", credential)
					return r
				}
				let := func(session, credential string) {
					f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
						w.Header().Set("Mcp-Session-Id", session)
						return respond(w, r, []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`))
					})
					r := post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
					r.Header.Set("Authorization", credential)
					f.serve(t, r)
					f.upstreamIs(c.upstream)
				}
				if c.before {
					let("before", "Bearer another")
					f.serve(t, request("before", "Bearer another"))
				}
				for i := range callers {
					let(fmt.Sprint(i), fmt.Sprint("Bearer ", i%c.credentials))
				}
				before := f.requests.Load()
				began, results := time.Now(), make([]result, callers)
				var all sync.WaitGroup
				for i := range callers {
					all.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						w := httptest.NewRecorder()
						err := f.ServeHTTP(w, request(fmt.Sprint(i), fmt.Sprint("Bearer ", i%c.credentials)).WithContext(ctx), nil)
						if err != nil {
							w.Code = 0
						} else if w.Code == http.StatusOK && !strings.Contains(w.Body.String(), `"a"`) {
							t.Errorf("got %s", w.Body)
						}
						results[i] = result{w.Code, w.Header().Get("Cache-Status"), time.Since(began)}
					})
				}
				all.Wait()
				if got := f.requests.Load() - before; got != c.requests {
					t.Errorf("the upstream was asked %d times, want %d", got, c.requests)
				}
				for _, r := range results {
					if r.code != c.code || r.took > c.took {
						t.Errorf("a caller got %+v, want %d after %v", r, c.code, c.took)
					}
				}
				if c.requests == 1 {
					collapsed := 0
					for _, r := range results {
						if r.status == "mcp_cache; fwd=uri-miss; stored; collapsed" {
							collapsed++
						}
					}
					if collapsed != callers-1 {
						t.Errorf("%d callers shared: %+v", collapsed, results)
					}
				}
			})
		})
	}
}

// Who finds no copy, and then that nobody is asking, may be late: the list has been
// kept in between, and is not asked for again.
func TestLateInAHerd(t *testing.T) {
	const callers = 16
	f := newFace(t, config{Gate: duration(0), Admit: "all"})
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error { return respond(w, r, []byte(modernTools)) })
	for round := range 300 {
		before := f.requests.Load()
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				r := post(modernList)
				r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
				r.Header.Set("Mcp-Method", "tools/list")
				r.Header.Set("Authorization", fmt.Sprint("Bearer ", round))
				f.serve(t, r)
			})
		}
		all.Wait()
		// The first list of all tells that lists are kept.
		if got := f.requests.Load() - before; got != 1 && round > 0 {
			t.Errorf("round %d: the upstream was asked %d times", round, got)
		}
	}
}

// Who waits for a list that another caller has asked for does so for five seconds,
// and no longer than its client.
func TestWaitingForAHangingScout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFace(t, config{Gate: duration(0), Admit: "all"})
		hang := func(_ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			return r.Context().Err()
		}
		items := "a"
		f.upstreamIs(slowly(0, &items))
		privateList(t, f, "Bearer before") // lists are kept
		list := func(patience time.Duration) (requests int64, took time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r := modernRequest("tools/list", "")
			r.Header.Set("Authorization", "Bearer a")
			before, began := f.requests.Load(), time.Now()
			_ = f.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx), nil)
			return f.requests.Load() - before, time.Since(began)
		}
		f.upstreamIs(hang)
		go list(time.Minute)
		synctest.Wait()
		if _, took := list(time.Second); took != time.Second {
			t.Errorf("a client that waits for a second waited for %v", took)
		}
		f.upstreamIs(slowly(0, &items))
		if requests, took := list(time.Minute); requests != 1 || took != freshness.Patience-time.Second {
			t.Errorf("%d requests, after %v", requests, took)
		}
		time.Sleep(time.Minute)
	})
}
