package command

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/demo"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

func TestFreeAddress(t *testing.T) {
	got, err := freeAddress(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := freeAddress(t.Context(), got); err != nil || again != got {
		t.Errorf("of %s: got %s, %v", got, again, err)
	}
	for _, bad := range []string{"8080", "localhost", "127.0.0.1:http", "127.0.0.1:65536", "127.0.0.1:8080-8081", ""} {
		if got, err := freeAddress(t.Context(), bad); err == nil {
			t.Errorf("of %q: got %s and no error", bad, got)
		}
	}
}

// taken returns an address that is in use the way Caddy uses addresses: on many
// systems, another Caddy could listen on it too.
func taken(t *testing.T) string {
	t.Helper()
	address, err := caddy.ParseNetworkAddress("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bound, err := address.Listen(context.Background(), 0, net.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	listener := bound.(net.Listener)
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func TestTakenAddress(t *testing.T) {
	from := taken(t)
	if got, err := freeAddress(t.Context(), from); err == nil || !strings.HasPrefix(err.Error(), from+" is in use: ") {
		t.Errorf("free address of %s: got %s, error %v", from, got, err)
	}
	admin, err := adminAddress(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	if admin == from || !strings.HasPrefix(admin, "127.0.0.1:") {
		t.Errorf("admin address: got %s, want another one than %s on 127.0.0.1", admin, from)
	}
}

func TestUsualAdminAddress(t *testing.T) {
	free, err := freeAddress(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, usual := range []string{free, "unix//run/caddy-admin.sock"} {
		if got, err := adminAddress(t.Context(), usual); err != nil || got != usual {
			t.Errorf("got %s, %v; want %s", got, err, usual)
		}
	}
	if got, err := adminAddress(t.Context(), "127.0.0.1:9-1"); err == nil {
		t.Errorf("got %s and no error", got)
	}
}

func TestEndpointURL(t *testing.T) {
	const to = "http://localhost:1/mcp"
	for name, c := range map[string]struct{ from, to, want string }{
		"host":          {from: "127.0.0.1:8080", to: to, want: "http://127.0.0.1:8080/mcp"},
		"name":          {from: "localhost:8080", to: to, want: "http://localhost:8080/mcp"},
		"all addresses": {from: ":8080", to: to, want: "http://127.0.0.1:8080/mcp"},
		"all IPv4":      {from: "0.0.0.0:8080", to: to, want: "http://127.0.0.1:8080/mcp"},
		"all IPv6":      {from: "[::]:8080", to: to, want: "http://127.0.0.1:8080/mcp"},
		"IPv6":          {from: "[::1]:8080", to: to, want: "http://[::1]:8080/mcp"},
		"no path":       {from: "localhost:8080", to: "http://localhost:1", want: "http://localhost:8080/mcp"},
		"other path":    {from: "localhost:8080", to: "http://localhost:1/", want: "http://localhost:8080/"},
		"quote":         {from: "localhost:8080", to: "http://localhost:1/it's", want: "http://localhost:8080/it%27s"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := endpointURL(c.from, c.to); err != nil || got != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

var (
	curlCommand = regexp.MustCompile(`(?s)curl -s.*? -d '[^']+'`)
	curlHeader  = regexp.MustCompile(`-H ['"]([^:]+): ([^'"]+)['"]`)
	curlBody    = regexp.MustCompile(`-d '([^']+)'`)
	curlURL     = regexp.MustCompile(`curl -s\S* (?:-o /dev/null -D - )?'([^']+)'`)
)

// bothEras is the status of a handler that caches the tools in either era.
func bothEras() []report.Status {
	status := report.Status{Ready: true}
	for _, r := range []string{"2025-11-25", "2026-07-28"} {
		status.Feeds = append(status.Feeds, report.Feed{Revision: r, State: feed.Ready})
		status.Kinds = append(status.Kinds, report.Snapshot{Kind: "tools", Revision: r, Items: 2})
	}
	return []report.Status{status}
}

// TestSuggestionsFit gives the recipes of the eras in which there are hits.
func TestSuggestionsFit(t *testing.T) {
	const modern, legacy = "# MCP 2026-07-28", "# MCP 2025-11-25"
	for name, c := range map[string]struct {
		change         func(*report.Status)
		modern, legacy bool
		line           string
	}{
		"both": {func(*report.Status) {}, true, true, "Cached at 2025-11-25: tools 2; at 2026-07-28: tools 2.\n"},
		"legacy only": {func(s *report.Status) {
			s.Feeds[1].State, s.Kinds = feed.Unsupported, s.Kinds[:1]
		}, false, true, "Cached at 2025-11-25: tools 2.\n"},
		"ttlMs 0": {func(s *report.Status) { s.Kinds[1].Uncacheable = "ttlMs 0" }, false, true, "Cached at 2025-11-25: tools 2. " +
			"Not cached at 2026-07-28: tools: ttlMs is 0, so every request for them goes to the server. With --min-ttl 1m they are kept; clients that keep lists themselves may then miss a change for that minute.\n"},
		"no lists": {func(s *report.Status) { s.Kinds = nil }, false, false, "The server has no lists to cache.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			statuses := bothEras()
			c.change(&statuses[0])
			text := suggestions("http://127.0.0.1:1/mcp", statuses)
			if strings.Contains(text, modern) != c.modern || strings.Contains(text, legacy) != c.legacy {
				t.Errorf("it suggests\n%s", text)
			}
			if line := summary(statuses); line != c.line {
				t.Errorf("it sums up %q, want %q", line, c.line)
			}
		})
	}
}

// TestSuggestionsOfAnOlderRevision has a server speak an older one than the latest.
func TestSuggestionsOfAnOlderRevision(t *testing.T) {
	statuses := bothEras()
	for i, r := range []string{"2025-03-26", "2025-06-18"} {
		statuses[0].Feeds[i].Revision, statuses[0].Kinds[i].Revision = r, r
	}
	text := suggestions("http://127.0.0.1:1/mcp", statuses)
	if !strings.Contains(text, "# MCP 2025-06-18") || strings.Count(text, "2025-06-18") != 4 || strings.Contains(text, "2025-11-25") || strings.Contains(text, "2025-03-26") {
		t.Errorf("it suggests\n%s", text)
	}
}

// TestSuggestions sends what the suggested commands send to a server that
// checks it.
func TestSuggestions(t *testing.T) {
	server, err := demo.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	commands := curlCommand.FindAllString(suggestions(server.URL(), bothEras()), -1)
	want := []string{`"tools":[`, `"protocolVersion":"2025-11-25"`, "", `"tools":[`}
	if len(commands) != len(want) {
		t.Fatalf("got %d commands, want %d", len(commands), len(want))
	}
	var session string
	for i, command := range commands {
		body := curlBody.FindStringSubmatch(command)
		target := curlURL.FindStringSubmatch(command)
		if body == nil || target == nil || target[1] != server.URL() {
			t.Fatalf("cannot read the command:\n%s", command)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target[1], strings.NewReader(body[1]))
		if err != nil {
			t.Fatal(err)
		}
		for _, header := range curlHeader.FindAllStringSubmatch(command, -1) {
			request.Header.Set(header[1], strings.ReplaceAll(header[2], "$session", session))
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode/100 != 2 || !strings.Contains(string(answer), want[i]) {
			t.Errorf("status %d: got %s, want it to contain %s", response.StatusCode, answer, want[i])
		}
		if id := response.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
	}
}
