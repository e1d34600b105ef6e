package exchange

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// spellings are paths that some servers take for their endpoint, and one that
// none does.
var spellings = []string{"/mcp/", "/MCP", "//mcp", "/mcp/.", "/elsewhere"}

// at sends a request to another path.
func at(path string, r *http.Request) *http.Request {
	r.URL.Path = path
	return r
}

// TestSessionsEndElsewhere has a session end by way of another path than the
// endpoint, or come into doubt there.
func TestSessionsEndElsewhere(t *testing.T) {
	const r = revision.V20251125
	method := func(name string) func(*http.Request) {
		return func(r *http.Request) { r.Method = name }
	}
	ping := func(r *http.Request) { editBody(r, "tools/list", "ping") }
	for name, c := range map[string]struct {
		answer stand
		change func(*http.Request)
		alive  bool
	}{
		"DELETE":                {answering(200, "text/plain", ""), method(http.MethodDelete), false},
		"DELETE, refused":       {answering(405, "text/plain", ""), method(http.MethodDelete), false},
		"404 to a list":         {answering(404, "text/plain", ""), func(*http.Request) {}, false},
		"404 to a GET":          {answering(404, "text/plain", ""), method(http.MethodGet), false},
		"401":                   {answering(401, "text/plain", ""), func(*http.Request) {}, false},
		"403":                   {answering(403, "text/plain", ""), func(*http.Request) {}, false},
		"400":                   {answering(400, "text/plain", ""), ping, false},
		"not found":             {answering(200, "application/json", unknownSession), ping, false},
		"not found, events":     {answering(200, "text/event-stream", "data: "+unknownSession+"\n\n"), ping, false},
		"two sessions' DELETE":  {answering(200, "text/plain", ""), func(r *http.Request) { setHeader("Mcp-Session-Id", "o", "s")(r); r.Method = http.MethodDelete }, false},
		"a session of the next": {answering(404, "text/plain", ""), setHeader("Connection", "Mcp-Session-Id"), true},
		"another's 404":         {answering(404, "text/plain", ""), setHeader("Mcp-Session-Id", "other"), true},
		"nobody's 404":          {answering(404, "text/plain", ""), setHeader("Mcp-Session-Id"), true},
		"a result":              {answering(200, "application/json", rpcResult), ping, true},
		"500":                   {answering(500, "text/plain", ""), func(*http.Request) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range spellings {
				f := newFace(t, config{Gate: duration(0)})
				f.session(t, "s", r)
				f.pinned(t, r, cache.Public, time.Hour, 0, "cached")
				f.upstreamIs(c.answer)
				request := at(path, legacyRequest(r, "s", "tools/list"))
				c.change(request)
				if w := f.serve(t, request); w.Header()["Cache-Status"] != nil {
					t.Errorf("%s: Cache-Status is %q", path, w.Header()["Cache-Status"])
				}
				f.upstreamIs(refusing)
				if w := f.serve(t, legacyRequest(r, "s", "tools/list")); (w.Code == http.StatusOK) != c.alive {
					t.Errorf("%s: a list then gave %d, %q", path, w.Code, w.Header().Get("Cache-Status"))
				}
			}
		})
	}
}

// TestRefusalElsewhereRevokes has the upstream refuse credentials at another path.
func TestRefusalElsewhereRevokes(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		f := newFace(t, config{Gate: duration(0)})
		f.letIn(t, "Bearer a", "Bearer b")
		f.pinTools(t)
		if w := f.as(t, "Bearer a", at("/mcp/", modernRequest("tools/call", "")), answering(status, "text/plain", "")); w.Code != status {
			t.Fatalf("the refusal came through as %d", w.Code)
		}
		a, b := f.as(t, "Bearer a", modernRequest("tools/list", ""), refusing), f.as(t, "Bearer b", modernRequest("tools/list", ""), refusing)
		if a.Code != http.StatusTeapot || b.Code != http.StatusOK {
			t.Errorf("after %d, lists gave %d and %d", status, a.Code, b.Code)
		}
	}
}

// TestNobodyIsLetInElsewhere has the upstream answer everything at another path: that
// lets nobody in, and nothing of it is kept.
func TestNobodyIsLetInElsewhere(t *testing.T) {
	const r = revision.V20251125
	for _, path := range spellings {
		f := newFace(t, config{Gate: duration(0)})
		for range 2 {
			f.as(t, "Bearer a", at(path, modernRequest("tools/list", "")), listing("a"))
			f.upstreamIs(listing("a"))
			f.serve(t, at(path, modernRequest("tools/list", "")))
			f.serve(t, at(path, legacyRequest(r, "s", "tools/list")))
			f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
				w.Header().Set("Mcp-Session-Id", "s")
				return answering(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)(w, r)
			})
			f.serve(t, at(path, initializing()))
		}
		if n, _ := f.backend.Admission.Count(); n != 0 {
			t.Errorf("%s: %d callers are known", path, n)
		}
		f.pinTools(t)
		for _, r := range []*http.Request{withAuthorization("Bearer a"), modernRequest("tools/list", ""), legacyRequest(r, "s", "tools/list")} {
			f.upstreamIs(refusing)
			if w := f.serve(t, r); w.Code != http.StatusTeapot {
				t.Errorf("%s: a list then gave %d, %q", path, w.Code, w.Header().Get("Cache-Status"))
			}
		}
		f.session(t, "s", r)
		f.upstreamIs(answering(http.StatusOK, "application/json", rpcResult))
		f.serve(t, at(path, legacyRequest(r, "s", "tools/call")))
		if c := f.backend.Admission.Session("s"); c.Admitted(revision.Tools, time.Now().Add(backend.Defaults().AdmitFor)) {
			t.Errorf("%s: a session was let in for longer", path)
		}
	}
}

