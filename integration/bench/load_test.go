package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A load sends what net/http takes for the same request each time, with ids of
// its own, and counts what comes back.
func TestDrive(t *testing.T) {
	var mu sync.Mutex
	ids := make(map[string]bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/mcp" || r.Header.Get("Mcp-Session-Id") != "s" || r.Header.Get("X-More") != "m" {
			t.Errorf("got %s %s %v %s, error %v", r.Method, r.URL, r.Header, body, err)
		}
		id := member(body, "id")
		if want := `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list","params":{"a":1}}`; string(body) != want {
			t.Errorf("got %s, want %s", body, want)
		}
		mu.Lock()
		defer mu.Unlock()
		if ids[id] {
			t.Errorf("the id %s comes twice", id)
		}
		ids[id] = true
		io.WriteString(w, "abc")
	}))
	defer server.Close()
	r := newRequest(server.Listener.Addr().String(), "s", "tools/list", `"a":1`)
	r.header["X-More"] = []string{"m"}
	w, err := r.wire(0)
	if err != nil {
		t.Fatal(err)
	}
	copy(w.raw[w.id:], "1000000999")
	if w.next(); !strings.Contains(string(w.raw), `"id":1000001000,`) {
		t.Errorf("after 1000000999 comes %s", w.raw)
	}
	result, err := drive(r, 3, 50*time.Millisecond)
	if err != nil || result.requests == 0 || result.requests != len(ids) || result.bytes != 3*int64(len(ids)) {
		t.Errorf("got %+v for %d requests, error %v", result, len(ids), err)
	}
	if result.p50 <= 0 || result.p99 < result.p50 || result.elapsed < 50*time.Millisecond {
		t.Errorf("got %+v", result)
	}
	for name, handler := range map[string]http.HandlerFunc{
		"refuses": http.NotFound, "says nothing": func(http.ResponseWriter, *http.Request) {},
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		faulty := httptest.NewServer(handler)
		defer faulty.Close()
		r := newRequest(faulty.Listener.Addr().String(), "s", "tools/list", `"a":1`)
		if _, err := drive(r, 1, time.Minute); err == nil { // the first answer ends it
			t.Errorf("a server that %s is driven", name)
		}
	}
	server.Close()
	if _, err := drive(r, 1, time.Millisecond); err == nil {
		t.Error("a server that is gone is driven")
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for p, want := range map[int]time.Duration{50: 50, 99: 99, 100: 100} {
		if got := percentile(hundred, p); got != want {
			t.Errorf("%d: got %d, want %d", p, got, want)
		}
	}
	if percentile(nil, 50) != 0 || percentile(hundred[:1], 99) != 1 {
		t.Error("few values are too few")
	}
}
