package mcpcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// stand stands for the upstream's handler.
type stand func(http.ResponseWriter, *http.Request) error

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (s stand) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return s(w, r)
}

// settingsOf returns a handler's settings.
func settingsOf(tb testing.TB, h *Handler) *settings {
	tb.Helper()
	s, err := h.newSettings()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// face is a handler in front of an upstream that a test can replace. No feed
// has started: what is pinned, the test has pinned.
type face struct {
	*Handler

	requests atomic.Int64 // that clients' requests made of the upstream
	mu       sync.Mutex
	answer   stand
}

func newFace(tb testing.TB, h *Handler) *face {
	tb.Helper()
	f := &face{Handler: h, answer: func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		return nil
	}}
	h.settings, h.logger = settingsOf(tb, h), zap.NewNop()
	h.status, h.metrics = newStatusTexts(h.settings.name), newRequestMetrics(h.settings.name)
	h.restless = newRestless()
	h.upstream = stand(func(w http.ResponseWriter, r *http.Request) error {
		f.requests.Add(1)
		f.mu.Lock()
		answer := f.answer
		f.mu.Unlock()
		return answer(w, r)
	})
	// Feeds that requests start get nowhere.
	down := stand(func(http.ResponseWriter, *http.Request) error {
		return caddyhttp.Error(http.StatusServiceUnavailable, nil)
	})
	u := &user{handler: down, settings: h.settings, store: storetest.NewTrial(), logger: h.logger}
	s, err := newShared(tb.Name(), "http://localhost/mcp", u)
	if err != nil {
		tb.Fatal(err)
	}
	h.shared = s
	detach := s.attach(u)
	tb.Cleanup(func() {
		detach()
		endShared(tb, s)
	})
	return f
}

// endShared ends what is shared and waits for it.
func endShared(tb testing.TB, s *shared) {
	tb.Helper()
	if err := s.Destruct(); err != nil {
		tb.Error(err)
	}
	<-s.ended
}

// asked returns how many requests have reached the upstream since the last call.
func (f *face) asked() int64 { return f.requests.Swap(0) }

// upstreamIs makes the upstream answer like that from now on.
func (f *face) upstreamIs(answer stand) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// serve sends a request through the handler.
func (f *face) serve(tb testing.TB, r *http.Request) *httptest.ResponseRecorder {
	tb.Helper()
	w := httptest.NewRecorder()
	if err := f.ServeHTTP(w, r, nil); err != nil {
		tb.Fatalf("the handler failed: %v", err)
	}
	return w
}

// question takes a request as far as the decision whether the cache may be
// asked.
func (f *face) question(tb testing.TB, r *http.Request) (*exchange, bypass) {
	tb.Helper()
	x := &exchange{h: f.Handler, w: httptest.NewRecorder(), r: r, now: time.Now()}
	if session := r.Header["Mcp-Session-Id"]; len(session) == 1 {
		x.session = session[0]
	}
	reason, err := x.understand()
	if err != nil {
		tb.Fatal(err)
	}
	x.context = f.contextOf(r, replacerOf(r))
	return x, reason
}

// pinned makes a list of those items the feed's snapshot.
func (f *face) pinned(tb testing.TB, r revision.Revision, p cache.Partition, lifetime, age time.Duration, items ...string) *cache.Entry {
	tb.Helper()
	page, err := message.ParsePage(toolsOf(items...), revision.Tools)
	if err != nil {
		tb.Fatal(err)
	}
	e := &cache.Entry{
		Kind: revision.Tools, Revision: r, Partition: p, Body: message.Single(revision.Tools, page),
		Fetched: time.Now().Add(-age), Lifetime: lifetime, Mark: f.shared.cache.Mark(revision.Tools),
	}
	if !f.shared.cache.Pin(e) {
		tb.Fatal("the snapshot is not pinned")
	}
	return e
}

// toolsOf returns the result of a tools/list.
func toolsOf(names ...string) []byte {
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = fmt.Sprintf(`{"name":%q}`, name)
	}
	return fmt.Appendf(nil, `{"resultType":"complete","tools":[%s],"ttlMs":60000,"cacheScope":"private"}`, strings.Join(items, ","))
}

// listing is an upstream that answers with a tools/list of those items.
func listing(names ...string) stand {
	return func(w http.ResponseWriter, r *http.Request) error {
		return respond(w, r, toolsOf(names...))
	}
}

// respond answers a request with a result.
func respond(w http.ResponseWriter, r *http.Request, result []byte) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var request message.Request
	if err := message.Decode(body, &request); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, result)
	return err
}

const bothTypes = "application/json, text/event-stream"

// modernMeta is the _meta that a modern request must have.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// modernRequest is a valid request of the modern era with those params.
func modernRequest(method, params string) *http.Request {
	if params != "" {
		params += ","
	}
	r := post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, params, modernMeta))
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	return r
}

// legacyRequest is a valid request of a legacy session; an empty one is none.
func legacyRequest(r revision.Revision, session, method string) *http.Request {
	req := post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q}`, method))
	req.Header.Set("Mcp-Protocol-Version", r.String())
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	return req
}

// post is a request with that body, as Caddy hands it over.
func post(body string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {bothTypes}}
	return r
}

// withBody replaces the body of a request.
func withBody(r *http.Request, body string) {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
}

// editBody replaces a part of the body of a request, which must be there.
func editBody(r *http.Request, old, replacement string) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !bytes.Contains(body, []byte(old)) {
		panic(fmt.Sprintf("no %s in %s: %v", old, body, err))
	}
	withBody(r, strings.Replace(string(body), old, replacement, 1))
}

// withReplacer gives a request placeholders.
func withReplacer(r *http.Request, values map[string]string) *http.Request {
	repl := caddy.NewEmptyReplacer()
	for key, value := range values {
		repl.Set(key, value)
	}
	return r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl))
}

// The feeds start, and what is shared ends, whatever the store does.
func TestFeedsDoNotWaitForAStore(t *testing.T) {
	for name, trouble := range map[string]func(<-chan struct{}) error{
		"hangs":  func(release <-chan struct{}) error { <-release; return nil },
		"panics": func(<-chan struct{}) error { panic("no room") },
		"fails":  func(<-chan struct{}) error { return errors.New("no room") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				store := storetest.NewTrial()
				store.SetTrouble(func(context.Context, string, string) error { return trouble(release) })
				down := stand(func(http.ResponseWriter, *http.Request) error {
					return caddyhttp.Error(http.StatusBadGateway, errors.New("down"))
				})
				u := &user{handler: down, settings: settingsOf(t, &Handler{}), store: store, logger: zap.NewNop()}
				s, err := newShared("upstream", "http://localhost/mcp", u)
				if err != nil {
					t.Fatal(err)
				}
				detach := s.attach(u)
				s.run()
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if s.feeds.Of(revision.LatestModern) == nil || s.feeds.Of(revision.LatestLegacy) == nil {
					t.Error("the feeds have not started")
				}
				start := time.Now()
				detach()
				endShared(t, s)
				if took := time.Since(start); took > farewellTimeout {
					t.Errorf("the end took %v, more than %v", took, farewellTimeout)
				}
			})
		})
	}
}
