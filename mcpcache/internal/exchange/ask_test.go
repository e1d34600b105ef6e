package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// stranger is a modern call of what is hidden by somebody of whom nothing is known.
func stranger() *http.Request {
	r := calling("hidden")
	r.Header["Authorization"] = []string{"Bearer stranger"}
	r.Header["Mcp-Param-Region"] = []string{"x"}
	r.Header["Accept-Encoding"] = []string{"gzip"}
	r.Header["Last-Event-Id"] = []string{"7"}
	return r
}

// What the upstream answers to somebody whom it does not let in comes before any
// refusal of ours, and nothing else does.
func TestDoorIsAsked(t *testing.T) {
	for _, tt := range []struct {
		status int
		passed bool
	}{
		{200, false}, {202, false}, {301, false}, {307, true}, {308, true}, {400, false}, {401, true}, {403, true}, {404, false}, {429, false}, {500, false}, {503, false},
	} {
		f := ruled(t, config{})
		var asked *http.Request
		var body []byte
		f.upstreamIs(func(w http.ResponseWriter, r *http.Request) (err error) {
			asked = r
			body, err = io.ReadAll(r.Body)
			w.Header().Set("Www-Authenticate", "Bearer")
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, "the server's own")
			return err
		})
		w := f.serve(t, stranger())
		if passed := w.Code == tt.status && w.Body.String() == "the server's own" && w.Header().Get("Www-Authenticate") != ""; passed != tt.passed {
			t.Errorf("%d: got %d, %v, %s", tt.status, w.Code, w.Header(), w.Body)
		}
		if !tt.passed && (w.Header().Get("Cache-Status") != deniedStatus || w.Header().Get("Www-Authenticate") != "") {
			t.Errorf("%d: got %v, %s", tt.status, w.Header(), w.Body)
		}
		if f.asked() != 1 || strings.Contains(string(body), "hidden") || asked.Header.Get("Authorization") != "Bearer stranger" {
			t.Fatalf("%d: the upstream was asked %s with %v", tt.status, body, asked.Header)
		}
		for _, name := range []string{"Mcp-Name", "Mcp-Param-Region", "Accept-Encoding", "Last-Event-Id"} {
			if asked.Header[name] != nil {
				t.Errorf("the upstream was asked with %s: %s", name, asked.Header.Get(name))
			}
		}
		if asked.Header.Get("Mcp-Method") != "tools/list" || asked.Header.Get("Content-Length") != fmt.Sprint(len(body)) {
			t.Errorf("the upstream was asked %s with %v", body, asked.Header)
		}
		var message struct {
			Method string
			Params struct {
				Meta map[string]any `json:"_meta"`
			}
		}
		if err := json.Unmarshal(body, &message); err != nil || message.Method != "tools/list" ||
			message.Params.Meta["io.modelcontextprotocol/protocolVersion"] != "2026-07-28" {
			t.Errorf("the upstream was asked %s: %v", body, err)
		}
	}
}

// A request of ours would not bear a caller's signature: nobody is asked, and the server's
// refusal of it is not given to the caller.
func TestDoorOfSignedRequests(t *testing.T) {
	f := ruled(t, config{})
	f.upstreamIs(failsWith(http.StatusUnauthorized))
	r := stranger()
	r.Header["Authorization"] = []string{"AWS4-HMAC-SHA256 Credential=a"}
	if w := f.serve(t, r); f.asked() != 0 || w.Header().Get("Cache-Status") != deniedStatus {
		t.Errorf("got %d, %v, %s", w.Code, w.Header(), w.Body)
	}
}

