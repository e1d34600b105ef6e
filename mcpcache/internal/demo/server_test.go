package demo_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/demo"
)

// eras are one revision of each era that the demo server speaks.
var eras = []string{"2025-11-25", "2026-07-28"}

// start starts a demo server that ends with the test.
func start(t *testing.T) *demo.Server {
	t.Helper()
	s, err := demo.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

// connect connects a client of the given revision.
func connect(t *testing.T, s *demo.Server, revision string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.URL()},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("closing session: %v", err)
		}
	})
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Fatalf("negotiated %s, want %s", got, revision)
	}
	return session
}

// forEachEra runs a test with a client of each era.
func forEachEra(t *testing.T, test func(t *testing.T, session *mcp.ClientSession, revision string)) {
	t.Helper()
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			test(t, connect(t, start(t), revision, nil), revision)
		})
	}
}

func TestEraOffersEveryKindOfList(t *testing.T) {
	forEachEra(t, func(t *testing.T, session *mcp.ClientSession, revision string) {
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range tools.Tools {
			names = append(names, tool.Name)
		}
		if want := []string{"add", "count", "time", "toggle_tool"}; !slices.Equal(names, want) {
			t.Errorf("tools: got %v, want %v", names, want)
		}
		prompts, err := session.ListPrompts(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(prompts.Prompts) != 2 {
			t.Errorf("prompts: got %d, want 2", len(prompts.Prompts))
		}
		resources, err := session.ListResources(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(resources.Resources) != 2 {
			t.Errorf("resources: got %d, want 2", len(resources.Resources))
		}
		templates, err := session.ListResourceTemplates(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(templates.ResourceTemplates) != 1 {
			t.Errorf("resource templates: got %d, want 1", len(templates.ResourceTemplates))
		}
		if revision != "2026-07-28" {
			return
		}
		if tools.TTLMs != 60_000 || tools.CacheScope != "public" {
			t.Errorf("cache hints: got %d %q, want 60000 \"public\"", tools.TTLMs, tools.CacheScope)
		}
	})
}

func TestToolsAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		tool  string
		args  map[string]any
		want  string
		fails bool
	}{
		"sum":              {tool: "add", args: map[string]any{"a": 2, "b": 40.5}, want: `{"sum":42.5}`},
		"operand missing":  {tool: "add", args: map[string]any{"a": 2}, want: "b", fails: true},
		"count":            {tool: "count", args: map[string]any{"steps": 2, "pause_ms": 0}, want: "Counted to 2."},
		"most steps":       {tool: "count", args: map[string]any{"steps": 20, "pause_ms": 0}, want: "Counted to 20."},
		"one step too far": {tool: "count", args: map[string]any{"steps": 21, "pause_ms": 0}, want: "schema validation", fails: true},
		"pause too long":   {tool: "count", args: map[string]any{"steps": 1, "pause_ms": 1001}, want: "schema validation", fails: true},
		"time":             {tool: "time", want: "Z"},
	} {
		t.Run(name, func(t *testing.T) {
			forEachEra(t, func(t *testing.T, session *mcp.ClientSession, _ string) {
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
				if err != nil {
					t.Fatal(err)
				}
				if result.IsError != c.fails {
					t.Errorf("is error: got %t, want %t", result.IsError, c.fails)
				}
				if text := result.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, c.want) {
					t.Errorf("got %q, want it to contain %q", text, c.want)
				}
			})
		})
	}
}

func TestCountReportsProgress(t *testing.T) {
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			const steps = 4
			progress := make(chan *mcp.ProgressNotificationParams, steps)
			session := connect(t, start(t), revision, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					progress <- r.Params
				},
			})
			params := &mcp.CallToolParams{
				Name:      "count",
				Arguments: map[string]any{"steps": steps, "pause_ms": 1},
			}
			params.SetProgressToken("count-1")
			if _, err := session.CallTool(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			// The result may overtake one of the notices, which is lost then, and the
			// client may handle two in another order than they came in.
			seen := make(map[float64]bool)
			for range steps - 1 {
				got := <-progress
				if got.Progress < 1 || got.Progress > steps || seen[got.Progress] || got.Total != steps || got.ProgressToken != "count-1" {
					t.Errorf("after %v: got %+v", seen, got)
				}
				seen[got.Progress] = true
			}
		})
	}
}

