package views

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// hidingRules hide from all but admins what is called hidden.
var hidingRules = []string{
	"deny @others tools *hidden*", "deny @others prompts *hidden*", "deny @others resources *hidden*", "deny @others resource_templates *hidden*",
}

// hidingSite is a site with those rules in front of an upstream.
func hidingSite(url string, options ...string) string {
	return "@others not header X-Role admin\nroute {\n" + caddytest.Directive(url, append(hidingRules, options...)...) + "\n}"
}

// withHidden returns items of which the second is called hidden.
func withHidden(method string) scripted.Page {
	page := scripted.Items(method, "v1", 3)
	page[1] = strings.ReplaceAll(page[1], "item-0001", "hidden-0001")
	return page
}

// newHiding starts a scripted upstream whose lists have hidden items, behind rules.
func newHiding(t *testing.T, options ...string) *caddytest.World {
	t.Helper()
	w := caddytest.NewUpstream(t)
	for _, method := range scripted.ListMethods() {
		w.SetList(method, withHidden(method))
	}
	w.Host.Start()
	w.Proxy = caddytest.StartProxy(t, hidingSite(w.Host.URL, options...))
	return w
}

// naming are the requests that name an item, and a hidden one of each.
var naming = []struct{ method, item, params string }{
	{"tools/call", "hidden-0001", `"name":%q,"arguments":{}`},
	{"prompts/get", "hidden-0001", `"name":%q`},
	{"resources/read", "test://hidden-0001", `"uri":%q`},
	{"resources/subscribe", "test://hidden-0001", `"uri":%q`},
	{"completion/complete", "hidden-0001", `"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":""}`},
	{"completion/complete", "test://hidden-0001/{x}", `"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"x","value":""}`},
}

// wantNothingHidden fails if an answer has a byte of what is hidden.
func wantNothingHidden(t *testing.T, what string, a *fixture.Answer) {
	t.Helper()
	if a.Status != http.StatusOK || bytes.Contains(a.Body, []byte("hidden")) || !bytes.Contains(a.Body, []byte("item-0002")) {
		t.Errorf("%s gave %s", what, a)
	}
}

// wantUntold fails if the upstream has heard of what is hidden.
func wantUntold(w *caddytest.World) {
	w.T.Helper()
	for _, r := range w.Host.Requests(func(r *fixture.Request) bool { return bytes.Contains(r.Body, []byte("hidden")) }) {
		w.T.Errorf("the upstream was asked %s", r.Body)
	}
}

// TestRulesHideItems lists before and after the cache has the lists, as JSON and as
// an event stream.
func TestRulesHideItems(t *testing.T) {
	for name, sse := range map[string]bool{"json": false, "event streams": true} {
		t.Run(name, func(t *testing.T) {
			w := newHiding(t)
			w.SetSSE(sse)
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				c, admin := w.Client(revision), w.Client(revision)
				admin.Header.Set("X-Role", "admin")
				for _, method := range scripted.ListMethods() {
					wantNothingHidden(t, "a miss of "+method, c.List(method))
					wantNothingHidden(t, "a hit of "+method, c.Settle(method))
					c.Header.Set("Accept", "application/json;q=0.1, text/event-stream")
					wantNothingHidden(t, "an event stream of "+method, c.List(method))
					c.Header.Del("Accept")
					for range 3 {
						if a := admin.List(method); !bytes.Contains(a.Body, []byte("hidden-0001")) {
							t.Errorf("an admin is given %s", a)
						}
					}
				}
			})
		})
	}
}

// TestRulesRefuseCalls calls what is hidden and what does not exist: the answers are
// the same, and the upstream hears of neither.
func TestRulesRefuseCalls(t *testing.T) {
	w := newHiding(t)
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Client(revision)
		for _, method := range scripted.ListMethods() {
			c.Settle(method)
		}
		for _, n := range naming {
			ask := func(item string) *fixture.Answer {
				return c.Post(fixture.Message("7", n.method, c.Params(fmt.Sprintf(n.params, item))), mirrored(c, n.method, item))
			}
			missing := strings.ReplaceAll(n.item, "0001", "none")
			a, none := ask(n.item), ask(missing)
			if a.Part("error", "code") == nil || a.Status != none.Status ||
				strings.ReplaceAll(string(a.Body), n.item, "X") != strings.ReplaceAll(string(none.Body), missing, "X") {
				t.Errorf("%s of what is hidden gave %s, and of what is not there %s", n.method, a, none)
			}
			if status := a.Header.Get("Cache-Status"); status != "mcp_cache; detail=denied" {
				t.Errorf("%s: Cache-Status is %q", n.method, status)
			}
		}
		wantUntold(w)
		if a := c.Call("tools/call", c.Params(`"name":"item-0002"`)); a.Part("result", "content") == nil {
			t.Errorf("a call of what is shown gave %s", a)
		}
	})
}

