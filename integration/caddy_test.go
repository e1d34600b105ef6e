package integration

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
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// running is the one Caddy of the process.
var running struct {
	admin string // its admin endpoint's address
	home  string // its storage
	http  *http.Client
}

func startCaddy(home string) error {
	admin, _, err := fixture.TakeAddr()
	if err != nil {
		return fmt.Errorf("choosing admin port: %w", err)
	}
	running.admin, running.home = admin, home
	// The admin endpoint comes back at its port after each reload, so no
	// connection to it may be kept.
	running.http = &http.Client{
		Transport: adminTransport{&http.Transport{DisableKeepAlives: true}}, Timeout: 2 * fixture.Deadline,
	}
	never := false
	return caddy.Run(&caddy.Config{
		Admin: &caddy.AdminConfig{Listen: running.admin, Config: &caddy.ConfigSettings{Persist: &never}},
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

// globals are the options of every configuration of the tests.
func globals(logFile string) string {
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
`, running.admin, running.home, output)
}

// load gives Caddy a configuration through its admin endpoint. Clients of the
// site that has gone open new connections.
func load(contentType string, config []byte) error {
	return loadAt(running.admin, contentType, config)
}

// loadAt gives a configuration to the Caddy with that admin endpoint.
func loadAt(admin, contentType string, config []byte) error {
	defer fixture.CloseIdleConnections()
	r, err := http.NewRequest(http.MethodPost, "http://"+admin+"/load", bytes.NewReader(config))
	if err != nil {
		return fmt.Errorf("making load request: %w", err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Cache-Control", "must-revalidate") // also if nothing changed
	res, err := running.http.Do(r)
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

// proxy is a site of the running Caddy.
type proxy struct {
	// URL is the MCP endpoint, Addr its host and port.
	URL, Addr string

	t       testing.TB
	logFile string
	servers string // options of its server; "": the usual ones
	name    string // of the site; "": it answers to all
}

// startProxy makes Caddy serve a site with that body, until the test ends.
func startProxy(t testing.TB, body string) *proxy {
	t.Helper()
	return startProxyOf(t, "", body)
}

// startProxyCalled is like startProxy, with the name of the site.
func startProxyCalled(t testing.TB, name, body string) *proxy {
	t.Helper()
	p := newProxy(t)
	p.name = name
	p.reload(body)
	return p
}

// startProxyOf is like startProxy, with options of the server.
func startProxyOf(t testing.TB, servers, body string) *proxy {
	t.Helper()
	p := newProxy(t)
	p.servers = servers
	p.reload(body)
	return p
}

// newProxy returns a site that Caddy has not been told of.
func newProxy(t testing.TB) *proxy {
	t.Helper()
	addr := fixture.FreeAddr(t)
	p := &proxy{
		URL: "http://" + addr + "/mcp", Addr: addr, t: t, logFile: filepath.Join(t.TempDir(), "caddy.log"),
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.dumpLog()
		}
		if err := load("text/caddyfile", []byte(globals(""))); err != nil {
			t.Errorf("going idle: %v", err)
		}
	})
	return p
}

// reload replaces the site's body.
func (p *proxy) reload(body string) {
	p.t.Helper()
	if err := p.tryReload(body); err != nil {
		p.t.Fatal(err)
	}
}

func (p *proxy) tryReload(body string) error {
	_, port, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return fmt.Errorf("splitting address: %w", err)
	}
	// A site without a host name answers whatever name a client asks for: what
	// the handler makes of foreign names is its own decision.
	site := fmt.Sprintf("http://%s {\n\tbind 127.0.0.1\n%s\n}\n", net.JoinHostPort(p.name, port), body)
	config := globals(p.logFile)
	if p.servers != "" {
		config = strings.Replace(config, "auto_https off", "auto_https off\n\tservers {\n\t\t"+p.servers+"\n\t}", 1)
	}
	return load("text/caddyfile", []byte(config+site))
}

// log returns what Caddy has logged.
func (p *proxy) log() string {
	content, err := os.ReadFile(p.logFile)
	if err != nil {
		p.t.Fatalf("reading log: %v", err)
	}
	return string(content)
}

// dumpLog shows the last of the log, without Caddy's own start and requests.
func (p *proxy) dumpLog() {
	file, err := os.Open(p.logFile)
	if err != nil {
		p.t.Logf("no log: %v", err)
		return
	}
	defer file.Close()
	var lines []string
	for s := bufio.NewScanner(file); s.Scan(); {
		if strings.Contains(s.Text(), "mcp_cache") || strings.Contains(s.Text(), `"error"`) {
			lines = append(lines, s.Text())
		}
	}
	p.t.Logf("the log's last lines:\n%s", strings.Join(lines[max(0, len(lines)-25):], "\n"))
}

// mcpCache writes the directive for an upstream with those options.
func mcpCache(url string, options ...string) string {
	return "mcp_cache " + url + " {\n\t" + strings.Join(options, "\n\t") + "\n}"
}
