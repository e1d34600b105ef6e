package operate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestServeShowsProgress starts serve before its upstream: it says that it
// waits, what has been fetched, and when it is ready.
func TestServeShowsProgress(t *testing.T) {
	w := caddytest.NewUpstream(t)
	release := make(chan struct{})
	w.SetScript(scripted.PromptsList, scripted.Hang(release))
	p := caddytest.StartProcess(t, nil, "mcp-cache", "serve", "--from", "127.0.0.1:0", "--to", w.Host.URL)
	shows := func(want string) func() bool {
		return func() bool {
			return slices.ContainsFunc(p.Lines(), func(line string) bool {
				return strings.HasPrefix(line, "Feeds: ") && strings.Contains(line, want)
			})
		}
	}
	fixture.Await(t, "it to say that the upstream is down", shows("2025-11-25 down (connect: "))
	if !shows("down (connect: connection refused at 127.0.0.1:")() {
		t.Error("it does not say why")
	}
	w.Host.Start()
	endpoint, _ := p.Find("mcp_cache is at ")
	endpoint, _, _ = strings.Cut(endpoint, ", ")
	for _, revision := range caddytest.Revisions {
		fixture.New(t, endpoint, revision, "").List(scripted.ToolsList) // the feed need not wait for its next attempt
	}
	fixture.Await(t, "it to say that it hydrates", shows("2025-11-25 hydrating"))
	fixture.Await(t, "it to say what is there", shows("tools 3"))
	close(release)
	fixture.Await(t, "it to be ready", shows("2025-11-25 ready, 2026-07-28 ready, tools 3, prompts 3, resources 3, resource_templates 3"))
	admin, ok := p.Find("Caddy's admin API is at ")
	if !ok {
		t.Fatal("it does not say where its admin API is")
	}
	_, command, printed := strings.Cut(admin, ". See how the cache is: caddy ")
	if !printed {
		command = "mcp-cache status --address " + strings.TrimSuffix(admin, ".")
	}
	table, complaint, code := caddytest.Run(t, strings.Fields(command)...)
	if code != 0 || caddytest.Fields(table, "tools") == nil {
		t.Errorf("its status is %d, %s%s", code, table, complaint)
	}
	// It has said itself that the server was down, and that a client goes away is
	// nothing that people have to know of.
	s := fixture.New(t, endpoint, scripted.LatestLegacy, "")
	s.List(scripted.ToolsList)
	stream := s.Notices()
	fixture.Await(t, "the client's stream", func() bool { return w.Streams(caddytest.OfEra(s)) == 1 })
	stream.Close()
	fixture.Await(t, "the end of the client's stream", func() bool { return w.Streams(caddytest.OfEra(s)) == 0 })
	if got := p.Complaints(); got != "" {
		t.Errorf("on standard error it says\n%s", got)
	}
	w.Host.Kill()
	fixture.Await(t, "it to say that the upstream is gone", func() bool {
		lines := p.Lines()
		return strings.HasPrefix(lines[len(lines)-1], "Trouble: nothing listens at ")
	})
	if got := p.Complaints(); got != "" {
		t.Errorf("on standard error it says\n%s", got)
	}
}

// TestRefreshesAreTraced exports the spans of a Caddy that traces requests: the
// feeds' refreshes are among them.
func TestRefreshesAreTraced(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	admin, addr := fixture.FreeAddr(t), fixture.FreeAddr(t)
	_, port, _ := strings.Cut(addr, ":")
	caddyfile := filepath.Join(t.TempDir(), "Caddyfile")
	config := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n}\nhttp://:%s {\n\tbind 127.0.0.1\n\troute {\n\t\ttracing\n\t\t%s\n\t}\n}\n",
		admin, port, caddytest.Directive(w.Host.URL))
	if err := os.WriteFile(caddyfile, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := caddytest.StartProcess(t, []string{"OTEL_TRACES_EXPORTER=console", "OTEL_BSP_SCHEDULE_DELAY=50"}, "run", "--config", caddyfile)
	fixture.Await(t, "a list", func() bool {
		c := fixture.NewModern(t, "http://"+addr+"/mcp", "")
		a, err := c.TryList(t.Context(), scripted.ToolsList)
		return err == nil && a.Status == http.StatusOK
	})
	if _, complaint, code := caddytest.Run(t, "mcp-cache", "refresh", "tools", "--address", admin); code != 0 {
		t.Fatalf("refreshing: %d, %s", code, complaint)
	}
	spans := func() map[string]int {
		counts := make(map[string]int)
		decoder := json.NewDecoder(strings.NewReader(strings.Join(p.Lines(), "\n")))
		for {
			var span struct {
				Name       string
				Attributes []struct {
					Key   string
					Value struct{ Value any }
				}
			}
			if err := decoder.Decode(&span); err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("reading spans: %v", err)
				}
				return counts
			}
			for _, a := range span.Attributes {
				if a.Key == "mcp.method.name" {
					counts[fmt.Sprint(span.Name, " ", a.Value.Value)]++
				}
			}
		}
	}
	fixture.Await(t, "the spans", func() bool {
		counts := spans()
		return counts["handler tools/list"] > 0 && counts["refresh tools tools/list"] >= 2
	})
}
