package exchange

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const deniedStatus = "mcp_cache; detail=denied"

// denied fails unless a request is refused with a status of HTTP, and the upstream
// does not hear of it.
func (f *face) denied(t *testing.T, what string, r *http.Request, status int) *httptest.ResponseRecorder {
	t.Helper()
	f.asked()
	w := f.serve(t, r)
	if got := w.Header().Get("Cache-Status"); got != deniedStatus || w.Code != status || f.asked() != 0 {
		t.Errorf("%s: got %d, %q, %s, want %d and that the upstream is not asked", what, w.Code, got, w.Body, status)
	}
	return w
}

// passed fails unless a request reaches the upstream as it came.
func (f *face) passed(t *testing.T, what string, r *http.Request) {
	t.Helper()
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	length := r.ContentLength
	withBody(r, string(sent))
	r.ContentLength = length
	f.asked()
	w := f.serve(t, r)
	if f.asked() != 1 || !strings.Contains(w.Body.String(), fmt.Sprintf("%q", sent)) {
		t.Errorf("%s: got %d, %s", what, w.Code, w.Body)
	}
}

func TestGuardRefuses(t *testing.T) {
	f := ruled(t, config{})
	call := func(change func(*http.Request)) *http.Request {
		r := calling("shown")
		change(r)
		return r
	}
	header := func(name string, values ...string) *http.Request {
		return call(func(r *http.Request) { r.Header[name] = values })
	}
	body := func(text string) *http.Request { return call(func(r *http.Request) { withBody(r, text) }) }
	for name, q := range map[string]struct {
		r      *http.Request
		status int
	}{
		"hidden":             {calling("hidden"), 400},
		"not allowed":        {calling("none"), 400},
		"a hidden prompt":    {withName(modernRequest("prompts/get", `"name":"hidden-1"`), "hidden-1"), 400},
		"a hidden resource":  {reading(revision.V20260728, `"TEST://hidden/1"`), 400},
		"a hidden fragment":  {reading(revision.V20260728, `"test://shown/#/../../hidden/1"`), 400},
		"a hidden template":  {modernRequest("completion/complete", `"ref":{"type":"ref/resource","uri":"test://hidden/{a}"}`), 400},
		"a hidden stream":    {modernRequest("subscriptions/listen", `"notifications":{"resourceSubscriptions":["test://a","test://hidden"]}`), 400},
		"type":               {header("Content-Type", "text/plain"), 415},
		"no type":            {header("Content-Type"), 415},
		"charset":            {header("Content-Type", "application/json; charset=utf-16"), 415},
		"coding":             {header("Content-Encoding", "gzip"), 415},
		"another method":     {header("Mcp-Method", "tools/list"), 400},
		"two methods":        {header("Mcp-Method", "tools/call", "ping"), 400},
		"another name":       {header("Mcp-Name", "hidden"), 400},
		"a name too many":    {header("Mcp-Name", "shown", "hidden"), 400},
		"an unreadable name": {header("Mcp-Name", "=?q?shown?="), 400},
		"repeated":           {body(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shown","name":"hidden"}}`), 400},
		"an unknown method":  {body(`{"jsonrpc":"2.0","id":1,"method":"tools/secret"}`), 404},
		"white space":        {body(`{"jsonrpc":"2.0","id":1,"method":"\ttools/call","params":{"name":"hidden"}}`), 404},
		"a wide space":       {body(`{"jsonrpc":"2.0","id":1,"method":"\u3000Tools/call\u0000","params":{"name":"hidden"}}`), 404},
		"a ref of both":      {modernRequest("completion/complete", `"ref":{"type":"ref/prompt","name":"shown","uri":"test://hidden/{a}"}`), 400},
		"not a message":      {body(`{"jsonrpc":"2.0"`), 400},
		"nothing":            {body(""), 400},
		"another task":       {withName(modernRequest("tasks/get", `"taskId":"t1"`), "t2"), 400},
		"CONNECT":            {call(func(r *http.Request) { r.Method = http.MethodConnect }), 501},
		"a body of a GET":    {call(func(r *http.Request) { r.Method = http.MethodGet; withBody(r, `{"method":"tools/call"`) }), 400},
		"PUT":                {call(func(r *http.Request) { r.Method = http.MethodPut; withBody(r, `{"method":"tools/secret"`) }), 400},
		"a batch's last":     {body(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hidden"}}]`), 400},
		"two bodies in one":  {body(`{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hidden"}}`), 400},
		"UTF-16 elsewhere":   {call(func(r *http.Request) { r.URL.Path = "/mcp/"; withBody(r, "\x00{\x00}") }), 400},
		"a method for proxys": {call(func(r *http.Request) {
			r.URL.Path = "/mcp/"
			withBody(r, `{"method":"tools/call","params":{"name":"hidden"}}`)
		}), 400},
	} {
		f.denied(t, name, q.r, q.status)
	}
}

// unsized ends a session by a request of an empty body whose length is not given, as
// HTTP/3 has it.
func unsized() *http.Request {
	r := post("")
	r.Method, r.ContentLength = http.MethodDelete, -1
	return r
}

// withUpgrade offers another protocol, as clients do that would rather speak HTTP/2.
func withUpgrade(r *http.Request) *http.Request {
	r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade, HTTP2-Settings"}, []string{"h2c"}
	return r
}

// Nobody could see what is named in another protocol, so no upstream is offered one.
func TestNoOtherProtocolIsOffered(t *testing.T) {
	f := ruled(t, config{})
	elsewhere := post("")
	elsewhere.URL.Path, elsewhere.Method = "/socket", http.MethodGet
	for _, r := range []*http.Request{modernRequest("tools/list", ""), calling("shown"), elsewhere} {
		f.upstreamIs(func(_ http.ResponseWriter, r *http.Request) error {
			if r.Header["Upgrade"] != nil {
				t.Errorf("%s: the upstream is offered %s", r.URL, r.Header["Upgrade"])
			}
			return nil
		})
		if _ = f.serve(t, withUpgrade(r)); f.asked() != 1 {
			t.Errorf("%s does not reach the upstream", r.URL)
		}
	}
	f.denied(t, "a hidden call", withUpgrade(calling("hidden")), http.StatusBadRequest)
}

// What names nothing hidden is passed on as it came, and without rules everything is.
func TestGuardPasses(t *testing.T) {
	f := ruled(t, config{})
	plain := func(path, contentType, body string) *http.Request {
		r := post(body)
		r.URL.Path, r.Header["Content-Type"] = path, []string{contentType}
		return r
	}
	for name, r := range map[string]*http.Request{
		"shown":               calling("shown"),
		"encoded":             withName(calling("shown"), "=?base64?c2hvd24=?="),
		"a prompt":            withName(modernRequest("prompts/get", `"name":"any"`), "any"),
		"ping":                modernRequest("ping", ""),
		"a response":          post(`{"jsonrpc":"2.0","id":1,"result":{}}`),
		"a notification":      post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`),
		"an unknown method":   modernRequest("sampling/else", ""),
		"a task":              withName(modernRequest("tasks/get", `"taskId":"t1"`), "t1"),
		"the end":             unsized(),
		"a form elsewhere":    plain("/token", "application/x-www-form-urlencoded", "grant_type=x"),
		"an object elsewhere": plain("/register", "application/json", `{"redirect_uris":["http://localhost"],"name":"hidden"}`),
		"an array elsewhere":  plain("/graphql", "application/json", `[1,{"name":"hidden"}]`),
		"an upload elsewhere": plain("/upload", "application/octet-stream", "PK"+strings.Repeat("{", 5<<20)),
		"an offer of HTTP/2":  withUpgrade(calling("shown")),
		"a call elsewhere":    plain("/messages", "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shown"}}`),
	} {
		f.passed(t, name, r)
	}
	free := newFace(t, config{})
	free.upstreamIs(f.answer)
	for name, body := range map[string]string{
		"a repeated member": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`,
		"a ref of both":     `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"a","uri":"b"}}}`,
		"white space":       `{"jsonrpc":"2.0","id":1,"method":"\ttools/call","params":{"name":"hidden"}}`,
		"no JSON":           `{`, "an unknown method": `{"jsonrpc":"2.0","id":1,"method":"tools/secret"}`,
	} {
		free.passed(t, name+" without rules", post(body))
	}
}

// A call may be as large as max_call, whether its length is said before or not.
func TestMaxCall(t *testing.T) {
	f := ruled(t, config{})
	f.Settings.MaxCall = 200 << 10
	call := func(size int, chunked bool) *http.Request {
		r := calling("shown")
		start := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shown",` + modernMeta + `,"x":"`
		withBody(r, start+strings.Repeat("x", size-len(start)-len(`"}}`))+`"}}`)
		if chunked {
			r.ContentLength = -1
		}
		return r
	}
	for _, chunked := range []bool{false, true} {
		f.passed(t, "max_call bytes", call(200<<10, chunked))
		f.denied(t, "a byte more", call(200<<10+1, chunked), http.StatusRequestEntityTooLarge)
	}
	if held := f.backend.Cache.Work().Used(); held != 0 {
		t.Errorf("%d bytes are still taken from the memory", held)
	}
	// Without memory nothing can be read, and nothing is passed on unread.
	share := f.backend.Cache.Work().Share()
	take(&share)
	if w := f.denied(t, "without memory", call(200<<10, true), http.StatusServiceUnavailable); w.Header().Get("Retry-After") != "1" {
		t.Error("there is no Retry-After")
	}
	share.Release()
	f.passed(t, "with memory again", call(200<<10, true))
}

// With the defaults there is room for a call of max_call.
func TestMaxCallFitsIntoTheMemory(t *testing.T) {
	f := ruled(t, config{})
	for _, chunked := range []bool{false, true} {
		start := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shown",` + modernMeta + `,"x":"`
		r := withBodyOf(calling("shown"), start+strings.Repeat("x", int(f.Settings.MaxCall)-len(start)-len(`"}}`))+`"}}`)
		if chunked {
			r.ContentLength = -1
		}
		f.passed(t, "a call of max_call", r)
	}
}

// take takes all memory that is left, but for less than a kilobyte.
func take(s *budget.Share) {
	for n := int64(1 << 40); n >= 1<<10; n /= 2 {
		for s.Grow(n) {
			continue
		}
	}
}

// The refusal of what is hidden is that of what does not exist, in each era.
func TestRefusals(t *testing.T) {
	f := ruled(t, config{})
	f.admitLegacy(t, "session")
	legacy := func(method, params string) *http.Request {
		r := legacyRequest(revision.V20251125, "session", method)
		withBody(r, fmt.Sprintf(`{"jsonrpc":"2.0","id":"x","method":%q,"params":{%s}}`, method, params))
		return r
	}
	for name, q := range map[string]struct {
		r    *http.Request
		want string
	}{
		"a tool":            {calling("hidden"), `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: hidden"}}`},
		"a legacy tool":     {legacy("tools/call", `"name":"hidden"`), `{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"Unknown tool: hidden"}}`},
		"a prompt":          {legacy("prompts/get", `"name":"hidden"`), `{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"Unknown prompt: hidden"}}`},
		"a resource":        {reading(revision.V20260728, `"test://hidden"`), `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Resource not found","data":{"uri":"test://hidden"}}}`},
		"a legacy resource": {legacy("resources/read", `"uri":"test://hidden"`), `{"jsonrpc":"2.0","id":"x","error":{"code":-32002,"message":"Resource not found","data":{"uri":"test://hidden"}}}`},
		"a batch": {
			withBodyOf(legacy("ping", ""), `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hidden"}}]`),
			`[{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: hidden"}},{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Unknown tool: hidden"}}]`,
		},
		"a batch of one": {
			withBodyOf(legacy("ping", ""), ` [{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hidden"}}]`),
			`[{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: hidden"}}]`,
		},
		"a batch, behind an unknown method": {
			withBodyOf(legacy("ping", ""), `[{"jsonrpc":"2.0","id":1,"method":"tools/secret"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`),
			`[{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}},{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found"}}]`,
		},
	} {
		status := http.StatusOK
		if q.r.Header.Get("Mcp-Protocol-Version") == revision.V20260728.String() {
			status = http.StatusBadRequest
		}
		w := f.denied(t, name, q.r, status)
		if got := w.Body.String(); got != q.want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %s\nwant %s", name, got, q.want)
		}
	}
	// What nobody answers is refused by the status.
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"hidden"}}`,
		`[{"jsonrpc":"2.0","method":"ping"},{"jsonrpc":"2.0","method":"tools/call","params":{"name":"hidden"}}]`,
	} {
		w := f.denied(t, body, withBodyOf(legacy("ping", ""), body), http.StatusBadRequest)
		if got := w.Body.String(); got != `{"jsonrpc":"2.0","error":{"code":-32602,"message":"Unknown tool: hidden"}}` {
			t.Errorf("%s: got %s", body, got)
		}
	}
}

func withBodyOf(r *http.Request, body string) *http.Request {
	withBody(r, body)
	return r
}
