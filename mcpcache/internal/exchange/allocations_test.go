//go:build !race

package exchange

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// A hit costs at most three allocations more than a handler that only writes
// the same bytes, compressed or not. (With the race detector, pools forget.)
func TestAllocationsOfAHit(t *testing.T) { checkAllocations(t, config{}) }

// Where rules hide something it costs no more.
func TestAllocationsOfAHitWithRules(t *testing.T) {
	checkAllocations(t, config{Rules: []string{"deny X-Guest tools *_1", "deny prompts secret"}})
}

func checkAllocations(t *testing.T, c config) {
	t.Helper()
	h := pinnedFace(t, c, 50)
	first, _ := repeated("identity", func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, nil) })
	if err := first(); err != nil {
		t.Fatal(err)
	}
	h.compress()
	count := func(coding string, serve func(http.ResponseWriter, *http.Request) error) float64 {
		once, w := repeated(coding, serve)
		allocations := testing.AllocsPerRun(1000, func() {
			if err := once(); err != nil {
				t.Fatal(err)
			}
		})
		if got := w.header.Get("Content-Encoding"); got != coding && coding != "identity" {
			t.Errorf("content coding is %q, want %q", got, coding)
		}
		return allocations
	}
	limit := count("identity", staticHandler(h)) + 3
	for _, coding := range []string{"identity", "gzip", "zstd"} {
		got := count(coding, func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, nil) })
		if got > limit {
			t.Errorf("%s: %v allocations, want at most %v", coding, got, limit)
		}
	}
}

// A call that is passed on costs at most eight allocations more than the server's answer to it.
func TestAllocationsOfACall(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	f.pin(t, revision.V20251125, `{"name":"add"}`)
	f.session(t, "session", revision.V20251125)
	server := answering(http.StatusOK, "application/json", callAnswer)
	f.upstreamIs(server)
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}`
	count := func(serve func(http.ResponseWriter, *http.Request) error) float64 {
		return testing.AllocsPerRun(1000, func() {
			r := legacyRequest(revision.V20251125, "session", "tools/call")
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(call)), int64(len(call))
			w := &discard{header: make(http.Header)}
			if err := serve(w, r); err != nil || w.bytes != len(callAnswer) {
				t.Fatalf("got %d bytes, error %v", w.bytes, err)
			}
		})
	}
	alone := count(server)
	if through := count(func(w http.ResponseWriter, r *http.Request) error { return f.ServeHTTP(w, r, nil) }); through > alone+8 {
		t.Errorf("%v allocations, the server alone %v", through, alone)
	}
}