// TestNoticesElsewhere sends notices of changes at another path, and what is none.
func TestNoticesElsewhere(t *testing.T) {
	notice := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	site := func() *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		return r
	}
	stream := func() *http.Request {
		r := legacyRequest(revision.V20251125, "s", "")
		r.Method = http.MethodGet
		r.Header.Set("Accept-Encoding", "gzip")
		return r
	}
	for name, c := range map[string]struct {
		request  func() *http.Request
		answer   stand
		change   bool
		encoding string // that the upstream is asked for
	}{
		"on a stream":                  {stream, answering(200, "text/event-stream", noticeOf("tools/list_changed")), true, ""},
		"on a call's stream":           {func() *http.Request { return modernRequest("tools/call", "") }, answering(200, "text/event-stream", noticeOf("tools/list_changed")), true, ""},
		"in a batch":                   {func() *http.Request { return legacyRequest(revision.V20250326, "s", "tools/call") }, answering(200, "application/json", "["+notice+","+rpcResult+"]"), true, ""},
		"to a client that says little": {site, answering(200, "text/event-stream", noticeOf("tools/list_changed")), true, "gzip"},
		"in a compressed stream":       {stream, encodedAs("gzip", answering(200, "text/event-stream", "x")), true, ""},
		"none":                         {stream, answering(200, "text/event-stream", noticeOf("progress")), false, ""},
		"a compressed page":            {site, encodedAs("gzip", answering(200, "text/html", "x")), false, "gzip"},
		"compressed data":              {site, encodedAs("br", answering(200, "application/json", "x")), false, "gzip"},
		"a page about it":              {site, answering(200, "text/html", notice), false, "gzip"},
		"data about it":                {site, answering(200, "application/json", `{"text":`+fmt.Sprintf("%q", notice)+`}`), false, "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range spellings {
				f := newFace(t, config{Gate: duration(0)})
				f.session(t, "s", revision.V20251125)
				mark := f.backend.Cache.Mark(revision.Tools)
				f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
					if got := r.Header.Get("Accept-Encoding"); got != c.encoding {
						t.Errorf("the upstream is asked for %q", got)
					}
					return c.answer(inPieces{w}, r)
				})
				w := f.serve(t, at(path, c.request()))
				if changed := !f.backend.Cache.Current(revision.Tools, mark); changed != c.change {
					t.Errorf("%s: changed %v, want %v: %s", path, changed, c.change, w.Body)
				}
				told := f.backend.Admission.Session("s").NoticeSeen(revision.Tools) != nil
				if want := c.change && c.request().Header.Get("Mcp-Session-Id") == "s"; told != want {
					t.Errorf("%s: told %v, want %v", path, told, want)
				}
			}
		})
	}
}

// inPieces writes a byte at a time.
type inPieces struct{ http.ResponseWriter }

func (w inPieces) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := w.ResponseWriter.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// TestStreamsElsewhere sends each event of a stream through a real connection when
// it is there, and lets a request change to another protocol.
func TestStreamsElsewhere(t *testing.T) {
	f := newFace(t, config{Gate: duration(0)})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := f.ServeHTTP(w, r, nil); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	for _, path := range []string{"/mcp", "/mcp/", "/elsewhere"} {
		t.Run(path, func(t *testing.T) {
			next := make(chan struct{})
			f.upstreamIs(func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "text/event-stream")
				for n := range 3 {
					fmt.Fprintf(w, "data: %d\n\n", n)
					if err := http.NewResponseController(w).Flush(); err != nil {
						return err
					}
					<-next
				}
				return nil
			})
			res, err := http.Get(server.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			lines := bufio.NewReader(res.Body)
			for n := range 3 {
				line, err := lines.ReadString('\n')
				if _, end := lines.ReadString('\n'); err != nil || end != nil || line != fmt.Sprintf("data: %d\n", n) {
					t.Fatalf("got %q, %v", line, err)
				}
				next <- struct{}{}
			}
			f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
				if r.Header.Get("Upgrade") != "echo" || r.Header.Get("Connection") != "Upgrade" || r.Header.Get("X-Hop") != "" {
					return fmt.Errorf("the header is %v", r.Header)
				}
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "echo")
				w.WriteHeader(http.StatusSwitchingProtocols)
				conn, both, err := http.NewResponseController(w).Hijack()
				if err != nil {
					return err
				}
				defer conn.Close()
				line, err := both.ReadString('\n')
				if err != nil {
					return err
				}
				_, err = io.WriteString(conn, line)
				return err
			})
			conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade, X-Hop\r\nX-Hop: a\r\nUpgrade: echo\r\n\r\n", path)
			reader := bufio.NewReader(conn)
			switched, err := http.ReadResponse(reader, nil)
			if err != nil || switched.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("got %v, %v", switched, err)
			}
			_ = switched.Body.Close()
			fmt.Fprintln(conn, "hello")
			if line, err := reader.ReadString('\n'); err != nil || line != "hello\n" {
				t.Errorf("got %q, %v", line, err)
			}
		})
	}
}
