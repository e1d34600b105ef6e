package exchange

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

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

const modernList = `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`

// staticHandler reads the request and writes the bytes that a hit would.
func staticHandler(h *Endpoint) caddyhttp.HandlerFunc {
	body := append(message.AppendPrefix(nil, []byte("7"), time.Hour, true),
		h.backend.Cache.Pinned(revision.V20260728, revision.Tools).Body.Bytes...)
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
// that only reads the request and writes the same bytes; with rules that may hide tools,
// and show all of these; and compressed.
func BenchmarkHit(b *testing.B) {
	for _, tools := range []int{5, 50, 500} {
		h := pinnedFace(b, config{}, tools)
		static := staticHandler(h)
		hit := func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, nil) }
		b.Run(fmt.Sprintf("static/%d", tools), func(b *testing.B) { benchmarkHandler(b, "identity", static.ServeHTTP) })
		b.Run(fmt.Sprintf("hit/%d", tools), func(b *testing.B) { benchmarkHandler(b, "identity", hit) })
		ruled := pinnedFace(b, config{Rules: []string{"allow tools tool_*", "deny tools *_drop"}}, tools)
		b.Run(fmt.Sprintf("rules/%d", tools), func(b *testing.B) {
			benchmarkHandler(b, "identity", func(w http.ResponseWriter, r *http.Request) error { return ruled.ServeHTTP(w, r, nil) })
		})
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
		h := pinnedFace(b, config{}, tools)
		e := h.backend.Cache.Pinned(revision.V20260728, revision.Tools)
		h.backend.Cache.Unpin(e.Revision, e.Kind)
		if !h.backend.Cache.Put(e) {
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
