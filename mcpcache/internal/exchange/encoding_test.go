package exchange

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode/gzip" // what encode can do
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode/zstd"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// listRequest asks for the tools, and accepts those content codings.
func listRequest(accepted ...string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://localhost/mcp", strings.NewReader(modernList))
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {inbound.UsualAccept},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"},
	}
	if len(accepted) > 0 {
		r.Header["Accept-Encoding"] = accepted
	}
	return r
}

// ask sends a request through a handler and checks that the answer is a hit
// with a length.
func ask(t *testing.T, h caddyhttp.MiddlewareHandler, next caddyhttp.Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	if err := h.ServeHTTP(w, r, next); err != nil {
		t.Fatal(err)
	}
	if status := w.Header().Get("Cache-Status"); w.Code != http.StatusOK || !strings.Contains(status, "; hit") {
		t.Fatalf("answered with %d, %s", w.Code, status)
	}
	if said := w.Header()["Content-Length"]; len(said) != 1 || said[0] != strconv.Itoa(w.Body.Len()) {
		t.Fatalf("said to have %q bytes, has %d", said, w.Body.Len())
	}
	return w
}

// decoded returns the body of an answer without its content coding.
func decoded(t *testing.T, w *httptest.ResponseRecorder) []byte {
	t.Helper()
	return fixture.Decoded(t, &fixture.Answer{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}).Body
}

func TestCompressedHits(t *testing.T) {
	h := pinnedFace(t, config{}, 50)
	plain := ask(t, h, nil, listRequest()).Body.Bytes()
	if w := ask(t, h, nil, listRequest("gzip, zstd")); w.Header().Get("Content-Encoding") != "" || !equalButTTL(w.Body.Bytes(), plain) {
		t.Error("not sent as it is although nothing is compressed yet")
	}
	h.compress()
	for name, c := range map[string]struct {
		accepted []string
		want     string
	}{
		"nothing said":      {nil, ""},
		"empty":             {[]string{""}, ""},
		"identity":          {[]string{"identity"}, ""},
		"gzip":              {[]string{"gzip"}, "gzip"},
		"zstd":              {[]string{"zstd"}, "zstd"},
		"browser":           {[]string{"gzip, deflate, br, zstd"}, "zstd"},
		"Node 20":           {[]string{"br, gzip, deflate"}, "gzip"},
		"two fields":        {[]string{"br", "gzip"}, "gzip"},
		"rather gzip":       {[]string{"zstd;q=0.5, gzip"}, "gzip"},
		"rather identity":   {[]string{"gzip;q=0.5, identity"}, ""},
		"not zstd":          {[]string{"zstd;q=0, gzip;q=0.1"}, "gzip"},
		"other case":        {[]string{"GZip"}, "gzip"},
		"none that is here": {[]string{"br, deflate"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(t, h, nil, listRequest(c.accepted...))
			if got := w.Header().Get("Content-Encoding"); got != c.want {
				t.Errorf("content coding is %q, want %q", got, c.want)
			}
			if got := w.Header()["Vary"]; len(got) != 1 || got[0] != "Accept-Encoding" {
				t.Errorf("varies with %q", got)
			}
			if c.want != "" && w.Body.Len() > len(plain)/4 {
				t.Errorf("%d bytes instead of %d", w.Body.Len(), len(plain))
			}
			if got := decoded(t, w); !equalButTTL(got, plain) {
				t.Errorf("decodes to %.200q, want %.200q", got, plain)
			}
			if got := w.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("content type is %q", got)
			}
		})
	}
}

// equalButTTL compares two answers that were not given at the same time.
func equalButTTL(a, b []byte) bool {
	cut := func(answer []byte) []byte {
		before, after, _ := bytes.Cut(answer, []byte(`"ttlMs":`))
		_, after, _ = bytes.Cut(after, []byte(`,`))
		return append(bytes.Clone(before), after...)
	}
	return len(a) > 0 && bytes.Equal(cut(a), cut(b))
}

func TestCompressedStreams(t *testing.T) {
	h := pinnedFace(t, config{}, 50)
	stream := func(accepted string) *http.Request {
		r := listRequest(accepted)
		r.Header["Accept"] = []string{"application/json;q=0.5, text/event-stream"}
		return r
	}
	message := ask(t, h, nil, listRequest()).Body.Bytes()
	ask(t, h, nil, stream("gzip")) // has it compressed
	h.compress()
	for _, coding := range []string{"identity", "gzip", "zstd"} {
		w := ask(t, h, nil, stream(coding))
		if got := w.Header().Get("Content-Encoding"); got != strings.TrimPrefix(coding, "identity") {
			t.Errorf("%s: content coding is %q", coding, got)
		}
		if w.Header().Get("Content-Type") != "text/event-stream" || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: header is %v", coding, w.Header())
		}
		got := decoded(t, w)
		if !equalButTTL(got, sse.AppendEvent(nil, message)) {
			t.Errorf("%s: decodes to %.200q…%.20q", coding, got, got[len(got)-20:])
		}
		data := sse.Find(got, func(data []byte) bool { return equalButTTL(data, message) })
		if data == nil {
			t.Errorf("%s: the event is not the message", coding)
		}
	}
}

