package views

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// offering is what a server offers: names of tools, each with its annotations, names of
// prompts, URIs and templates.
type offering struct {
	tools                         map[string]*mcp.ToolAnnotations
	prompts, resources, templates []string
}

// newOffering starts a server of the official SDK of both eras, whose lists may be
// shared for an hour.
func newOffering(t *testing.T, o offering) *fixture.Host {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "offering", Version: "1"}, &mcp.ServerOptions{
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.TTLMs, c.CacheScope = int(time.Hour.Milliseconds()), "public"
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	for name, annotations := range o.tools {
		server.AddTool(&mcp.Tool{Name: name, Annotations: annotations, InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "called " + name}}}, nil
			})
	}
	for _, name := range o.prompts {
		server.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
		})
	}
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "text"}}}, nil
	}
	for _, uri := range o.resources {
		server.AddResource(&mcp.Resource{URI: uri, Name: uri}, read)
	}
	for _, template := range o.templates {
		server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: template, Name: template}, read)
	}
	return fixture.NewHost(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true}))
}

// startExampleOf starts the Caddyfile of an example in front of servers of the test's, in
// the place of those at the ports 3001 and on, and returns the URL for clients.
func startExampleOf(t *testing.T, example string, hosts ...*fixture.Host) string {
	t.Helper()
	file := "../../examples/" + example + "/Caddyfile"
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, host := range hosts {
		upstream := fmt.Sprintf("127.0.0.1:%d", 3001+i)
		if !bytes.Contains(source, []byte(upstream)) {
			t.Fatalf("the example has no upstream at %s", upstream)
		}
		source = bytes.ReplaceAll(source, []byte(upstream), []byte(host.Addr))
	}
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(source, map[string]any{"filename": file})
	if err != nil {
		t.Fatal(err)
	}
	addrs := caddytest.StartAdapted(t, adapted)
	return "http://" + addrs[0] + "/mcp"
}

// seen is what a caller is to see and be able to call, by the requests for it.
type seen struct {
	tools, prompts, resources, templates string // separated by spaces
	// More is what can be read though no list has it.
	more string
}

// way is how one kind of items is listed and named.
type way struct {
	list, key, field string
	name, param      string // the request that names an item
	of               func(seen) string
}

var ways = []way{
	{scripted.ToolsList, "tools", "name", "tools/call", "name", func(s seen) string { return s.tools }},
	{scripted.PromptsList, "prompts", "name", "prompts/get", "name", func(s seen) string { return s.prompts }},
	{scripted.ResourcesList, "resources", "uri", "resources/read", "uri", func(s seen) string { return s.resources }},
	{scripted.TemplatesList, "resourceTemplates", "uriTemplate", "", "", func(s seen) string { return s.templates }},
}

