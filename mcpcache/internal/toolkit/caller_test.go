package toolkit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// caller sends the requests of one client to an endpoint.
type caller struct {
	w       *world
	at      revision.Revision
	session string
	header  http.Header // of all its requests, besides what they need
	user    string      // whom handlers in front have found out, if any
	sent    int         // requests, by whose number they have their ids
	// next is what the endpoint hands requests on to that are none of its own; nil: nothing may be.
	next caddyhttp.Handler
}

// calls returns a client of that revision. One of the legacy era has opened a session.
func (w *world) calls(at revision.Revision, header ...string) *caller {
	w.Helper()
	c := &caller{w: w, at: at, header: make(http.Header)}
	for i := 0; i < len(header); i += 2 {
		c.header.Set(header[i], header[i+1])
	}
	if at.Era() == revision.Legacy {
		c.open()
	}
	return c
}

// open opens a session.
func (c *caller) open() {
	c.w.Helper()
	a := c.initialize()
	if c.session = a.Header().Get("Mcp-Session-Id"); c.session == "" {
		c.w.Fatalf("no session is opened: %s", a)
	}
}

// as has handlers in front find out that the client is that user. A legacy one opens another session.
func (c *caller) as(user string) {
	c.w.Helper()
	if c.user, c.session = user, ""; c.at.Era() == revision.Legacy {
		c.open()
	}
}

// initialize asks for a session.
func (c *caller) initialize() *received {
	return c.post(c.message("initialize", fmt.Sprintf(`"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"test","version":"1"}`, c.at)))
}

// eachEra runs a test for a client of each era.
func (w *world) eachEra(test func(c *caller), header ...string) {
	w.Helper()
	for _, at := range []revision.Revision{legacy, modern} {
		test(w.calls(at, header...))
	}
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// message writes a request with those members of its params.
func (c *caller) message(method, params string) string {
	c.sent++
	if c.at.Era() == revision.Modern {
		if params != "" {
			params += ","
		}
		params += modernMeta
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, c.sent, method, params)
}

// ask sends a request with those members of its params, and what its headers have to say of it.
func (c *caller) ask(method, params string, header ...string) *received {
	if name, uri := memberOf(params, "name"), memberOf(params, "uri"); c.at.Era() == revision.Modern {
		named := []string{"Mcp-Method", method}
		switch method {
		case "tools/call", "prompts/get":
			named = append(named, "Mcp-Name", name)
		case "resources/read":
			named = append(named, "Mcp-Name", uri)
		}
		header = append(named, header...)
	}
	return c.post(c.message(method, params), header...)
}

// memberOf returns a string member of an object without its braces.
func memberOf(members, name string) string {
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte("{"+members+"}"), &all) != nil {
		return ""
	}
	var text string
	_ = json.Unmarshal(all[name], &text) // "" if it is none
	return text
}

// list asks for a list.
func (c *caller) list(k revision.Kind) *received { return c.ask(k.Method(), "") }

// call calls a tool.
func (c *caller) call(tool string) *received {
	return c.ask("tools/call", fmt.Sprintf(`"name":%q,"arguments":{}`, tool))
}

// request makes a request of the client. A header that is given as "" is left out.
func (c *caller) request(method, path, body string, header ...string) *http.Request {
	r := httptest.NewRequestWithContext(c.w.Context(), method, "http://site.test"+path, strings.NewReader(body))
	r.Header = http.Header{"Accept": {"application/json, text/event-stream"}}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.at.Era() == revision.Modern || c.session != "" {
		r.Header.Set("Mcp-Protocol-Version", c.at.String())
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	for name, values := range c.header {
		r.Header[name] = slices.Clone(values)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	replacer := caddy.NewReplacer()
	if c.user != "" {
		replacer.Set("http.auth.user.id", c.user)
	}
	ctx := context.WithValue(r.Context(), caddy.ReplacerCtxKey, replacer)
	return r.WithContext(context.WithValue(ctx, caddyhttp.VarsCtxKey, map[string]any{caddyhttp.ClientIPVarKey: "192.0.2.1"}))
}

// post sends a message.
func (c *caller) post(body string, header ...string) *received {
	return c.send(c.request(http.MethodPost, "/mcp", body, header...))
}

// send sends a request and waits for its answer.
func (c *caller) send(r *http.Request) *received {
	a := &received{ResponseRecorder: httptest.NewRecorder()}
	a.serve(c, r)
	return a
}

// beginList is begin of a request for a list.
func (c *caller) beginList(k revision.Kind) (a *received, leave func()) {
	return c.begin(c.request(http.MethodPost, "/mcp", c.message(k.Method(), ""), "Mcp-Method", k.Method()))
}

// begin sends a request whose answer is not waited for: the test goes on once nothing happens any more.
// The function ends the request, as a client does that goes away.
func (c *caller) begin(r *http.Request) (a *received, leave func()) {
	ctx, cancel := context.WithCancel(r.Context())
	a = &received{ResponseRecorder: httptest.NewRecorder(), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.serve(c, r.WithContext(ctx))
	}()
	synctest.Wait()
	return a, func() {
		cancel()
		synctest.Wait()
	}
}

// received is what a client is answered.
type received struct {
	*httptest.ResponseRecorder

	err     error
	aborted bool          // the connection was, as reverse_proxy does it
	done    chan struct{} // closed at its end, if nobody has waited for that
}

func (a *received) serve(c *caller, r *http.Request) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			a.aborted = true
		default:
			panic(p)
		}
	}()
	next := c.next
	if next == nil {
		next = caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			c.w.Errorf("a request for %s is handed on to other handlers", r.URL.Path)
			return nil
		})
	}
	a.err = c.w.ServeHTTP(a, r, next)
}