func TestPromptsAndResourcesAnswer(t *testing.T) {
	forEachEra(t, func(t *testing.T, session *mcp.ClientSession, _ string) {
		prompt, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{
			Name: "greet", Arguments: map[string]string{"name": "Ada"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if text := prompt.Messages[0].Content.(*mcp.TextContent).Text; !strings.Contains(text, "Ada") {
			t.Errorf("greet: got %q", text)
		}
		if _, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "greet"}); err == nil {
			t.Error("greet without a name: got no error")
		}
		if _, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "tour"}); err != nil {
			t.Errorf("tour: %v", err)
		}
		for uri, want := range map[string]string{
			"demo://about":      "This is the demo server of mcp_cache.",
			"demo://square/-12": "144",
		} {
			read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
			if err != nil {
				t.Fatal(err)
			}
			if text := read.Contents[0].Text; !strings.HasPrefix(text, want) {
				t.Errorf("%s: got %q, want %q", uri, text, want)
			}
		}
		if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "demo://square/x"}); err == nil {
			t.Error("the square of x: got no error")
		}
	})
}

func TestToggleToolAnnouncesTheChange(t *testing.T) {
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			changed := make(chan struct{}, 1)
			s := start(t)
			session := connect(t, s, revision, &mcp.ClientOptions{
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
					select {
					case changed <- struct{}{}:
					default:
					}
				},
			})
			// A legacy client gets no ttlMs and so keeps no list of its own.
			uncached := connect(t, s, "2025-11-25", nil)
			awaitNotice(t, session, changed)
			for range 2 {
				before := offers(t, uncached, "extra")
				call(t, session, "toggle_tool")
				for offers(t, session, "extra") == before {
					<-changed
				}
			}
		})
	}
}

// awaitNotice returns once the server's notices reach the client: its stream
// may be opened some time after it has connected.
func awaitNotice(t *testing.T, session *mcp.ClientSession, changed <-chan struct{}) {
	t.Helper()
	for {
		call(t, session, "toggle_tool")
		select {
		case <-changed:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func call(t *testing.T, session *mcp.ClientSession, tool string) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
	if err != nil {
		t.Fatal(err)
	}
	if result.IsError {
		t.Fatalf("%s: %v", tool, result.Content)
	}
}

func offers(t *testing.T, session *mcp.ClientSession, tool string) bool {
	t.Helper()
	for offered, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if offered.Name == tool {
			return true
		}
	}
	return false
}

func TestLargestRequest(t *testing.T) {
	const prefix = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{},"clientInfo":{"version":"1","name":"`
	const suffix = `"}}}`
	s := start(t)
	for size, want := range map[int]int{1 << 20: http.StatusOK, 1<<20 + 1: http.StatusBadRequest} {
		body := prefix + strings.Repeat("x", size-len(prefix)-len(suffix)) + suffix
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL(), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != want {
			t.Errorf("%d bytes: got status %d, want %d", size, response.StatusCode, want)
		}
	}
}

func TestCloseEndsStreamsAndServer(t *testing.T) {
	s := start(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("opening a stream: got status %d", response.StatusCode)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Wait(); err != nil {
		t.Errorf("waiting: %v", err)
	}
	if n, err := response.Body.Read(make([]byte, 1)); err == nil {
		t.Errorf("reading the stream after Close: got %d bytes and no error", n)
	}
	if again, err := http.DefaultClient.Do(request); err == nil {
		again.Body.Close()
		t.Error("connecting after Close: got an answer")
	}
}