// listed are the items of a list, sorted.
func listed(t *testing.T, a *fixture.Answer, w way) string {
	t.Helper()
	if a.Part("result", w.key) == nil {
		t.Fatalf("%s gave %s", w.list, a)
	}
	var names []string
	for _, raw := range a.Items(w.key) {
		var item map[string]any
		if err := json.Unmarshal([]byte(raw), &item); err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprint(item[w.field]))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// wantSeen lists, before and after lists are hits, and names every item that anybody
// may see: what the caller may not see is answered like what does not exist, and no
// such request gets to the server.
func wantSeen(t *testing.T, c *fixture.Raw, host *fixture.Host, all, s seen) {
	t.Helper()
	for _, w := range ways {
		want := strings.Fields(w.of(s))
		if got := listed(t, c.List(w.list), w); got != strings.Join(want, " ") {
			t.Errorf("%s at first shows %s, want %v", w.list, got, want)
		}
		if got := listed(t, c.Settle(w.list), w); got != strings.Join(want, " ") {
			t.Errorf("%s as a hit shows %s, want %v", w.list, got, want)
		}
		if w.name == "" {
			continue
		}
		ask := func(name string) *fixture.Answer {
			return c.Post(fixture.Message("7", w.name, c.Params(fmt.Sprintf("%q:%q", w.param, name))), mirrored(c, w.name, name))
		}
		allowed, names := want, strings.Fields(w.of(all))
		if w.name == "resources/read" {
			allowed, names = append(want, strings.Fields(s.more)...), append(names, strings.Fields(all.more)...)
		}
		for _, name := range names {
			before := len(host.Requests(naming7))
			a := ask(name)
			asked := len(host.Requests(naming7)) - before
			switch {
			case slices.Contains(allowed, name):
				if a.Part("result") == nil || asked != 1 {
					t.Errorf("%s of %s, which is shown, asked the server %d times and gave %s", w.name, name, asked, a)
				}
			case asked != 0 || a.Header.Get("Cache-Status") != "mcp_cache; detail=denied":
				t.Errorf("%s of %s, which is hidden, asked the server %d times and gave %s", w.name, name, asked, a)
			default:
				none := ask(missing(name))
				if a.Status != none.Status || strings.ReplaceAll(string(a.Body), name, missing(name)) != string(none.Body) {
					t.Errorf("%s of %s, which is hidden, gave %s; of what does not exist it is %s", w.name, name, a, none)
				}
				if w.name == "tools/call" && (string(a.Part("error", "code")) != "-32602" || string(a.Part("error", "message")) != `"Unknown tool: `+name+`"`) {
					t.Errorf("a hidden tool gave %s", a)
				}
			}
		}
	}
}

// naming7 tells the requests of clients that name an item from all others by their id.
func naming7(r *fixture.Request) bool { return !r.Feed && bytes.Contains(r.Body, []byte(`"id":7,`)) }

// missing is a name, or URI, like another that does not exist, of which the rules say
// the same.
func missing(name string) string {
	if strings.Contains(name, "://") {
		return name + "zz"
	}
	return "zz" + name
}

// TestExampleRoles has each user of examples/roles list and call everything.
func TestExampleRoles(t *testing.T) {
	tools := make(map[string]*mcp.ToolAnnotations)
	all := seen{
		tools:     "deploy_start index_drop logs_tail search_docs search_drop ticket_close ticket_drop user_add",
		prompts:   "help plan reply_polite",
		resources: "docs://guide/a docs://public/a docs://secrets/a docs://tickets/1",
		templates: "docs://public/{name} docs://tickets/{id}",
		more:      "docs://public/made docs://tickets/made docs://tickets/../secrets/a docs://tickets/%2e%2e/secrets/a",
	}
	for name := range strings.FieldsSeq(all.tools) {
		tools[name] = nil
	}
	host := newOffering(t, offering{tools, strings.Fields(all.prompts), strings.Fields(all.resources), strings.Fields(all.templates)})
	url := startExampleOf(t, "roles", host)
	for user, s := range map[string]seen{
		"sam": {
			"search_docs ticket_close", "help reply_polite", "docs://public/a docs://tickets/1", "docs://public/{name}",
			"docs://public/made docs://tickets/made",
		},
		"dora": {
			"deploy_start logs_tail search_docs", "help", "docs://guide/a docs://public/a docs://tickets/1", "docs://public/{name}",
			"docs://public/made docs://tickets/made",
		},
		"ada": {
			"deploy_start logs_tail search_docs ticket_close user_add", "help plan reply_polite", "docs://guide/a docs://public/a docs://tickets/1",
			"docs://public/{name} docs://tickets/{id}", "docs://public/made docs://tickets/made",
		},
	} {
		t.Run(user, func(t *testing.T) {
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				c := fixture.New(t, url, revision, basicAuth(user, "try me"))
				// What a client says of itself changes nothing.
				for _, name := range []string{"Groups", "X-Groups", "Remote-Groups", "Remote-User"} {
					c.Header.Set(name, "admin")
				}
				wantSeen(t, c, host, all, s)
			})
		})
	}
	for name, authorization := range map[string]string{"no credentials": "", "a wrong password": basicAuth("ada", "wrong"), "an unknown user": basicAuth("admin", "try me")} {
		c := fixture.NewModern(t, url, authorization)
		if a := c.List(scripted.ToolsList); a.Status != http.StatusUnauthorized {
			t.Errorf("a list with %s gave %s", name, a)
		}
	}
	for _, r := range host.Requests(func(r *fixture.Request) bool { return r.Header.Get("Authorization") != "" }) {
		t.Errorf("the server was sent a password with %s", r.Body)
	}
}

func basicAuth(user, password string) string {
	r := &http.Request{Header: make(http.Header)}
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

// TestExampleReadOnly has a client list and call everything of a server whose tools
// say, or do not, that they only read.
func TestExampleReadOnly(t *testing.T) {
	no := false
	all := seen{
		tools: "add drop read run_query word_count", prompts: "plan", resources: "docs://a", templates: "docs://{name}", more: "docs://made",
	}
	host := newOffering(t, offering{map[string]*mcp.ToolAnnotations{
		"read": {ReadOnlyHint: true}, "run_query": {ReadOnlyHint: true}, "add": {DestructiveHint: &no}, "drop": nil, "word_count": nil,
	}, strings.Fields(all.prompts), strings.Fields(all.resources), strings.Fields(all.templates)})
	url := startExampleOf(t, "read-only", host)
	shown := all
	shown.tools = "read word_count"
	for _, revision := range []string{scripted.Modern, scripted.LatestLegacy} {
		t.Run(revision, func(t *testing.T) { wantSeen(t, fixture.New(t, url, revision, ""), host, all, shown) })
	}
}