// isOver reports whether an answer that nobody has waited for has ended.
func (a *received) isOver() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// String says what an answer was, for messages of tests.
func (a *received) String() string {
	return fmt.Sprintf("%d (%s) %s, error %v, aborted %v", a.Code, a.Header().Get("Cache-Status"), a.Body, a.err, a.aborted)
}

// told is a message that a client is sent.
type told struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// messages returns what a client has been sent so far.
func (a *received) messages() (all []told) {
	body := a.Body.String()
	if !strings.HasPrefix(a.Header().Get("Content-Type"), "text/event-stream") {
		var m told
		if json.Unmarshal([]byte(body), &m) == nil {
			all = append(all, m)
		}
		return all
	}
	for line := range strings.Lines(body) {
		data, has := strings.CutPrefix(strings.TrimSpace(line), "data:")
		var m told
		if has && json.Unmarshal([]byte(data), &m) == nil {
			all = append(all, m)
		}
	}
	return all
}

// response returns the response among the messages; an empty one if there is none.
func (a *received) response() told {
	for _, m := range a.messages() {
		if m.Method == "" {
			return m
		}
	}
	return told{}
}

// code returns that of a JSON-RPC error; 0 if there is none.
func (a *received) code() int {
	if failure := a.response().Error; failure != nil {
		return failure.Code
	}
	return 0
}

// says returns the message of a JSON-RPC error; "" if there is none.
func (a *received) says() string {
	if failure := a.response().Error; failure != nil {
		return failure.Message
	}
	return ""
}

// announced returns the methods of the notifications that a client has been sent so far.
func (a *received) announced() (methods []string) {
	for _, m := range a.messages() {
		if m.Method != "" {
			methods = append(methods, m.Method)
		}
	}
	return methods
}

// names returns the names, or URIs, of a list.
func (a *received) names(k revision.Kind) (names []string) {
	var result map[string]json.RawMessage
	_ = json.Unmarshal(a.response().Result, &result) // it has no items then
	var items []map[string]any
	_ = json.Unmarshal(result[k.ItemsKey()], &items)
	for _, item := range items {
		names = append(names, fmt.Sprint(item[k.IDKey()]))
	}
	return names
}

// ttl returns how many milliseconds a list says that it is fresh for; -1 if it does not say that.
func (a *received) ttl() int {
	var result struct {
		TTL *int `json:"ttlMs"`
	}
	if json.Unmarshal(a.response().Result, &result) != nil || result.TTL == nil {
		return -1
	}
	return *result.TTL
}

// status returns what Cache-Status says besides the name and for how long a list is fresh.
func (a *received) status() string {
	_, status, _ := strings.Cut(a.Header().Get("Cache-Status"), "; ")
	var parts []string
	for part := range strings.SplitSeq(status, "; ") {
		if !strings.HasPrefix(part, "ttl=") {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}

// want checks the status of HTTP and the code of a JSON-RPC error, 0 for none.
func (a *received) want(w *world, what string, status, code int) {
	w.Helper()
	if a.Code != status || a.code() != code || a.err != nil || a.aborted {
		w.Errorf("%s gave %s, want %d and code %d", what, a, status, code)
	}
}

// wantOf checks that a call was answered by that server.
func (a *received) wantOf(w *world, server string) {
	w.Helper()
	if a.want(w, "a call", http.StatusOK, 0); !strings.Contains(string(a.response().Result), strconv.Quote(server)) {
		w.Errorf("a call was answered with %s, want the answer of %s", a, server)
	}
}

// wantNames checks the items of a list.
func (a *received) wantNames(w *world, k revision.Kind, want ...string) {
	w.Helper()
	if got := a.names(k); !slices.Equal(got, want) {
		w.Errorf("%s are %q, want %q: %s", k, got, want, a)
	}
}
