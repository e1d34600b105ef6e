package programs

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// guest is a session of an SDK's client with the reference server.
type guest interface {
	// lists returns the four lists.
	lists(ctx context.Context) ([]any, error)
	// echo has the server say what it was told.
	echo(ctx context.Context, message string) (string, error)
	ping(ctx context.Context) error
	Close() error
}

// visitors connect clients of both SDKs.
var visitors = map[string]func(t *testing.T, url string) (guest, error){
	"go-sdk": func(t *testing.T, url string) (guest, error) {
		c, err := fixture.DialGoSDK(t, url, scripted.LatestLegacy)
		return goSDKGuest{c}, err
	},
	"mcp-go": func(t *testing.T, url string) (guest, error) {
		c, err := fixture.DialMCPGo(t, url, scripted.LatestLegacy)
		return mcpGoGuest{c}, err
	},
}

type goSDKGuest struct{ *fixture.GoSDKClient }

func (g goSDKGuest) lists(ctx context.Context) ([]any, error) {
	s := g.Session()
	tools, err := s.ListTools(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("listing tools: %w", err)
	}
	prompts, err := s.ListPrompts(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("listing prompts: %w", err)
	}
	resources, err := s.ListResources(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("listing resources: %w", err)
	}
	templates, err := s.ListResourceTemplates(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("listing resource templates: %w", err)
	}
	return []any{tools.Tools, prompts.Prompts, resources.Resources, templates.ResourceTemplates}, nil
}

func (g goSDKGuest) echo(ctx context.Context, message string) (string, error) {
	result, err := g.Session().CallTool(ctx, &gosdk.CallToolParams{Name: "echo", Arguments: map[string]any{"message": message}})
	if err != nil {
		return "", fmt.Errorf("calling echo: %w", err)
	}
	text, _ := result.Content[0].(*gosdk.TextContent)
	return text.Text, nil
}

func (g goSDKGuest) ping(ctx context.Context) error { return g.Session().Ping(ctx, nil) }

type mcpGoGuest struct{ *fixture.MCPGoClient }

func (g mcpGoGuest) lists(ctx context.Context) ([]any, error) {
	c := g.Client()
	tools, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing tools: %w", err)
	}
	prompts, err := c.ListPrompts(ctx, mcp.ListPromptsRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing prompts: %w", err)
	}
	resources, err := c.ListResources(ctx, mcp.ListResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing resources: %w", err)
	}
	templates, err := c.ListResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing resource templates: %w", err)
	}
	return []any{tools.Tools, prompts.Prompts, resources.Resources, templates.ResourceTemplates}, nil
}

func (g mcpGoGuest) echo(ctx context.Context, message string) (string, error) {
	var request mcp.CallToolRequest
	request.Params.Name = "echo"
	request.Params.Arguments = map[string]any{"message": message}
	result, err := g.Client().CallTool(ctx, request)
	if err != nil {
		return "", fmt.Errorf("calling echo: %w", err)
	}
	text, _ := mcp.AsTextContent(result.Content[0])
	return text.Text, nil
}

func (g mcpGoGuest) ping(ctx context.Context) error { return g.Client().Ping(ctx) }

// visitor opens one session after the other.
type visitor struct {
	t         *testing.T
	name, url string
	kind      string
}

func newVisitor(t *testing.T, server, kind, url string) *visitor {
	return &visitor{t: t, name: kind + " at " + server, url: url, kind: kind}
}

// visitRounds is how often a session asks for everything.
const visitRounds = 8

// direct returns the lists of one session.
func (v *visitor) direct() string {
	v.t.Helper()
	g, err := visitors[v.kind](v.t, v.url)
	if err != nil {
		v.t.Fatalf("%s, direct: %v", v.name, err)
	}
	all, err := g.lists(v.t.Context())
	if err != nil {
		v.t.Fatalf("%s, direct: %v", v.name, err)
	}
	if err := g.Close(); err != nil {
		v.t.Errorf("%s, direct: %v", v.name, err)
	}
	return v.written(all)
}

func (v *visitor) written(lists []any) string {
	all, err := json.Marshal(lists)
	if err != nil {
		v.t.Errorf("%s: writing lists: %v", v.name, err)
	}
	return string(all)
}

// visit uses one session after the other until then, or until a call fails. It returns
// how many calls there were.
func (v *visitor) visit(until time.Time, want string) (calls int) {
	for session := 1; time.Now().Before(until); session++ {
		g, err := visitors[v.kind](v.t, v.url)
		if err != nil {
			v.t.Errorf("%s, session %d: %v", v.name, session, err)
			return calls
		}
		for round := range visitRounds {
			if err := v.round(g, fmt.Sprintf("%d.%d", session, round), want); err != nil {
				v.t.Errorf("%s, session %d, round %d: %v", v.name, session, round, err)
				return calls
			}
			calls += 6
			time.Sleep(time.Second) // a client is not always at work
		}
		if err := g.Close(); err != nil {
			v.t.Errorf("%s, end of session %d: %v", v.name, session, err)
		}
	}
	return calls
}

// round makes each call once.
func (v *visitor) round(g guest, message, want string) error {
	ctx, cancel := context.WithTimeout(v.t.Context(), 2*fixture.Deadline)
	defer cancel()
	all, err := g.lists(ctx)
	if err != nil {
		return err
	}
	if got := v.written(all); got != want {
		v.t.Errorf("%s, %s: the lists differ\nwant %s\ngot %s", v.name, message, want, got)
	}
	if said, err := g.echo(ctx, message); err != nil || said != "Echo: "+message {
		return fmt.Errorf("echo said %q, %w", said, err)
	}
	if err := g.ping(ctx); err != nil {
		return fmt.Errorf("pinging: %w", err)
	}
	return nil
}