// Compressed answers go through an encode handler as they are; that handler
// still compresses what is not compressed yet.
func TestCompressedHitsBehindEncode(t *testing.T) {
	h := pinnedFace(t, config{}, 50)
	front := &encode.Encode{
		EncodingsRaw: caddy.ModuleMap{
			"gzip": []byte(`{}`), "zstd": []byte(`{}`),
		},
		Prefer: []string{"zstd", "gzip"},
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	if err := front.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, nil) })
	through := func(accepted string) *httptest.ResponseRecorder {
		r := listRequest(accepted)
		r = r.WithContext(context.WithValue(r.Context(), caddyhttp.OriginalRequestCtxKey, *r))
		w := httptest.NewRecorder()
		if err := front.ServeHTTP(w, r, next); err != nil {
			t.Fatal(err)
		}
		return w
	}
	plain := ask(t, h, nil, listRequest()).Body.Bytes()
	for _, ready := range []bool{false, true} {
		if ready {
			h.compress()
		}
		for _, coding := range []string{"gzip", "zstd"} {
			w := through(coding)
			if got := w.Header().Get("Content-Encoding"); got != coding {
				t.Errorf("ready %v: content coding is %q, want %q", ready, got, coding)
			}
			if got := w.Header()["Vary"]; len(got) != 1 || got[0] != "Accept-Encoding" {
				t.Errorf("ready %v: varies with %q", ready, got)
			}
			if got := decoded(t, w); !equalButTTL(got, plain) {
				t.Errorf("ready %v: %s decodes to %.200q", ready, coding, got)
			}
			// The encode handler does not know the length; we do.
			if got := w.Header().Get("Content-Length") != ""; got != ready {
				t.Errorf("ready %v: header is %v", ready, w.Header())
			}
		}
	}
}

func TestPrecompressOff(t *testing.T) {
	h := pinnedFace(t, config{Uncompressed: true}, 50)
	h.compress()
	w := ask(t, h, nil, listRequest("gzip, zstd"))
	if w.Header()["Content-Encoding"] != nil || w.Header()["Vary"] != nil {
		t.Errorf("header is %v", w.Header())
	}
	if got := len(h.backend.Cache.Wanted()); got != 0 {
		t.Errorf("%d bodies are to be compressed", got)
	}
}

// What is too small to be compressed does not vary.
func TestSmallAnswersDoNotVary(t *testing.T) {
	h := pinnedFace(t, config{}, 1)
	if w := ask(t, h, nil, listRequest("gzip")); w.Header()["Vary"] != nil || w.Header()["Content-Encoding"] != nil {
		t.Errorf("header is %v", w.Header())
	}
}

// An answer that is kept for one partition is compressed once it was asked for.
func TestKeptAnswersAreCompressed(t *testing.T) {
	h := pinnedFace(t, config{}, 50)
	plain := ask(t, h, nil, listRequest()).Body.Bytes()
	e := h.backend.Cache.Pinned(revision.V20260728, revision.Tools)
	h.backend.Cache.Unpin(e.Revision, e.Kind)
	if !h.backend.Cache.Put(e) {
		t.Fatal("refused")
	}
	for _, coding := range []string{"identity", "gzip", "zstd"} {
		h.compress()
		w := ask(t, h, nil, listRequest(coding))
		if got := decoded(t, w); !equalButTTL(got, plain) {
			t.Errorf("%s decodes to %.200q", coding, got)
		}
		if coding == "zstd" && w.Header().Get("Content-Encoding") != coding {
			t.Error("not compressed")
		}
	}
}

// A very long id does not fit the buffers that beginnings are built in.
func TestLongIDs(t *testing.T) {
	h := pinnedFace(t, config{}, 50)
	h.compress()
	id := `"` + strings.Repeat("x", message.MaxID-2) + `"`
	for _, coding := range []string{"identity", "gzip", "zstd"} {
		r := listRequest(coding)
		withBody(r, strings.Replace(modernList, `"id":7`, `"id":`+id, 1))
		if got := decoded(t, ask(t, h, nil, r)); !bytes.HasPrefix(got, []byte(`{"jsonrpc":"2.0","id":`+id+`,"result":{"ttlMs":`)) {
			t.Errorf("%s: begins with %.100q", coding, got)
		}
	}
}
