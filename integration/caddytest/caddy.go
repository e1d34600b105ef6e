package caddytest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-mcp/mcp-cache"
	_ "github.com/caddy-mcp/mcp-cache/examples/guard" // for its Caddyfile, too
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	_ "github.com/caddy-mcp/mcp-cache/mcpcache/stores/redis"
)

// adminTransport reaches Caddy's admin endpoint. Each load replaces the
// endpoint, and a connection may still be accepted by the one that is about to
// end: then the request was not read and is sent again.
type adminTransport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (a adminTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return fixture.Insist(func() (*http.Response, error) {
		again := r.Clone(r.Context())
		if r.GetBody != nil {
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			again.Body = body
		}
		return a.RoundTripper.RoundTrip(again)
	})
}

// Running is the one Caddy of the process.
var Running struct {
	Admin string // its admin endpoint's address
	Home  string // its storage
	HTTP  *http.Client
}

func startCaddy(home string) error {
	admin, _, err := fixture.TakeAddr()
	if err != nil {
		return fmt.Errorf("choosing admin port: %w", err)
	}
	Running.Admin, Running.Home = admin, home
	// The admin endpoint comes back at its port after each reload, so no
	// connection to it may be kept.
	Running.HTTP = &http.Client{
		Transport: adminTransport{&http.Transport{DisableKeepAlives: true}}, Timeout: 2 * fixture.Deadline,
	}
	never := false
	return caddy.Run(&caddy.Config{
		Admin: &caddy.AdminConfig{Listen: Running.Admin, Config: &caddy.ConfigSettings{Persist: &never}},
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {
			BaseLog: caddy.BaseLog{WriterRaw: json.RawMessage(`{"output":"discard"}`)},
		}}},
		StorageRaw: json.RawMessage(fmt.Sprintf(`{"module":"file_system","root":%q}`, home)),
	})
}

func stopCaddy() error {
	// Stop leaves the admin endpoint alone; only a configuration without one
	// ends it.
	if err := caddy.Load([]byte(`{"admin":{"disabled":true,"config":{"persist":false}},"logging":{"logs":{"default":{"writer":{"output":"discard"}}}}}`), true); err != nil {
		return fmt.Errorf("disabling admin endpoint: %w", err)
	}
	return caddy.Stop()
}

// Globals are the options of every configuration of the tests.
func Globals(logFile string) string {
	output := "output discard"
	if logFile != "" {
		output = "output file " + logFile + " {\n\t\t\troll_disabled\n\t\t}\n\t\tformat json\n\t\tlevel DEBUG"
	}
	return fmt.Sprintf(`{
	admin %s
	persist_config off
	auto_https off
	grace_period 5s
	storage file_system %s
	log default {
		%s
	}
}
`, Running.Admin, Running.Home, output)
}

// Load gives Caddy a configuration through its admin endpoint. Clients of the
// site that has gone open new connections.
func Load(contentType string, config []byte) error {
	return LoadAt(Running.Admin, contentType, config)
}

// LoadAt gives a configuration to the Caddy with that admin endpoint.
func LoadAt(admin, contentType string, config []byte) error {
	defer fixture.CloseIdleConnections()
	r, err := http.NewRequest(http.MethodPost, "http://"+admin+"/load", bytes.NewReader(config))
	if err != nil {
		return fmt.Errorf("making load request: %w", err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Cache-Control", "must-revalidate") // also if nothing changed
	res, err := Running.HTTP.Do(r)
	if err != nil {
		return fmt.Errorf("loading configuration: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("reading load answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("loading configuration gave %d: %s", res.StatusCode, answer)
	}
	return nil
}

// Proxy is a site of the running Caddy.
type Proxy struct {
	// URL is the MCP endpoint, Addr its host and port.
	URL, Addr string

	T       testing.TB
	LogFile string
	servers string // options of its server; "": the usual ones
	name    string // of the site; "": it answers to all
}

// StartProxy makes Caddy serve a site with that body, until the test ends.
func StartProxy(t testing.TB, body string) *Proxy {
	t.Helper()
	return StartProxyOf(t, "", body)
}

// StartProxyCalled is like StartProxy, with the name of the site.
func StartProxyCalled(t testing.TB, name, body string) *Proxy {
	t.Helper()
	p := newProxy(t)
	p.name = name
	p.Reload(body)
	return p
}

// StartProxyOf is like StartProxy, with options of the server.
func StartProxyOf(t testing.TB, servers, body string) *Proxy {
	t.Helper()
	p := newProxy(t)
	p.servers = servers
	p.Reload(body)
	return p
}

// newProxy returns a site that Caddy has not been told of.
func newProxy(t testing.TB) *Proxy {
	t.Helper()
	addr := fixture.FreeAddr(t)
	p := &Proxy{
		URL: "http://" + addr + "/mcp", Addr: addr, T: t, LogFile: filepath.Join(t.TempDir(), "caddy.log"),
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.dumpLog()
		}
		if err := Load("text/caddyfile", []byte(Globals(""))); err != nil {
			t.Errorf("going idle: %v", err)
		}
	})
	return p
}

// Reload replaces the site's body.
func (p *Proxy) Reload(body string) {
	p.T.Helper()
	if err := p.TryReload(body); err != nil {
		p.T.Fatal(err)
	}
}

// TryReload is like [Proxy.Reload], and returns what goes wrong.
func (p *Proxy) TryReload(body string) error {
	_, port, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return fmt.Errorf("splitting address: %w", err)
	}
	// A site without a host name answers whatever name a client asks for: what
	// the handler makes of foreign names is its own decision.
	site := fmt.Sprintf("http://%s {\n\tbind 127.0.0.1\n%s\n}\n", net.JoinHostPort(p.name, port), body)
	config := Globals(p.LogFile)
	if p.servers != "" {
		config = strings.Replace(config, "auto_https off", "auto_https off\n\tservers {\n\t\t"+p.servers+"\n\t}", 1)
	}
	return Load("text/caddyfile", []byte(config+site))
}

// Log returns what Caddy has logged.
func (p *Proxy) Log() string {
	content, err := os.ReadFile(p.LogFile)
	if err != nil {
		p.T.Fatalf("reading log: %v", err)
	}
	return string(content)
}

// dumpLog shows the last of the log, without Caddy's own start and requests.
func (p *Proxy) dumpLog() {
	file, err := os.Open(p.LogFile)
	if err != nil {
		p.T.Logf("no log: %v", err)
		return
	}
	defer file.Close()
	var lines []string
	for s := bufio.NewScanner(file); s.Scan(); {
		if strings.Contains(s.Text(), "mcp_cache") || strings.Contains(s.Text(), `"error"`) {
			lines = append(lines, s.Text())
		}
	}
	p.T.Logf("the log's last lines:\n%s", strings.Join(lines[max(0, len(lines)-25):], "\n"))
}

// Directive writes the directive for an upstream with those options.
func Directive(url string, options ...string) string {
	return "mcp_cache " + url + " {\n\t" + strings.Join(options, "\n\t") + "\n}"
}

// AccessLog returns the entries of the access log.
func AccessLog(t *testing.T, p *Proxy) []map[string]any {
	t.Helper()
	var entries []map[string]any
	for line := range strings.Lines(p.Log()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == "handled request" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// GoIdle takes all sites away.
func GoIdle(t testing.TB) {
	t.Helper()
	if err := Load("text/caddyfile", []byte(Globals(""))); err != nil {
		t.Fatalf("going idle: %v", err)
	}
}
