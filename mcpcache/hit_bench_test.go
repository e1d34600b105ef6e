package mcpcache

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// contentJSON is what the static handler shares between its answers.
var contentJSON = []string{"application/json"}

// discard is a response writer that keeps nothing.
type discard struct {
	header http.Header
	status int
	bytes  int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }

// toolList returns the result of a tools/list with n tools of 800 bytes.
func toolList(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"ttlMs":3600000,"cacheScope":"public","tools":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool_%d","description":"%s","inputSchema":{"type":"object"}}`, i, strings.Repeat("word ", 140))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// toolsEntry is a public list of n tools.
func toolsEntry(tb testing.TB, n int) *cache.Entry {
	tb.Helper()
	page, err := message.ParsePage(toolList(n), revision.Tools)
	if err != nil {
		tb.Fatal(err)
	}
	return &cache.Entry{
		Kind: revision.Tools, Revision: revision.V20260728, Partition: cache.Public,
		Body: message.Single(revision.Tools, page), Fetched: time.Now(), Lifetime: time.Hour,
	}
}

// pinnedHandler returns a handler whose snapshot of the tools is there, and
// whose callers are let in.
func pinnedHandler(tb testing.TB, tools int) *Handler {
	tb.Helper()
	h := &Handler{}
	settings, err := h.newSettings()
	if err != nil {
		tb.Fatal(err)
	}
	settings.admitAll = true
	h.settings, h.logger = settings, caddy.Log()
	h.status, h.metrics = newStatusTexts("bench"), newRequestMetrics("bench")
	if h.shared, err = newShared("bench", "http://127.0.0.1:1/mcp", &user{settings: settings, logger: h.logger}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { endShared(tb, h.shared) })
	h.shared.cache.SetPrecompress(settings.precompress)
	h.shared.cache.Pin(toolsEntry(tb, tools))
	return h
}

// compress does now what the background would do some time.
func (h *Handler) compress() {
	for len(h.shared.cache.Wanted()) > 0 {
		h.shared.compressor.Compress(context.Background(), <-h.shared.cache.Wanted())
	}
}

const modernList = `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`

// staticHandler reads the request and writes the bytes that a hit would.
func staticHandler(h *Handler) caddyhttp.HandlerFunc {
	body := append(message.AppendPrefix(nil, []byte("7"), time.Hour, true),
		h.shared.cache.Pinned(revision.V20260728, revision.Tools).Body.Bytes...)
	return func(w http.ResponseWriter, r *http.Request) error {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = contentJSON
		w.Header()["Content-Length"] = []string{fmt.Sprint(len(body))}
		w.WriteHeader(http.StatusOK)
		_, err := w.Write(body)
		return err
	}
}

// BenchmarkHit measures what a hit costs inside the handler, next to a handler
// that only reads the request and writes the same bytes; and compressed.
func BenchmarkHit(b *testing.B) {
	for _, tools := range []int{5, 50, 500} {
		h := pinnedHandler(b, tools)
		static := staticHandler(h)
		hit := func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, nil) }
		b.Run(fmt.Sprintf("static/%d", tools), func(b *testing.B) { benchmarkHandler(b, "identity", static.ServeHTTP) })
		b.Run(fmt.Sprintf("hit/%d", tools), func(b *testing.B) { benchmarkHandler(b, "identity", hit) })
		h.compress()
		for _, coding := range []string{"gzip", "zstd"} {
			b.Run(fmt.Sprintf("%s/%d", coding, tools), func(b *testing.B) { benchmarkHandler(b, coding, hit) })
		}
	}
}

// BenchmarkSharedHit measures a hit of a list whose items are shared with
// other lists, so that it has to be put together.
func BenchmarkSharedHit(b *testing.B) {
	for _, tools := range []int{5, 50, 500} {
		h := pinnedHandler(b, tools)
		e := h.shared.cache.Pinned(revision.V20260728, revision.Tools)
		h.shared.cache.Unpin(e.Revision, e.Kind)
		if !h.shared.cache.Put(e) {
			b.Fatal("refused")
		}
		b.Run(fmt.Sprint(tools), func(b *testing.B) {
			benchmarkHandler(b, "identity", func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, nil) })
		})
	}
}

// repeated returns a function that serves the same request each time it is
// called, and the writer of the answers.
func repeated(accepted string, serve func(http.ResponseWriter, *http.Request) error) (once func() error, w *discard) {
	header := http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"}, "User-Agent": {"bench"},
		"Accept-Encoding": {accepted},
	}
	body := bytes.NewReader([]byte(modernList))
	ctx := context.WithValue(context.Background(), caddyhttp.ExtraLogFieldsCtxKey, new(caddyhttp.ExtraLogFields))
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", nil)
	r.Header, r.Body = header, io.NopCloser(body)
	r.ContentLength = int64(len(modernList))
	w = &discard{header: make(http.Header)}
	return func() error {
		body.Reset([]byte(modernList))
		clear(w.header)
		return serve(w, r)
	}, w
}

func benchmarkHandler(b *testing.B, accepted string, serve func(http.ResponseWriter, *http.Request) error) {
	once, w := repeated(accepted, serve)
	b.ReportAllocs()
	for b.Loop() {
		if err := once(); err != nil {
			b.Fatal(err)
		}
	}
	if w.status != http.StatusOK || w.bytes == 0 {
		b.Fatalf("answered with %d, %d bytes", w.status, w.bytes)
	}
}
