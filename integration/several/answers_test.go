package several

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestToolkitAnswers: what a server says in its header stays between it and the toolkit,
// and what is no answer of MCP becomes an error that names the server.
func TestToolkitAnswers(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	c := fixture.NewModern(t, p.URL, "")
	caddytest.HasListed(t, c, scripted.ToolsList, 2)
	call := func(answer func(x *scripted.Exchange)) *fixture.Answer {
		one.SetScript("tools/call", func(x *scripted.Exchange) {
			h := x.W.Header()
			for _, name := range []string{"Set-Cookie", "Mcp-Session-Id", "WWW-Authenticate", "Access-Control-Allow-Origin", "X-Secret", "Server", "Location"} {
				h.Set(name, "canary")
			}
			answer(x)
		})
		return c.Call("tools/call", c.Params(`"name":"one__item-0000"`))
	}
	for name, tt := range map[string]struct {
		status            int
		contentType, body string
		want              int
		code              int
		flushed           bool // an answer without a length is flushed on its way, too
	}{
		"a result":            {200, "application/json", `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[]}}`, 200, 0, false},
		"an error":            {400, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no"}}`, 400, -32602, false},
		"an error and 500":    {500, "application/json; charset=utf-8", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no"}}`, 500, -32000, false},
		"a page":              {404, "text/html", "<html>canary", 502, -32603, false},
		"unavailable":         {503, "text/plain", "canary", 503, -32603, false},
		"too many":            {429, "text/plain", "canary", 429, -32603, false},
		"no credential":       {401, "application/json", `{"error":"canary"}`, 502, -32603, false},
		"a credential, wrong": {403, "application/json", `{"error":"canary"}`, 502, -32603, false},
		"a redirect":          {307, "text/plain", "canary", 502, -32603, false},
		"a page, and 200":     {200, "text/html", "<html>canary", 502, -32603, false},
		"no type":             {200, "", "canary", 502, -32603, false},
		"a part":              {206, "application/json", `{"canary`, 502, -32603, false},
		"nothing":             {202, "", "", 502, -32603, false},
		"a flushed result":    {200, "application/json", `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[]}}`, 200, 0, true},
		"a flushed error":     {400, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no"}}`, 400, -32602, true},
	} {
		a := call(func(x *scripted.Exchange) {
			x.W.Header().Set("Content-Type", tt.contentType)
			x.W.Header().Set("Retry-After", "7")
			x.W.WriteHeader(tt.status)
			if tt.flushed {
				_ = http.NewResponseController(x.W).Flush()
			}
			tt.body = strings.Replace(tt.body, "ID", string(x.ID), 1)
			fmt.Fprint(x.W, tt.body)
		})
		if a.Status != tt.want || a.ErrorCode() != tt.code || tt.code == -32603 && !strings.Contains(string(a.Body), `\"one\"`) {
			t.Errorf("%s gave %s: %s", name, a, a.Body)
		}
		if tt.code != -32603 && string(a.Body) != tt.body {
			t.Errorf("%s became %s", name, a.Body)
		}
		for field, values := range a.Header {
			if strings.Contains(strings.Join(values, " ")+string(a.Body), "canary") {
				t.Errorf("%s: the client was sent %s: %q, %s", name, field, values, a.Body)
			}
		}
		if a.Header.Get("Retry-After") != "7" {
			t.Errorf("%s: Retry-After is lost", name)
		}
	}
}

// TestToolkitStreams: events of an answer arrive as the server sends them.
func TestToolkitStreams(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	next := make(chan struct{})
	one.SetScript("tools/call", func(x *scripted.Exchange) {
		for n := range 3 {
			x.Event(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, n))
			<-next
		}
		x.Event(x.Envelope(`{"resultType":"complete","content":[]}`))
	})
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	c := fixture.NewModern(t, p.URL, "")
	caddytest.HasListed(t, c, scripted.ToolsList, 2)
	s := c.Stream("POST", fixture.Message("1", "tools/call", c.Params(`"name":"one__item-0000"`)),
		http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"one__item-0000"}})
	for n := range 3 {
		if e := s.Await("notifications/message"); !strings.Contains(e.Data, fmt.Sprintf(`"data":%d`, n)) {
			t.Errorf("event %d is %s", n, e.Data)
		}
		next <- struct{}{} // the server goes on when this one has arrived
	}
	s.AwaitEnd()
}

