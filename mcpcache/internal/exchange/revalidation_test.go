package exchange

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// slowly is an upstream that takes its time, and counts who asks.
func slowly(d time.Duration, items *string) stand {
	return func(w http.ResponseWriter, r *http.Request) error {
		select {
		case <-time.After(d):
			return listing(*items)(w, r)
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}

// openFor is how long [onOpenStream] leaves a stream open.
const openFor = 6 * time.Second

// onOpenStream is an upstream that answers on a stream after that time, and leaves the
// stream open.
func onOpenStream(d time.Duration, item string) stand {
	return func(w http.ResponseWriter, r *http.Request) error {
		time.Sleep(d)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%s}\n\n", toolsOf(item))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(openFor):
			return nil
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
}

// privateList is a list of the caller with that credential.
func privateList(t *testing.T, f *face, authorization string) *httptest.ResponseRecorder {
	t.Helper()
	r := modernRequest("tools/list", "")
	r.Header.Set("Authorization", authorization)
	return f.serve(t, r)
}

// An upstream that takes longer than a second costs a caller a second once the
// list has expired, and the next one is given the list as it is.
func TestSlowUpstreamIsWaitedForInTheBackground(t *testing.T) {
	for name, list := range map[string]func(*testing.T, *face) *httptest.ResponseRecorder{
		"private": func(t *testing.T, f *face) *httptest.ResponseRecorder { return privateList(t, f, "Bearer a") },
		"session": func(t *testing.T, f *face) *httptest.ResponseRecorder {
			r := legacyRequest(revision.V20251125, "s", "tools/list")
			r.Header.Set("Authorization", "Bearer a")
			return f.serve(t, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				items := "old"
				f := newFace(t, config{Gate: duration(0)})
				f.upstreamIs(slowly(0, &items))
				list(t, f)
				if w := list(t, f); !strings.Contains(w.Header().Get("Cache-Status"), "; hit") {
					t.Fatalf("the second list is %q", w.Header().Get("Cache-Status"))
				}
				items = "new"
				f.upstreamIs(slowly(1500*time.Millisecond, &items))
				time.Sleep(2 * time.Minute)
				f.asked()
				began := time.Now()
				w := list(t, f)
				if took := time.Since(began); took != time.Second || !strings.Contains(w.Body.String(), `"old"`) {
					t.Errorf("the first list came after %s: %s", took, w.Body)
				}
				began = time.Now()
				w = list(t, f) // the same second is not waited for twice
				if took := time.Since(began); took != 0 || !strings.Contains(w.Body.String(), `"old"`) {
					t.Errorf("the second list came after %s: %s", took, w.Body)
				}
				time.Sleep(600 * time.Millisecond)
				began = time.Now()
				w = list(t, f)
				if took := time.Since(began); took != 0 || !strings.Contains(w.Body.String(), `"new"`) ||
					!strings.Contains(w.Header().Get("Cache-Status"), "; hit; ttl=59") {
					t.Errorf("after the upstream's answer, the list came after %s: %q, %s", took, w.Header().Get("Cache-Status"), w.Body)
				}
				if n := f.asked(); n != 1 {
					t.Errorf("the upstream was asked %d times", n)
				}
			})
		})
	}
}

// That the feed gets nothing, as without a credential, says nothing of what the
// upstream gives a caller.
func TestFeedWithoutCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := "old"
		f := newFace(t, config{Gate: duration(0)})
		f.upstreamIs(slowly(0, &items))
		privateList(t, f, "Bearer a")
		items = "new"
		time.Sleep(2 * time.Minute)
		if w := privateList(t, f, "Bearer a"); !strings.Contains(w.Body.String(), `"new"`) {
			t.Errorf("an expired list is given without asking: %q, %s", w.Header().Get("Cache-Status"), w.Body)
		}
	})
}

// Callers with the same credential share one question; others ask for themselves.
func TestRevalidationIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := "old"
		f := newFace(t, config{Gate: duration(0)})
		f.upstreamIs(slowly(0, &items))
		privateList(t, f, "Bearer a")
		privateList(t, f, "Bearer b")
		items = "new"
		f.upstreamIs(slowly(100*time.Millisecond, &items))
		time.Sleep(2 * time.Minute)
		f.asked()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if w := privateList(t, f, []string{"Bearer a", "Bearer b"}[i%2]); !strings.Contains(w.Body.String(), `"new"`) {
					t.Errorf("got %q, %s", w.Header().Get("Cache-Status"), w.Body)
				}
			})
		}
		all.Wait()
		if n := f.asked(); n != 2 {
			t.Errorf("the upstream was asked %d times by two callers", n)
		}
	})
}

