package exchange

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// recorded records an answer in pieces and returns the result that was learned.
func recorded(memory *budget.Budget, limit int64, contentType, answer string, piece int, sized bool) (result string, r *recording) {
	header := http.Header{"Content-Type": {contentType}}
	if sized {
		header.Set("Content-Length", fmt.Sprint(len(answer)))
	}
	answers := func(r message.Response) bool { return string(r.ID) == "1" }
	learn := func(r message.Response) { result = string(r.Result) }
	if r = newRecording(memory, header, isStream(contentType), limit, answers, learn); r == nil {
		return "", nil
	}
	for len(answer) > 0 {
		n := min(piece, len(answer))
		if !r.write([]byte(answer[:n])) {
			return result, r
		}
		answer = answer[n:]
	}
	r.read(true)
	return result, r
}

func TestRecording(t *testing.T) {
	want := `{"tools":[{"name":"a","x":"` + strings.Repeat("x", 100_000) + `"}]}`
	own := `{"jsonrpc":"2.0","id":1,"result":` + want + `}`
	other := `{"jsonrpc":"2.0","id":2,"result":` + want + `}`
	for name, answer := range map[string]struct{ contentType, text, want string }{
		"JSON":             {"application/json", own, want},
		"JSON, another's":  {"application/json", other, ""},
		"stream":           {"text/event-stream", ": hello\n\ndata: " + other + "\n\ndata: " + own + "\n\n", want},
		"stream, CRLF":     {"text/event-stream", "data: {}\r\n\r\ndata: " + own + "\r\n\r\ndata: {}\r\n\r\n", want},
		"stream, CR":       {"text/event-stream", "data: {}\r\rdata: " + own + "\r\r", want},
		"stream, cut":      {"text/event-stream", "data: " + own + "\n", ""},
		"stream, no event": {"text/event-stream", "data: {}\n\n", ""},
	} {
		for _, piece := range []int{1, 7, 4 << 10, 1 << 20} {
			for _, sized := range []bool{false, true} {
				memory := budget.New(1 << 20)
				if got, _ := recorded(memory, 1<<20, answer.contentType, answer.text, piece, sized); got != answer.want {
					t.Errorf("%s in pieces of %d: got %.100q, want %.100q", name, piece, got, answer.want)
				}
				if used := memory.Used(); used != 0 {
					t.Errorf("%s in pieces of %d: %d bytes are left", name, piece, used)
				}
			}
		}
	}
}

// An answer of the largest size is recorded, and one that is larger is not, nor
// one for which there is no room. It is known to be a result all the same.
func TestRecordingIsBounded(t *testing.T) {
	result := `{"tools":[{"name":"a","x":"` + strings.Repeat("x", 100_000) + `"}]}`
	answer := `{"jsonrpc":"2.0","id":1,"result":` + result + `}`
	size := int64(len(answer))
	need := size + message.TableSize([]byte(result)) + int64(len(result))
	enough := (need*4 + 2) / 3 // large shares leave a quarter
	for name, c := range map[string]struct {
		memory, limit int64
		want, unread  bool
	}{
		"largest":         {1 << 20, size, true, false},
		"a byte larger":   {1 << 20, size - 1, false, true},
		"just enough":     {enough, size, true, false},
		"one byte short":  {enough - 2, size, false, true},
		"next to nothing": {1, size, false, true},
	} {
		for _, contentType := range []string{"application/json", "text/event-stream"} {
			text := answer
			if contentType == "text/event-stream" {
				text = "data: " + answer + "\n\n"
				if c.limit += 8; strings.Contains(name, "enough") || strings.Contains(name, "short") {
					continue // what is around the answer counts too
				}
			}
			memory := budget.New(c.memory)
			got, r := recorded(memory, c.limit, contentType, text, 4<<10, contentType == "application/json" && c.limit >= size)
			if (got == result) != c.want || !c.want && got != "" {
				t.Errorf("%s, %s: learned %d bytes", name, contentType, len(got))
			}
			_, beginning, _ := strings.Cut(string(r.beginning), "{")
			known := r.isResult || message.Judge([]byte("{"+beginning)) == message.IsResult
			if r.unread != c.unread || c.unread && !known {
				t.Errorf("%s, %s: it is not known to be a result: %t, %q", name, contentType, r.unread, r.beginning)
			}
			if used := memory.Used(); used != 0 {
				t.Errorf("%s, %s: %d bytes are left", name, contentType, used)
			}
		}
	}
	header := http.Header{"Content-Length": {fmt.Sprint(size)}}
	if newRecording(budget.New(1<<20), header, false, size-1, nil, nil) != nil {
		t.Error("an answer is recorded that says it is too large")
	}
}