// TestToolkitCompressed: compressed lists are the same lists.
func TestToolkitCompressed(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	two, second := caddytest.NewMember(t, "two")
	for _, w := range []*caddytest.World{one, two} {
		w.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, strings.Repeat("x", 100), 50))
	}
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	c := fixture.NewModern(t, p.URL, "")
	want := caddytest.HasListed(t, c, scripted.ToolsList, 100).Part("result", "tools")
	for coding, decode := range map[string]func(io.Reader) (io.Reader, error){
		"gzip": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"zstd": func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
	} {
		var a *fixture.Answer
		fixture.Await(t, "an answer in "+coding, func() bool {
			a = c.Post(fixture.Message("7", scripted.ToolsList, c.Params("")), http.Header{"Mcp-Method": {scripted.ToolsList}, "Accept-Encoding": {coding}})
			return a.Header.Get("Content-Encoding") == coding
		})
		plain, err := decode(bytes.NewReader(a.Body))
		if err != nil {
			t.Fatal(err)
		}
		if a.Body, err = io.ReadAll(plain); err != nil || !bytes.Equal(a.Part("result", "tools"), want) || string(a.Part("id")) != "7" {
			t.Errorf("%s: %v, %.300s", coding, err, a.Body)
		}
	}
}

// TestToolkitReloads: reloads that change one server make no request of any fail.
func TestToolkitReloads(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	_, second := caddytest.NewMember(t, "two")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	c := fixture.NewModern(t, p.URL, "")
	caddytest.HasListed(t, c, scripted.ToolsList, 4)
	fixture.Await(t, "both feeds of a server", func() bool { return one.Host.CountFeed(scripted.ToolsList) == 2 })
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				a, err := fixture.Insist(func() (*fixture.Answer, error) { return c.TryList(t.Context(), scripted.ToolsList) })
				if err != nil || a.Status != http.StatusOK || !strings.Contains(string(a.Body), "one__item-0000") {
					t.Errorf("a list gave %v, %v", a, err)
					return
				}
				params := c.Params(`"name":"one__item-0000"`)
				a, err = fixture.Insist(func() (*fixture.Answer, error) {
					return c.Try(t.Context(), http.MethodPost, fixture.Message("1", "tools/call", params),
						http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"one__item-0000"}})
				})
				if err != nil || a.Status != http.StatusOK || a.ErrorCode() != 0 {
					t.Errorf("a call gave %v, %v", a, err)
					return
				}
			}
		})
	}
	for n := range 10 {
		second.Options = []string{fmt.Sprintf("endpoint /mcp%d", n), "prefix " + []string{"x_", "y_"}[n%2]}
		second.URL = strings.TrimSuffix(second.URL, "/mcp")
		p.Reload(caddytest.ToolkitOf([]caddytest.Member{first, second}))
	}
	stop()
	clients.Wait()
	// Each feed may ask once more after calls, whether they have changed something.
	if n := one.Host.CountFeed(scripted.ToolsList); n > 4 {
		t.Errorf("reloads that change the other server had a server's feeds ask %d times more", n-2)
	}
}