// Who is refused meanwhile gets the refusal, not the copy, though another has
// asked.
func TestRefusedWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := "old"
		f := newFace(t, config{Gate: duration(0)})
		f.upstreamIs(slowly(0, &items))
		privateList(t, f, "Bearer a")
		time.Sleep(2 * time.Minute) // the list has expired, the admission has not
		f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
			time.Sleep(500 * time.Millisecond)
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return nil
		})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if w := privateList(t, f, "Bearer a"); w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
					t.Errorf("got %d, %q, %s", w.Code, w.Header().Get("Cache-Status"), w.Body)
				}
			})
		}
		all.Wait()
	})
}

// wantNoRevalidation checks that none is under way: there is room for as many as there may be.
func (f *face) wantNoRevalidation(t *testing.T) {
	t.Helper()
	for i := range maxRevalidations {
		r, first := f.revalidations.Join(asked{question: strconv.Itoa(i)})
		if !first {
			t.Fatalf("there is room for %d more only", i)
		}
		defer r.Land(false, nil)
	}
}

// There is a bound: one caller more gets its stale copy at once.
func TestRevalidationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := "old"
		f := newFace(t, config{Gate: duration(0)})
		f.upstreamIs(slowly(0, &items))
		caller := func(i int) string { return fmt.Sprint("Bearer ", i) }
		for i := range maxRevalidations + 1 {
			privateList(t, f, caller(i))
		}
		f.upstreamIs(hanging)
		time.Sleep(2 * time.Minute)
		f.asked()
		var all sync.WaitGroup
		for i := range maxRevalidations {
			all.Go(func() { privateList(t, f, caller(i)) })
		}
		synctest.Wait()
		began := time.Now()
		w := privateList(t, f, caller(maxRevalidations))
		if took := time.Since(began); took != 0 || !strings.Contains(w.Body.String(), `"old"`) {
			t.Errorf("one more came after %s: %s", took, w.Body)
		}
		all.Wait()
		if n := f.asked(); n != maxRevalidations {
			t.Errorf("the upstream was asked %d times", n)
		}
		// The upstream is given up; there is room again.
		time.Sleep(revalidationTimeout)
		synctest.Wait()
		f.wantNoRevalidation(t)
	})
}

// What the configuration of the upstream's handler uses of a request, it still
// can when the client has gone: placeholders, variables, the original request.
func TestRevalidationHasItsOwnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := "old"
		f := newFace(t, config{Gate: duration(0)})
		f.backend.Placeholders = []string{"http.auth.user.id", "test.absent"}
		request := func() *http.Request {
			r := modernRequest("tools/list", "")
			r.Header.Set("Authorization", "Bearer a")
			repl := caddy.NewReplacer()
			r = caddyhttp.PrepareRequest(r, repl, httptest.NewRecorder(), new(caddyhttp.Server))
			repl.Set("http.auth.user.id", "alice")
			caddyhttp.SetVar(r.Context(), "tenant", "x")
			return r
		}
		f.upstreamIs(slowly(0, &items))
		f.serve(t, request())
		seen := make(chan string, 1)
		f.upstreamIs(func(_ http.ResponseWriter, r *http.Request) error {
			time.Sleep(5 * time.Second)
			repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
			caddyhttp.SetVar(r.Context(), "late", true)
			original := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
			seen <- repl.ReplaceAll("{http.auth.user.id} {test.absent} {http.vars.tenant} {http.request.header.Authorization} ", "-") +
				original.URL.Path + " " + r.Header.Get("Authorization")
			return nil
		})
		time.Sleep(2 * time.Minute)
		r := request()
		if w := f.serve(t, r); !strings.Contains(w.Body.String(), `"old"`) {
			t.Fatalf("got %s", w.Body)
		}
		if got, want := <-seen, "alice - x Bearer a /mcp Bearer a"; got != want {
			t.Errorf("the upstream's handler saw %q, want %q", got, want)
		}
		if caddyhttp.GetVar(r.Context(), "late") != nil {
			t.Error("the client's own request was written to")
		}
	})
}

// A backend that ends takes with it what nobody waits for any more.
func TestRevalidationEndsWithItsBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := "old"
		f := newFace(t, config{Gate: duration(0)})
		f.upstreamIs(slowly(0, &items))
		privateList(t, f, "Bearer a")
		ended := make(chan struct{})
		f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
			defer close(ended)
			return hanging(w, r)
		})
		time.Sleep(2 * time.Minute)
		privateList(t, f, "Bearer a")
		select {
		case <-ended:
			t.Error("it ended with its client")
		default:
		}
		end(t, f.backend.Backend)
		<-ended
	})
}

// A handler that panics when its client has gone harms nobody.
func TestLatePanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := "old"
		f := newFace(t, config{Gate: duration(0)})
		f.upstreamIs(slowly(0, &items))
		privateList(t, f, "Bearer a")
		f.upstreamIs(func(http.ResponseWriter, *http.Request) error {
			time.Sleep(2 * time.Second)
			panic("late")
		})
		time.Sleep(2 * time.Minute)
		if w := privateList(t, f, "Bearer a"); !strings.Contains(w.Body.String(), `"old"`) {
			t.Errorf("got %s", w.Body)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		f.wantNoRevalidation(t)
	})
}

