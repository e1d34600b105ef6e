package programs

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// bridge is a program that lets clients of Streamable HTTP use one that speaks over
// its standard input and output, and what passed between it and Caddy.
type bridge struct {
	name   string
	server *caddytest.OtherServer
	host   *fixture.Host

	notices tallied // of changed lists, to the feed and to clients, by capability
	answers tallied // by HTTP method and status, those of 400 and above
	refused tallied // those of clients
}

// startBridge runs a bridge until the test ends.
func startBridge(t *testing.T, name, addr string, command []string) *bridge {
	t.Helper()
	b := &bridge{name: name, server: caddytest.StartOther(t, addr, command...)}
	proxy := &httputil.ReverseProxy{
		// Node closes connections that rest, and a call must not be lost by our counting.
		Transport:      &http.Transport{DisableKeepAlives: true},
		FlushInterval:  -1,
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: addr}) },
		ModifyResponse: b.note,
	}
	b.host = fixture.NewHost(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Where an answer begins before the request has been read to its end, net/http
		// takes the rest away from the proxy, which then drops the answer.
		message, err := io.ReadAll(r.Body)
		if err != nil {
			return // whoever asked has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(message))
		proxy.ServeHTTP(w, r)
	}))
	return b
}

// note counts what an answer says.
func (b *bridge) note(res *http.Response) error {
	if res.StatusCode >= http.StatusBadRequest {
		answer := fmt.Sprintf("%s %d", res.Request.Method, res.StatusCode)
		b.answers.add(answer)
		if strings.HasPrefix(res.Request.UserAgent(), scripted.ClientAgent) {
			b.refused.add(answer)
		}
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body = &noticeCounter{ReadCloser: res.Body, count: &b.notices}
	}
	return nil
}

// noticeCounter counts the notices of changed lists in a stream.
type noticeCounter struct {
	io.ReadCloser

	count *tallied
	rest  []byte // of a line that has not come to its end
}

func (c *noticeCounter) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.rest = append(c.rest, p[:n]...)
	end := bytes.LastIndexByte(c.rest, '\n') + 1
	for line := range bytes.Lines(c.rest[:end]) {
		for _, capability := range []string{"tools", "prompts", "resources"} {
			if bytes.Contains(line, []byte(`"notifications/`+capability+`/list_changed"`)) {
				c.count.add(capability)
			}
		}
	}
	c.rest = append(c.rest[:0], c.rest[end:]...)
	return n, err
}

// tallied counts things by name.
type tallied struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tallied) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int)
	}
	c.n[name]++
}

func (c *tallied) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}

func (c *tallied) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.TrimPrefix(fmt.Sprint(c.n), "map")
}

// asked returns what the bridge was asked by the feed or by clients, by method.
func (b *bridge) asked(feed bool) *tallied {
	var asked tallied
	for _, r := range b.host.Requests(func(r *fixture.Request) bool { return r.Feed == feed }) {
		if r.Method == "" {
			r.Method = r.HTTPMethod
		}
		asked.add(r.Method)
	}
	return &asked
}

// exited reports whether the bridge has ended by itself.
func (b *bridge) exited() bool {
	select {
	case <-b.server.Gone:
		return true
	default:
		return false
	}
}

// supergateway returns the command of supergateway of a major version.
func supergateway(o caddytest.Others, version, addr string, stdio ...string) []string {
	return []string{
		o.Node(), filepath.Join(o.Dir, "node_modules/supergateway"+version+"/dist/index.js"), "--stdio", "'" + strings.Join(stdio, "' '") + "'",
		"--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none", "--port", portOf(addr),
	}
}

// mcpProxy returns the command of the mcp-proxy of PyPI.
func mcpProxy(o caddytest.Others, addr string, stdio ...string) []string {
	program := filepath.Join(o.Dir, "mcp-proxy/bin/mcp-proxy")
	return append([]string{program, "--log-level", "ERROR", "--port", portOf(addr), "--"}, stdio...)
}

func portOf(addr string) string {
	_, port, _ := strings.Cut(addr, ":")
	return port
}

