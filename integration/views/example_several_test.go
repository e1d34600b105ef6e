package views

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestExampleSeveral has a client at each path of the example: it gets the list of
// that server from the cache of that name.
func TestExampleSeveral(t *testing.T) {
	offer := func(tool string) *fixture.Host {
		return newOffering(t, offering{tools: map[string]*mcp.ToolAnnotations{tool: nil}})
	}
	first := startExampleOf(t, "several", offer("file_ticket"), offer("search_docs"))
	for name, tool := range map[string]string{"tickets": "file_ticket", "docs": "search_docs"} {
		c := fixture.NewModern(t, strings.TrimSuffix(first, "/mcp")+"/"+name+"/mcp", "")
		fixture.Await(t, "a hit of "+name, func() bool {
			a := c.List(scripted.ToolsList)
			if got := listed(t, a, ways[0]); got != tool {
				t.Fatalf("%s lists %s", name, got)
			}
			return a.CacheStatus().Hit && strings.HasPrefix(a.CacheStatus().Raw, name+";")
		})
	}
}