// A client that waits for a revalidation and goes away does not end it.
func TestClientLeavesDuringRevalidation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := "old"
		f := newFace(t, config{Gate: duration(0)})
		f.upstreamIs(slowly(0, &items))
		privateList(t, f, "Bearer a")
		items = "new"
		f.upstreamIs(slowly(500*time.Millisecond, &items))
		time.Sleep(2 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r := modernRequest("tools/list", "").WithContext(ctx)
		r.Header.Set("Authorization", "Bearer a")
		if err := f.ServeHTTP(httptest.NewRecorder(), r, nil); err == nil {
			t.Error("it was answered")
		}
		time.Sleep(time.Second)
		f.asked()
		if w := privateList(t, f, "Bearer a"); !strings.Contains(w.Body.String(), `"new"`) || f.asked() != 0 {
			t.Errorf("got %s", w.Body)
		}
	})
}

// An answer on a stream has come when its event has passed, although the stream goes on:
// for the client that asked, for those who wait for the same, and for whoever asks later.
func TestAnswerComesBeforeItsStreamEnds(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		first string // what the first caller gets
	}{
		"soon":           {100 * time.Millisecond, `"new"`},
		"after a second": {1500 * time.Millisecond, `"old"`},
		"at once":        {0, `"new"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				items := "old"
				f := newFace(t, config{Gate: duration(0)})
				f.upstreamIs(slowly(0, &items))
				privateList(t, f, "Bearer a")
				time.Sleep(2 * time.Minute)
				f.upstreamIs(onOpenStream(c.after, "new"))
				f.asked()
				var wait sync.WaitGroup
				var answers [2]*httptest.ResponseRecorder
				for i := range answers {
					answers[i] = httptest.NewRecorder()
					wait.Go(func() {
						r := modernRequest("tools/list", "")
						r.Header.Set("Authorization", "Bearer a")
						_ = f.ServeHTTP(answers[i], r, nil)
					})
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				for i, w := range answers {
					if !strings.Contains(w.Body.String(), c.first) {
						t.Errorf("caller %d got %s", i, w.Body)
					}
				}
				if hanging := f.backend.Hanging(time.Now()); hanging != (c.first == `"old"`) {
					t.Errorf("hanging: %v", hanging)
				}
				// A caller may ask just when the other's answer has come.
				if n := f.asked(); n == 0 || n > 1 && c.after > 0 {
					t.Errorf("both callers had the upstream asked %d times", n)
				}
				if w := privateList(t, f, "Bearer a"); !strings.Contains(w.Body.String(), `"new"`) || f.asked() != 0 {
					t.Errorf("the next caller got %s", w.Body)
				}
				f.wantNoRevalidation(t)
				wait.Wait()
				time.Sleep(revalidationTimeout)
			})
		})
	}
}

// Programs with the same credentials that call and list at once each see their own change,
// which is announced a little later, or never:
// who has waited for another's list asks for what there is then, and a server that each in
// turn has waited for does not hang.
func TestChangesOfParallelCallers(t *testing.T) {
	for _, c := range []struct {
		takes     time.Duration
		announced bool
	}{{200 * time.Millisecond, true}, {400 * time.Millisecond, true}, {400 * time.Millisecond, false}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFace(t, config{Gate: duration(0)})
			var mu sync.Mutex
			version := 0
			f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
				if r.Header.Get("Mcp-Method") == "tools/call" {
					mu.Lock()
					version++
					mu.Unlock()
					if c.announced {
						time.AfterFunc(300*time.Millisecond, func() { f.backend.Cache.Bump(revision.SetOf(revision.Tools)) })
					}
					return answering(http.StatusOK, "application/json", rpcResult)(w, r)
				}
				mu.Lock()
				items := fmt.Sprint(version)
				mu.Unlock()
				return slowly(c.takes, &items)(w, r)
			})
			privateList(t, f, "Bearer a")
			for range 3 {
				var wait sync.WaitGroup
				for i := range 8 {
					wait.Go(func() {
						time.Sleep(time.Duration(i) * 20 * time.Millisecond)
						r := modernRequest("tools/call", "")
						r.Header.Set("Authorization", "Bearer a")
						_ = f.ServeHTTP(httptest.NewRecorder(), r, nil)
						mu.Lock()
						changed := version
						mu.Unlock()
						var seen int
						body := privateList(t, f, "Bearer a").Body.String()
						if _, list, _ := strings.Cut(body, `"name":"`); true {
							_, _ = fmt.Sscanf(list, "%d", &seen)
						}
						if seen < changed {
							t.Errorf("after change %d: %s", changed, body)
						}
					})
				}
				f.asked()
				wait.Wait()
				if lists := f.asked() - 8; lists > 4 {
					t.Errorf("%d lists were asked for", lists)
				}
				if f.backend.Hanging(time.Now()) {
					t.Error("the server is taken to hang")
				}
				time.Sleep(300 * time.Millisecond)
			}
		})
	}
}