// bridgesFor returns how long bridges are used.
func bridgesFor(t *testing.T) time.Duration {
	t.Helper()
	said := os.Getenv("MCP_BRIDGES_FOR")
	if said == "" {
		return 20 * time.Second
	}
	lasting, err := time.ParseDuration(said)
	if err != nil {
		t.Fatalf("reading MCP_BRIDGES_FOR: %v", err)
	}
	return lasting
}

// bridgeTTL is how long lists of bridges are fresh, in seconds.
const bridgeTTL = 5

// TestBridges has bridges stand between Caddy and programs: the reference server, and,
// given a minute, one that is slow.
func TestBridges(t *testing.T) {
	o := caddytest.InstalledOthers(t)
	lasting := bridgesFor(t)
	t.Run("the reference server", func(t *testing.T) { useBridges(t, o, lasting) })
	if lasting >= time.Minute {
		t.Run("a slow program", func(t *testing.T) { useSlowProgram(t, o) })
	}
}

// useBridges has two clients use each of some bridges to the reference server, and that
// server itself, behind one Caddy: no bridge exits, no call fails, every list is as it
// is without the cache, and the feed asks for no more than what the settings allow.
func useBridges(t *testing.T, o caddytest.Others, lasting time.Duration) {
	t.Helper()
	// The server itself would outlive its bridge.
	everything := []string{
		o.Node(), "--import", `data:text/javascript,process.stdin.on("end",()=>process.exit())`, o.Everything()[1], "stdio",
	}
	addr := func() string { return fixture.FreeAddr(t) }
	first, second, third, fourth := addr(), addr(), addr(), addr()
	bridges := []*bridge{
		startBridge(t, "supergateway3", first, supergateway(o, "3", first, everything...)),
		startBridge(t, "supergateway4", second, supergateway(o, "4", second, everything...)),
		startBridge(t, "mcp-proxy", third, mcpProxy(o, third, everything...)),
		startBridge(t, "everything", fourth, o.Everything()),
	}
	want := make(map[string]string)
	var site strings.Builder
	for _, b := range bridges {
		for kind := range visitors {
			v := newVisitor(t, b.name, kind, "http://"+b.server.Addr+"/mcp")
			want[v.name] = v.direct()
		}
		options := caddytest.Directive(b.host.URL, "name "+b.name, "ttl "+strconv.Itoa(bridgeTTL)+"s")
		fmt.Fprintf(&site, "handle_path /%s/* {\n%s\n}\n", b.name, options)
	}
	p := caddytest.StartProxy(t, site.String())
	began := time.Now()
	until := began.Add(lasting)
	var visiting sync.WaitGroup
	var calls atomic.Int64
	for _, b := range bridges {
		for kind := range visitors {
			v := newVisitor(t, b.name, kind, fmt.Sprintf("http://%s/%s/mcp", p.Addr, b.name))
			visiting.Go(func() { calls.Add(int64(v.visit(until, want[v.name]))) })
		}
	}
	visiting.Wait()
	seconds := int(time.Since(began)/time.Second) + 1
	t.Logf("%d calls of clients in %ds", calls.Load(), seconds)
	for _, b := range bridges {
		b.check(t, seconds)
	}
}

// check says what the bridge was asked in that time, and fails if that is too much.
func (b *bridge) check(t *testing.T, seconds int) {
	t.Helper()
	if b.exited() {
		t.Errorf("%s has exited", b.name)
	}
	feed, clients := b.asked(true), b.asked(false)
	t.Logf("%s: notices of changed lists %s; refused %s\n  the feed sent %s\n  clients sent %s",
		b.name, &b.notices, &b.answers, feed, clients)
	if refused := b.refused.String(); refused != "[]" {
		t.Errorf("%s refused %s of clients", b.name, refused)
	}
	for method, n := range feed.n {
		if most := b.allowed(method, seconds); n > most {
			t.Errorf("the feed sent %d %s to %s in %ds, more than %d", n, method, b.name, seconds, most)
		}
	}
}

// allowed returns how often the feed may have sent that in so many seconds. It asks as
// itself and as each of the two clients.
func (b *bridge) allowed(method string, seconds int) int {
	const as = 3
	switch method {
	case "initialize", "notifications/initialized", http.MethodGet, http.MethodDelete:
		return as * (seconds/60 + 2)
	}
	capability, _, _ := strings.Cut(method, "/")
	return as*(seconds/bridgeTTL+2) + 2*b.notices.of(capability)
}
