package lists

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// allowing is a server whose answers pages of an origin may read.
func allowing(origin string, server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") == origin {
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", origin)
			h.Add("Vary", "Origin")
			h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Cache-Status")
			if r.Method == http.MethodOptions {
				h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
				h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		server.ServeHTTP(w, r)
	})
}

// pageReport is what the client in the page has to tell.
type pageReport struct {
	Lists    [][]string
	Statuses []string
	Session  string
	Error    string
}

// page serves a page with that script at an origin of its own, and returns the
// origin and what the script reports.
func page(t *testing.T, script string) (origin string, reports <-chan pageReport) {
	t.Helper()
	reported := make(chan pageReport, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!DOCTYPE html><script type="module" src="client.js"></script>`)
	})
	mux.HandleFunc("GET /client.js", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		http.ServeFile(w, r, script)
	})
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var report pageReport
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			t.Errorf("reading the page's report: %v", err)
		}
		reported <- report
	})
	return "http://" + fixture.NewHost(t, mux).Addr, reported
}

// TestPageOfAnotherOrigin has a page in a browser list with the TypeScript SDK,
// from another origin than the endpoint's: its lists are the server's, and hits.
// It runs if a browser is installed and MCP_BROWSER_CLIENT names the bundle of
// browser/client.mjs.
func TestPageOfAnotherOrigin(t *testing.T) {
	script := os.Getenv("MCP_BROWSER_CLIENT")
	if _, err := exec.LookPath("chromium"); err != nil || script == "" {
		t.Skip("chromium is not installed, or MCP_BROWSER_CLIENT is not set")
	}
	origin, reports := page(t, script)
	s := scripted.New()
	s.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, scripted.LongMark, 3))
	host := fixture.NewHost(t, allowing(origin, s))
	p := caddytest.StartProxy(t, caddytest.Directive(host.URL, "origins "+origin))
	fixture.New(t, p.URL, scripted.LatestLegacy, "").Settle(scripted.ToolsList)

	browser := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0",
		"--user-data-dir="+t.TempDir(), origin+"/?server="+p.URL)
	// Asked to end, it ends its helpers, which write to the profile. They hold
	// this pipe as well: Wait returns when the last of them is gone, and only
	// then can the profile be removed.
	var said bytes.Buffer
	browser.Stderr = &said
	if err := browser.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = browser.Process.Signal(syscall.SIGTERM)
		_ = browser.Wait()
		if t.Failed() {
			t.Logf("the browser says:\n%s", &said)
		}
	}()
	var report pageReport
	select {
	case report = <-reports:
	case <-time.After(4 * fixture.Deadline):
		t.Fatal("the page has not reported")
	}
	if report.Error != "" || report.Session == "" || len(report.Lists) != 5 || len(report.Statuses) != 5 {
		t.Fatalf("the page reports %+v", report)
	}
	for i, names := range report.Lists {
		if len(names) != 3 {
			t.Errorf("list %d has the tools %v", i, names)
		}
		if hit := strings.Contains(report.Statuses[i], "; hit"); !hit && i > 0 {
			t.Errorf("list %d: %s", i, report.Statuses[i])
		}
	}
}
