package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answered asks an upstream without a network.
func answered(t *testing.T, u *upstream, c caller, method, name, params string, more ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	request := c.request("h", method, name, params, more...)
	head, body, _ := bytes.Cut(request.Raw, []byte("\r\n\r\n"))
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if name, value, found := strings.Cut(line, ": "); found {
			r.Header.Set(name, value)
		}
	}
	reader := bytes.NewReader(body)
	r.Body = io.NopCloser(reader)
	w := httptest.NewRecorder()
	u.ServeHTTP(w, r)
	if reader.Len() > 0 {
		t.Errorf("%d bytes of the request were not read", reader.Len())
	}
	return w
}

// resultOf returns the result of an answer with that id.
func resultOf(t *testing.T, message []byte) map[string]json.RawMessage {
	t.Helper()
	var m struct {
		ID     json.Number
		Result map[string]json.RawMessage
	}
	if err := json.Unmarshal(message, &m); err != nil || m.ID != firstID || m.Result == nil {
		t.Fatalf("error %v, answer %.200s", err, message)
	}
	return m.Result
}

func TestUpstreamLists(t *testing.T) {
	u := newUpstream(makeTools(3, 1))
	for _, revision := range []string{legacy, modern} {
		w := answered(t, u, caller{revision: revision}, "tools/list", "", "")
		a := &answer{header: w.Header(), body: w.Body.Bytes()}
		if n, err := a.tools(); n != 3 || err != nil {
			t.Errorf("%s: %d tools, error %v", revision, n, err)
		}
		if _, hinted := resultOf(t, a.body)["ttlMs"]; hinted != (revision == modern) {
			t.Errorf("%s: has ttlMs: %v", revision, hinted)
		}
	}
	if got := u.requests.Load(); got != 2 {
		t.Errorf("%d requests counted, want 2", got)
	}
}

func TestUpstreamOpens(t *testing.T) {
	u := newUpstream(nil)
	w := answered(t, u, caller{revision: legacy}, "initialize", "", `"protocolVersion":"2025-06-18"`)
	if got := string(resultOf(t, w.Body.Bytes())["protocolVersion"]); got != `"2025-06-18"` || w.Header().Get("Mcp-Session-Id") == "" {
		t.Errorf("revision %s, header %v", got, w.Header())
	}
	w = answered(t, u, caller{revision: modern}, "server/discover", "", "")
	if got := string(resultOf(t, w.Body.Bytes())["supportedVersions"]); !strings.Contains(got, modern) {
		t.Errorf("supported versions are %s", got)
	}
	if w = answered(t, u, caller{revision: legacy}, "notifications/initialized", "", ""); w.Code != http.StatusAccepted {
		t.Errorf("notification: status %d", w.Code)
	}
	if w = answered(t, u, caller{revision: legacy}, "prompts/list", "", ""); !strings.Contains(w.Body.String(), "-32601") {
		t.Errorf("unknown method: %s", w.Body)
	}
}

func TestUpstreamCalls(t *testing.T) {
	u := newUpstream(nil)
	for _, size := range []int{0, prefixSize, 1 << 20} {
		params := `"name":"echo","arguments":{"text":"` + strings.Repeat("x", size) + `"}`
		w := answered(t, u, caller{revision: legacy}, "tools/call", "echo", params)
		if _, there := resultOf(t, w.Body.Bytes())["content"]; !there {
			t.Errorf("%d bytes: %s", size, w.Body)
		}
	}
	w := answered(t, u, caller{revision: modern}, "tools/call", streamTool, `"name":"`+streamTool+`"`)
	if got := strings.Count(w.Body.String(), "data: "); got != 2 || !w.Flushed {
		t.Errorf("%d events, flushed %v", got, w.Flushed)
	}
	a := &answer{header: w.Header(), body: w.Body.Bytes()}
	if _, there := resultOf(t, a.message())["content"]; !there {
		t.Errorf("the stream ends with %s", a.message())
	}
}

func TestUpstreamGivesCallersTheirLists(t *testing.T) {
	u := &Upstream{upstream: newUpstream(makeTools(3, 1))}
	if err := u.Callers(differentLists, nil); err != nil {
		t.Fatal(err)
	}
	list := func(more ...string) string {
		return answered(t, u.upstream, caller{revision: modern}, "tools/list", "", "", more...).Body.String()
	}
	one, other := list("Authorization: Bearer 1"), list("Authorization: Bearer 2")
	if one == other || !strings.Contains(one, `"cacheScope":"private"`) || !strings.Contains(list(), `"cacheScope":"private"`) {
		t.Errorf("lists of two callers are equal, or somebody's list is public")
	}
}

func TestUpstreamChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &Upstream{upstream: newUpstream(makeTools(3, 1))}
		rest := string(*u.upstream.list.Load())
		changed := make(chan struct{}, 1)
		u.upstream.streams[changed] = struct{}{}
		if err := u.Change(100*time.Millisecond, nil); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{rest: true}
		for range 3 {
			<-changed
			seen[string(*u.upstream.list.Load())] = true
		}
		if len(seen) != 4 {
			t.Errorf("%d different lists after 3 changes", len(seen))
		}
		if err := u.Change(0, nil); err != nil || string(*u.upstream.list.Load()) != rest {
			t.Errorf("error %v, or the list did not become what it was", err)
		}
	}) // which fails if a goroutine is left
}