// A list for which there is no room is passed on whole and not kept, and lets the
// caller in: the next one is a hit of what is there for it.
func TestListWithoutRoom(t *testing.T) {
	f := newFace(t, config{Gate: duration(0), Memory: 1 << 20})
	f.pinned(t, revision.V20260728, cache.Public, 0, 0, "old")
	padding := strings.Repeat("x", 1<<20)
	for name, answer := range map[string]stand{
		"JSON":   answering(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"`+padding+`"}]}}`),
		"stream": answering(http.StatusOK, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[{\"name\":\""+padding+"\"}]}}\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			r := modernRequest("tools/list", "")
			w := f.as(t, "Bearer "+name, r, answer)
			if !strings.Contains(w.Body.String(), padding) {
				t.Errorf("got %d bytes", w.Body.Len())
			}
			if used := f.backend.Cache.Work().Used(); used != 0 {
				t.Errorf("%d bytes are reserved", used)
			}
			again := modernRequest("tools/list", "")
			again.Header.Set("Authorization", "Bearer "+name)
			x, _ := f.question(t, again)
			if c := x.caller(); c == nil || !c.Admitted(revision.Tools, x.now) {
				t.Error("the caller was not let in")
			}
		})
	}
}

// An upstream's handler that aborts leaves nothing reserved.
func TestAbortedRecordingIsGivenBack(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[`))
		if f.backend.Cache.Work().Used() == 0 {
			t.Error("nothing is recorded")
		}
		panic(http.ErrAbortHandler)
	})
	func() {
		defer func() { _ = recover() }()
		_ = f.ServeHTTP(httptest.NewRecorder(), modernRequest("tools/list", ""), nil)
	}()
	if used := f.backend.Cache.Work().Used(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// TestHitWithoutRoom has so many bodies being read that another one is the
// upstream's to answer.
func TestHitWithoutRoom(t *testing.T) {
	f := newFace(t, config{Gate: duration(0), Memory: 1 << 20})
	f.pinned(t, revision.V20260728, cache.Public, 0, 0, strings.Repeat("x", 1<<20))
	ledger := f.backend.Admission
	ledger.AdmitContext(cache.Anonymous, revision.V20260728, 0, ledger.Ticket(), time.Now().Add(time.Hour))
	e := f.backend.Cache.Pinned(revision.V20260728, revision.Tools)
	if !f.backend.Cache.Hold(e) {
		t.Fatal("the snapshot is refused")
	}
	newer := f.pinned(t, revision.V20260728, cache.Public, time.Hour, 0, strings.Repeat("y", 1<<20))
	ask := func() string {
		return f.serve(t, modernRequest("tools/list", "")).Header().Get("Cache-Status")
	}
	if got := ask(); got != "mcp_cache; fwd=uri-miss" || f.asked() != 1 {
		t.Errorf("got %q", got)
	}
	f.backend.Cache.Release(e)
	if got := ask(); !strings.HasPrefix(got, "mcp_cache; hit") {
		t.Errorf("got %q with %d bytes", got, newer.Size())
	}
}
