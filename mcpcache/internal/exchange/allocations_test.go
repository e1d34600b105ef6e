//go:build !race

package exchange

import (
	"net/http"
	"testing"
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