// The door that is asked is that of the lists which the message is about.
func TestDoorOfEachKind(t *testing.T) {
	f := ruled(t, config{})
	for method, r := range map[string]*http.Request{
		"tools/list":               calling("hidden"),
		"prompts/list":             withName(modernRequest("prompts/get", `"name":"hidden"`), "hidden"),
		"resources/list":           reading(revision.V20260728, `"test://hidden"`),
		"resources/templates/list": modernRequest("completion/complete", `"ref":{"type":"ref/resource","uri":"test://hidden"}`),
	} {
		f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
			if got := r.Header.Get("Mcp-Method"); got != method {
				t.Errorf("asked for %s, want %s", got, method)
			}
			return caddyError(http.StatusForbidden, w)
		})
		r.Header["Authorization"] = []string{"Bearer stranger"}
		if w := f.serve(t, r); w.Code != http.StatusForbidden || f.asked() != 1 {
			t.Errorf("%s: got %d, %s", method, w.Code, w.Body)
		}
	}
}

func caddyError(status int, w http.ResponseWriter) error {
	w.WriteHeader(status)
	return nil
}

// A session that is over ends before its callers are told what there is not.
func TestDoorOfSessions(t *testing.T) {
	f := ruled(t, config{})
	call := func(session string) *http.Request {
		r := legacyRequest(revision.V20251125, session, "tools/call")
		withBody(r, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hidden"}}`)
		return r
	}
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error { return caddyError(http.StatusNotFound, w) })
	if w := f.serve(t, call("forgotten")); w.Code != http.StatusNotFound {
		t.Errorf("a session that is over: got %d, %s", w.Code, w.Body)
	}
	if w := f.serve(t, call("")); w.Code != http.StatusOK {
		t.Errorf("without a session: got %d, %s", w.Code, w.Body)
	}
	f.admitLegacy(t, "session")
	f.denied(t, "a session that has been let in", call("session"), http.StatusOK)
}

// What the upstream's handler fails with is its failure, and of a refusal that is too
// long to be kept its header is passed on.
func TestDoorFails(t *testing.T) {
	f := ruled(t, config{})
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error {
		w.WriteHeader(http.StatusUnauthorized)
		for range maxInitialize/1024 + 1 {
			if n, err := w.Write(make([]byte, 1024)); n != 1024 || err != nil {
				t.Errorf("wrote %d bytes: %v", n, err)
			}
		}
		return http.NewResponseController(w).Flush()
	})
	if w := f.serve(t, stranger()); w.Code != http.StatusUnauthorized || w.Header().Get("Content-Length") != "0" || w.Body.Len() > 0 {
		t.Errorf("a long refusal: got %d, %v", w.Code, w.Header())
	}
	failure := fmt.Errorf("no upstream")
	f.upstreamIs(func(http.ResponseWriter, *http.Request) error { return failure })
	w := httptest.NewRecorder()
	if err := f.ServeHTTP(w, stranger(), nil); err != failure || w.Body.Len() > 0 {
		t.Errorf("got %v, %s", err, w.Body)
	}
	if used := f.backend.Cache.Work().Used(); used != 0 {
		t.Errorf("%d bytes are still taken from the memory", used)
	}
}

// Long calls of strangers are not read before the upstream has let them in.
func TestDoorComesBeforeLongCalls(t *testing.T) {
	f := ruled(t, config{})
	long := func() *http.Request {
		r := withBodyOf(stranger(), strings.Repeat(" ", 100<<10))
		r.Body = io.NopCloser(io.MultiReader(r.Body, iotest.ErrReader(errors.New("the rest does not come"))))
		r.ContentLength = 200 << 10
		return r
	}
	f.upstreamIs(func(w http.ResponseWriter, r *http.Request) error { return caddyError(http.StatusUnauthorized, w) })
	if w := f.serve(t, long()); w.Code != http.StatusUnauthorized || f.asked() != 1 {
		t.Errorf("got %d, %s", w.Code, w.Body)
	}
	f.upstreamIs(listing("shown"))
	if err := f.ServeHTTP(httptest.NewRecorder(), long(), nil); err == nil || f.asked() != 1 {
		t.Errorf("of somebody who is let in the call is read: %v", err)
	}
	short := stranger()
	editBody(short, `"hidden"`, `"shown"`)
	short.Header["Mcp-Name"] = []string{"shown"}
	if f.serve(t, short); f.asked() != 1 {
		t.Error("the door is asked for a short call, which is passed on")
	}
}
