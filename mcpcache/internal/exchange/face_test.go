package exchange

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache/cachetest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// stand stands for the upstream's handler.
type stand func(http.ResponseWriter, *http.Request) error

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (s stand) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return s(w, r)
}

// config is what a test wants otherwise than by default, in the words of the
// configuration.
type config struct {
	Gate                        *time.Duration
	Scope, Admit, Name          string
	MaxList, MaxRequest, Memory int64
	Origins, Kinds, Partition   []string
	Harmless, Rules             []string
	Uncompressed                bool
	StaleAfterNotice            bool
}

func duration(d time.Duration) *time.Duration { return new(d) }

// ref returns the settings of requests, and what uses a server that upstream
// stands for.
func (c config) ref(tb testing.TB, upstream stand) (Settings, *backend.Ref) {
	tb.Helper()
	s, b := Defaults(), backend.Defaults()
	s.Name, s.MaxRequest = cmp.Or(c.Name, s.Name), cmp.Or(c.MaxRequest, s.MaxRequest)
	if c.Gate != nil {
		b.Gate = *c.Gate
	}
	b.AdmitAll, b.Feed.PublicByDefault, b.Precompress = c.Admit == "all", c.Scope == "public", !c.Uncompressed
	b.Stale.AfterNotice = c.StaleAfterNotice
	b.Feed.MaxList, b.Memory = cmp.Or(c.MaxList, b.Feed.MaxList), cmp.Or(c.Memory, b.Memory)
	if c.Kinds != nil {
		b.Kinds = 0
		for _, name := range c.Kinds {
			k, known := revision.ParseKind(name)
			if !known {
				tb.Fatalf("there is no kind %q", name)
			}
			b.Kinds |= revision.SetOf(k)
		}
		b.Feed.Kinds = b.Kinds
	}
	t := &backend.Ref{Upstream: upstream, Settings: b, Store: storetest.NewTrial(), Logger: zap.NewNop()}
	t.Identity.Partition = c.Partition
	var err error
	if s.Origins, err = origin.Parse(c.Origins); err != nil {
		tb.Fatal(err)
	}
	if t.Identity.Harmless, err = identity.ParseHeaders(c.Harmless); err != nil {
		tb.Fatal(err)
	}
	if t.Backend, err = backend.New(tb.Name(), "http://localhost/mcp", t); err != nil {
		tb.Fatal(err)
	}
	t.Identity.Secret = t.Secret
	tb.Cleanup(func() { end(tb, t.Backend) })
	return s, t
}

// end ends a backend, unless the test has, and waits for it.
func end(tb testing.TB, b *backend.Backend) {
	tb.Helper()
	if b.Context().Err() == nil {
		if err := b.Destruct(); err != nil {
			tb.Error(err)
		}
	}
	<-b.Ended()
}

// unobserved wants to know nothing.
type unobserved struct{}

func (unobserved) Answered(outcome.Answered)                {}
func (unobserved) Noticed(revision.KindSet, outcome.Source) {}

// face is an endpoint in front of an upstream that a test can replace. No feed
// has started: what is pinned, the test has pinned.
type face struct {
	*Endpoint
	backend *backend.Ref

	requests atomic.Int64 // that clients' requests made of the upstream
	mu       sync.Mutex
	answer   stand
}

func newFace(tb testing.TB, c config) *face {
	tb.Helper()
	f := &face{answer: func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		return nil
	}}
	// Feeds that requests start get nowhere.
	s, t := c.ref(tb, func(http.ResponseWriter, *http.Request) error {
		return caddyhttp.Error(http.StatusServiceUnavailable, nil)
	})
	t.Attach()
	tb.Cleanup(t.Detach)
	own := *t
	own.Upstream = stand(func(w http.ResponseWriter, r *http.Request) error {
		f.requests.Add(1)
		f.mu.Lock()
		answer := f.answer
		f.mu.Unlock()
		return answer(w, r)
	})
	f.backend = &own
	f.Endpoint = New(s, &own, unobserved{}, zap.NewNop())
	f.Rules = rulesOf(tb, c.Rules)
	return f
}

// pinnedFace returns an endpoint whose snapshot of so many tools is there, and
// whose callers are let in.
func pinnedFace(tb testing.TB, c config, tools int) *Endpoint {
	tb.Helper()
	c.Admit = "all"
	s, t := c.ref(tb, nil)
	t.Cache.SetPrecompress(t.Settings.Precompress)
	t.Cache.Pin(cachetest.Tools(tb, tools))
	e := New(s, t, unobserved{}, zap.NewNop())
	e.Rules = rulesOf(tb, c.Rules)
	return e
}

// compress does now what the background would do some time.
func (e *Endpoint) compress() {
	for len(e.backend.Cache.Wanted()) > 0 {
		e.backend.Compressor.Compress(context.Background(), <-e.backend.Cache.Wanted())
	}
}

// contextOf is the authorization context of a request.
func (f *face) contextOf(r *http.Request) cache.Partition {
	return f.exchange(httptest.NewRecorder(), r).identify()
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
	x := f.exchange(httptest.NewRecorder(), r)
	reason, err := x.understand()
	if err != nil {
		tb.Fatal(err)
	}
	x.context = f.contextOf(r)
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
		Fetched: time.Now().Add(-age), Lifetime: lifetime, Mark: f.backend.Cache.Mark(revision.Tools),
	}
	if !f.backend.Cache.Pin(e) {
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