// TestToolkitHearsCalls: a change that a server tells of in the answer to a call, or not at
// all, is in the next lists.
func TestToolkitHearsCalls(t *testing.T) {
	one, first := caddytest.NewMember(t, "one", "refresh 1ms")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first}))
	c := fixture.NewModern(t, p.URL, "")
	caddytest.HasListed(t, c, scripted.ToolsList, 2)
	one.SetScript("tools/call", func(x *scripted.Exchange) {
		one.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, "told", 3))
		x.Event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		x.Event(x.Envelope(`{"resultType":"complete","content":[]}`))
	})
	if a := c.Call("tools/call", c.Params(`"name":"one__item-0000"`)); a.Status != http.StatusOK {
		t.Errorf("a call gave %s", a)
	}
	if a := listedNow(t, c); len(a.Items("tools")) != 3 {
		t.Errorf("after it was told, a client is given %s", a.Body)
	}
	caddytest.HasListed(t, c, scripted.ToolsList, 3)
	one.SetScript("tools/call", func(x *scripted.Exchange) {
		one.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, "not told", 1))
		x.Error(http.StatusBadRequest, -32602, "unknown tool")
	})
	if a := c.Call("tools/call", c.Params(`"name":"one__item-0001"`)); a.ErrorCode() != -32602 {
		t.Errorf("a call gave %s", a)
	}
	caddytest.HasListed(t, c, scripted.ToolsList, 1)
	// A server that announces nothing is looked at after each call that may have changed it.
	mute, second := caddytest.NewMember(t, "mute", "refresh 1ms")
	mute.SetCapabilities(`{"tools":{}}`)
	p.Reload(caddytest.ToolkitOf([]caddytest.Member{second}))
	caddytest.HasListed(t, c, scripted.ToolsList, 2)
	mute.SetScript("tools/call", func(x *scripted.Exchange) {
		mute.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, "not told", 5))
		x.Result(`{"resultType":"complete","content":[]}`)
	})
	c.Call("tools/call", c.Params(`"name":"mute__item-0000"`))
	caddytest.HasListed(t, c, scripted.ToolsList, 5)
}

// TestToolkitFollowsTheSlash: calls reach a server that redirects its endpoint to the same
// path with a slash, as its feed does.
func TestToolkitFollowsTheSlash(t *testing.T) {
	w := caddytest.NewUpstreamBehind(t, func(s *scripted.Server) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/mcp" {
				http.Redirect(rw, r, "/mcp/", http.StatusTemporaryRedirect)
				return
			}
			s.ServeHTTP(rw, r)
		})
	})
	w.SetHints(scripted.PublicHour)
	w.Host.Start()
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{{Name: "one", URL: w.Host.URL}}))
	c := fixture.NewModern(t, p.URL, "")
	caddytest.HasListed(t, c, scripted.ToolsList, 3)
	if a := c.Call("tools/call", c.Params(`"name":"one__item-0000"`)); a.Status != http.StatusOK || a.ErrorCode() != 0 {
		t.Errorf("a call gave %s: %s", a, a.Body)
	}
}

// TestToolkitKeepsPrefixes: what begins with the prefix of a server is that server's, also
// while it is away and another one has an item of such a name.
func TestToolkitKeepsPrefixes(t *testing.T) {
	down := fixture.NewDownHost(t, http.NotFoundHandler())
	off, second := caddytest.NewMember(t, "off", "prefix off")
	off.SetList(scripted.ToolsList, scripted.Page{`{"name":"down__pay","inputSchema":{"type":"object"}}`, `{"name":"own","inputSchema":{"type":"object"}}`})
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{{Name: "down", URL: down.URL}, second}, "gate 0"))
	c := fixture.NewModern(t, p.URL, "")
	fixture.Await(t, "the list of the server that is there", func() bool { return len(c.List(scripted.ToolsList).Items("tools")) == 1 })
	for name, status := range map[string]int{"down__pay": 503, "own": 200, "down__": 400} {
		if a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":%q`, name))); a.Status != status {
			t.Errorf("a call of %s gave %s", name, a)
		}
	}
	if n := len(clientsOf(off)); n != 1 {
		t.Errorf("%d calls reached the server without a prefix", n)
	}
}