// mirrored is what the header of a modern request says of its body.
func mirrored(c *fixture.Raw, method, name string) http.Header {
	if !c.Modern() {
		return nil
	}
	h := http.Header{"Mcp-Method": {method}}
	if !strings.HasPrefix(method, "completion/") {
		h["Mcp-Name"] = []string{name}
	}
	return h
}

// TestRulesNeedCertainty sends calls of a hidden tool that parsers may read
// differently, or that say it in another way: none reaches the upstream.
func TestRulesNeedCertainty(t *testing.T) {
	w := newHiding(t, "max_call 100KiB")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		c := w.Client(revision)
		c.Settle(scripted.ToolsList)
		call := func(members string) string { return fixture.Message("7", "tools/call", c.Params(members)) }
		const hidden = `"name":"hidden-0001"`
		refused := refusedStatus(c)
		long := func(n int) string { return call(`"arguments":{"x":"` + strings.Repeat("x", n) + `"},` + hidden) }
		for name, q := range map[string]struct {
			body   string
			header http.Header
			status int
		}{
			"repeated":         {call(`"name":"item-0000",` + hidden), nil, 400},
			"in another case":  {call(`"name":"item-0000","Name":"hidden-0001"`), nil, 400},
			"escaped":          {call(`"name":"hid\u0064en-0001"`), nil, refused},
			"an escaped key":   {call(`"n\u0061me":"hidden-0001"`), nil, refused},
			"a batch":          {"[" + fixture.Message("1", "ping", c.Params("")) + "," + call(hidden) + "]", nil, refused},
			"another method":   {fixture.Message("7", "tools/run", c.Params(hidden)), nil, map[bool]int{true: 404, false: 200}[c.Modern()]},
			"another spelling": {fixture.Message("7", "Tools/Call", c.Params(hidden)), nil, map[bool]int{true: 404, false: 200}[c.Modern()]},
			"not JSON":         {call(hidden), http.Header{"Content-Type": {"text/plain"}}, 415},
			"another charset":  {call(hidden), http.Header{"Content-Type": {"application/json; charset=utf-16"}}, 415},
			"compressed":       {call(hidden), http.Header{"Content-Encoding": {"gzip"}}, 415},
			"broken UTF-8":     {call("\"name\":\"hidden-0001\xff\""), nil, 400},
			"two messages":     {call(hidden) + call(hidden), nil, 400},
			"cut off":          {call(hidden)[:40], nil, 400},
			"long":             {long(70 << 10), nil, refused},
			"too long":         {long(100 << 10), nil, 413},
			"headers of another": {
				call(`"name":"item-0000"`), http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"hidden-0001"}}, 400,
			},
			"in base64": {
				call(`"name":"item-0000"`), http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"=?base64?aGlkZGVuLTAwMDE=?="}}, 400,
			},
			"another method's header": {call(hidden), http.Header{"Mcp-Method": {"ping"}}, 400},
			"a call as another":       {fixture.Message("7", "ping", c.Params(hidden)), http.Header{"Mcp-Method": {"tools/call"}}, 400},
		} {
			before := len(w.Host.Requests(ofClients))
			header := http.Header{}
			maps.Copy(header, q.header)
			a := c.Post(q.body, header)
			if a.Header.Get("Cache-Status") != "mcp_cache; detail=denied" || a.Status != q.status {
				t.Errorf("%s gave %s, want status %d", name, a, q.status)
			}
			if n := len(w.Host.Requests(ofClients)); n != before {
				t.Errorf("%s reached the upstream", name)
			}
		}
		for _, path := range []string{"/mcp/", "//mcp", "/MCP", "/messages", "/%6dcp"} {
			a := postTo(w, path, call(hidden), c)
			if a.Header.Get("Cache-Status") != "mcp_cache; detail=denied" {
				t.Errorf("at %s: %s", path, a)
			}
			wantNothingHidden(t, "a list at "+path, postTo(w, path, fixture.Message("7", scripted.ToolsList, c.Params("")), c))
		}
		wantUntold(w)
	})
}

func ofClients(r *fixture.Request) bool { return !r.Feed }

// postTo sends a body to another path, as a client would that takes it for its
// endpoint.
func postTo(w *caddytest.World, path, body string, c *fixture.Raw) *fixture.Answer {
	w.T.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+w.Proxy.Addr+path, strings.NewReader(body))
	if err != nil {
		w.T.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {c.Revision},
	}
	if c.Modern() {
		r.Header["Mcp-Method"] = []string{scripted.ToolsList}
		if !strings.Contains(body, scripted.ToolsList) {
			r.Header["Mcp-Method"] = []string{"tools/call"}
		}
	} else {
		r.Header["Mcp-Session-Id"] = []string{c.Session}
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.T.Fatal(err)
	}
	defer res.Body.Close()
	var read bytes.Buffer
	if _, err := read.ReadFrom(res.Body); err != nil {
		w.T.Fatal(err)
	}
	return &fixture.Answer{Status: res.StatusCode, Header: res.Header, Body: read.Bytes()}
}
