package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// trickling is an upstream that gives one answer to everything, in small pieces.
func trickling(contentType, body string) stand {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", contentType)
		for len(body) > 0 {
			n := min(7, len(body))
			if _, err := io.WriteString(w, body[:n]); err != nil {
				return err
			}
			body = body[n:]
		}
		return nil
	}
}

const hiddenList = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"shown"},{"name":"hidden"},{"name":"other"}]}}`

// Lists that are not from the cache are filtered, whatever they come as.
func TestForwardedListsAreFiltered(t *testing.T) {
	event := "event: message\nid: 7\ndata: " + hiddenList + "\n\n"
	batch := `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`
	for name, q := range map[string]struct {
		r           *http.Request
		answer      stand
		want        string
		replacement bool
	}{
		"JSON":              {r: modernRequest("tools/list", ""), answer: trickling("application/json", hiddenList)},
		"an event stream":   {r: modernRequest("tools/list", ""), answer: trickling("text/event-stream", event)},
		"not to be kept":    {r: withMeta(modernRequest("tools/list", "")), answer: trickling("application/json", hiddenList)},
		"a batch":           {r: withBodyOf(legacyRequest(revision.V20250326, "", "ping"), batch), answer: trickling("application/json", "["+hiddenList+`,{"jsonrpc":"2.0","id":2,"result":{}}]`)},
		"a batch's stream":  {r: withBodyOf(legacyRequest(revision.V20250326, "", "ping"), batch), answer: trickling("text/event-stream", event)},
		"a resumed stream":  {r: resumed("/mcp"), answer: trickling("text/event-stream", event)},
		"another spelling":  {r: elsewhere("/mcp/", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), answer: trickling("application/json", hiddenList)},
		"resumed elsewhere": {r: resumed("/sse"), answer: trickling("text/event-stream", event)},
	} {
		f := ruled(t, config{})
		f.upstreamIs(q.answer)
		w := f.serve(t, q.r)
		got := w.Body.String()
		if strings.Contains(got, "hidden") || !strings.Contains(got, `{"name":"shown"}`) || !strings.Contains(got, `{"name":"other"}`) || w.Code != http.StatusOK {
			t.Errorf("%s: got %d, %s", name, w.Code, got)
		}
		if length := w.Header().Get("Content-Length"); length != "" && length != fmt.Sprint(w.Body.Len()) {
			t.Errorf("%s: Content-Length is %s of %d", name, length, w.Body.Len())
		}
		if used := f.backend.Cache.Work().Used(); used != 0 {
			t.Errorf("%s: %d bytes are still taken from the memory", name, used)
		}
	}
}

// withMeta gives a request a _meta that the cache does not know.
func withMeta(r *http.Request) *http.Request {
	editBody(r, `"_meta":{`, `"_meta":{"x/y":1,`)
	return r
}

func resumed(path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
	r.Header = http.Header{"Accept": {"text/event-stream"}, "Last-Event-Id": {"6"}, "Mcp-Session-Id": {"s"}, "Mcp-Protocol-Version": {"2025-11-25"}}
	return r
}

func elsewhere(path, body string) *http.Request {
	r := legacyRequest(revision.V20251125, "", "ping")
	r.URL.Path = path
	return withBodyOf(r, body)
}

// A list that is larger than max_list, or that nobody can be certain of, is not passed
// on; the cache may have an older one, which is.
func TestListsThatCannotBeFiltered(t *testing.T) {
	long := func(n int) string {
		return strings.Replace(hiddenList, `{"name":"other"}`, `{"name":"other","x":"`+strings.Repeat("x", n)+`"}`, 1)
	}
	most := 1<<20 - len(long(0))
	for name, q := range map[string]struct {
		contentType, body string
		status            int
	}{
		"max_list":          {"application/json", long(most), 200},
		"a byte more":       {"application/json", long(most + 1), 502},
		"not JSON":          {"application/json", hiddenList[:60], 502},
		"repeated members":  {"application/json", strings.Replace(hiddenList, `"tools"`, `"tools":[],"tools"`, 1), 502},
		"of no type":        {"", hiddenList, 502},
		"another type":      {"text/plain", hiddenList, 502},
		"another charset":   {"application/json; charset=utf-16", hiddenList, 502},
		"an event too long": {"text/event-stream", "data: " + long(most+1) + "\n\n", 200},
	} {
		f := ruled(t, config{MaxList: 1 << 20})
		f.upstreamIs(trickling(q.contentType, q.body))
		w := httptest.NewRecorder()
		err := f.ServeHTTP(w, modernRequest("tools/list", ""), nil)
		got := w.Body.String()
		if w.Code != q.status || strings.Contains(got, "hidden") {
			t.Errorf("%s: got %d, %.200s", name, w.Code, got)
		}
		if cut := name == "an event too long"; (err != nil) != cut {
			t.Errorf("%s: the handler has returned %v", name, err)
		}
		if q.status == 502 && (!strings.Contains(got, `"code":-32603`) || !strings.Contains(got, `"id":1,`)) {
			t.Errorf("%s: the refusal is %s", name, got)
		}
		if used := f.backend.Cache.Work().Used(); used != 0 {
			t.Errorf("%s: %d bytes are still taken from the memory", name, used)
		}
	}
}

// A caller who has waited for what another asks is given one answer too.
func TestUnreadableAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := ruled(t, config{Gate: duration(0)})
		items := "shown"
		f.upstreamIs(slowly(0, &items))
		privateList(t, f, "Bearer a")
		time.Sleep(2 * time.Minute)
		f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
			time.Sleep(100 * time.Millisecond)
			w.Header().Set("Content-Type", "text/html")
			_, err := io.WriteString(w, "<html>hidden</html>")
			return err
		})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if w := privateList(t, f, "Bearer a"); w.Code != http.StatusBadGateway || !json.Valid(w.Body.Bytes()) {
					t.Errorf("got %d, %q", w.Code, w.Body)
				}
			})
		}
		all.Wait()
	})
}

// What rules say nothing of goes as it is, byte by byte and as soon as it comes.
func TestOtherAnswersAreNotHeldBack(t *testing.T) {
	f := ruled(t, config{})
	const text = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"
	for name, r := range map[string]*http.Request{
		"a call": calling("shown"), "discover": modernRequest("server/discover", ""), "prompts": modernRequest("prompts/list", ""),
	} {
		first := make(chan string, 1)
		f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_, err := io.WriteString(w, text)
			if err == nil {
				err = http.NewResponseController(w).Flush()
			}
			select {
			case got := <-first:
				if got != text {
					t.Errorf("%s: after the first event the client had %q", name, got)
				}
			default:
				t.Errorf("%s: the first event is held back", name)
			}
			return err
		})
		w := &flushing{ResponseRecorder: httptest.NewRecorder(), first: first}
		if err := f.ServeHTTP(w, r, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// On no stream is a caller told that a resource has changed that is hidden; what else a
// call is answered with goes as it is.
func TestNoticesOfHiddenResources(t *testing.T) {
	notice := func(uri string) string {
		return `data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}` + "\n\n"
	}
	const result = `data: {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hidden"}]}}` + "\n\n"
	body := notice("test://hidden/1") + notice("test://shown") + result
	for name, r := range map[string]*http.Request{
		"a call": calling("shown"), "a subscription": modernRequest("subscriptions/listen", ""), "a GET": resumed("/mcp"), "a GET elsewhere": resumed("/sse"),
	} {
		f := ruled(t, config{})
		f.upstreamIs(trickling("text/event-stream", body))
		if got := f.serve(t, r).Body.String(); got != notice("test://shown")+result {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// flushing says what it has when it is flushed for the first time.
type flushing struct {
	*httptest.ResponseRecorder
	first chan<- string
	said  bool
}

func (f *flushing) FlushError() error {
	if !f.said {
		f.said = true
		f.first <- f.Body.String()
	}
	return nil
}

// What the upstream has answered is not said to be a refusal of ours where that cannot be
// filtered, at whatever path; a list from memory that cannot be shown is.
func TestWhoseAnswerCannotBeFiltered(t *testing.T) {
	f := ruled(t, config{})
	two, err := message.ParsePage([]byte(`{"tools":[{"name":"shown"}],"prompts":[{"name":"hidden"}]}`), revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	f.backend.Cache.Pin(&cache.Entry{
		Kind: revision.Tools, Revision: revision.V20260728, Partition: cache.Public, Body: message.Single(revision.Tools, two),
		Fetched: time.Now(), Lifetime: time.Hour, Mark: f.backend.Cache.Mark(revision.Tools),
	})
	for _, q := range []struct {
		r    *http.Request
		want string
	}{
		{elsewhere("/mcp/", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), ""},
		{modernRequest("prompts/list", ""), "mcp_cache; fwd=uri-miss"},
		{modernRequest("tools/list", ""), deniedStatus},
	} {
		f.upstreamIs(trickling("text/html", "<html>"))
		w := f.serve(t, q.r)
		if got := w.Header().Get("Cache-Status"); w.Code != http.StatusBadGateway || got != q.want {
			t.Errorf("%s: got %d, %q, want %q", q.r.URL, w.Code, got, q.want)
		}
	}
}

// endless is an upstream whose answers never end: it writes for as long as somebody reads,
// and aborts then, as reverse_proxy does. Of one that is read for ever it tells.
func endless(t *testing.T, status int, contentType, begins string) stand {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, err := io.WriteString(w, begins)
		for n := 0; err == nil; n += 32 << 10 {
			if n > 64<<20 {
				t.Error("it is read on and on")
				return nil
			}
			_, err = w.Write(bytes.Repeat([]byte("x"), 32<<10))
		}
		panic(http.ErrAbortHandler)
	}
}

// TestEndlessAnswers has a server write for ever what cannot be filtered, or is not passed
// on as there is a copy of the list: it is not read on, and the client is told.
func TestEndlessAnswers(t *testing.T) {
	for name, q := range map[string]struct {
		contentType, begins string
	}{
		"JSON":                     {"application/json", hiddenList[:60]},
		"a page":                   {"text/html", "<html>"},
		"events of unknown coding": {"text/event-stream; charset=utf-16", "data: "},
	} {
		f := ruled(t, config{MaxList: 1 << 20})
		f.upstreamIs(endless(t, http.StatusOK, q.contentType, q.begins))
		w := f.serve(t, modernRequest("tools/list", ""))
		if got := w.Body.String(); w.Code != http.StatusBadGateway || !strings.Contains(got, `"code":-32603`) || !strings.Contains(got, `"id":1,`) {
			t.Errorf("%s: got %d, %.200s", name, w.Code, got)
		}
		if used := f.backend.Cache.Work().Used(); used != 0 {
			t.Errorf("%s: %d bytes are still taken from the memory", name, used)
		}
	}
}
