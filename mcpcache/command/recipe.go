package command

import (
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// suggestions returns what to try with the cache at endpoint, which endpointURL
// has made: commands for a POSIX shell, to be pasted as they are, of the eras in
// which the tools are cached, each at the newest revision in which they are.
func suggestions(endpoint string, statuses []report.Status) string {
	statuses = forClients(statuses)
	texts := map[revision.Era]string{revision.Modern: modernRecipe, revision.Legacy: legacyRecipe}
	var recipes []string
	for _, r := range slices.Backward(revision.All()) {
		if text := texts[r.Era()]; text != "" && cachesTools(statuses, r.String()) {
			recipes = append(recipes, strings.NewReplacer("{url}", endpoint, "{revision}", r.String()).Replace(text))
			delete(texts, r.Era())
		}
	}
	if len(recipes) == 0 {
		return ""
	}
	return tryIt + strings.Join(recipes, "\n")
}

// cachesTools reports whether the tools of that revision can be hits.
func cachesTools(statuses []report.Status, revision string) bool {
	for _, status := range statuses {
		ready := status.Servers != nil && status.Ready
		for _, f := range status.Feeds {
			ready = ready || f.Revision == revision && f.State == feed.Ready
		}
		for _, k := range status.Kinds {
			if ready && k.Revision == revision && k.Kind == "tools" && k.Uncacheable == "" {
				return true
			}
		}
	}
	return false
}

const tryIt = `
Point an MCP client at it, or paste these lines into a shell. The Cache-Status
header of an answer tells whether it came from the cache.

`

const modernRecipe = `# MCP {revision}: lists the tools twice. The server has to accept a caller once
# before the cache answers, so the second answer is the hit.
for try in 1 2; do curl -si '{url}' \
  -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream' \
  -H 'MCP-Protocol-Version: {revision}' -H 'Mcp-Method: tools/list' \
  -d '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"{revision}","io.modelcontextprotocol/clientCapabilities":{}}}}'
echo; done
`

const legacyRecipe = `# MCP {revision}: opens a session and lists the tools in it, twice. The first
# list of a client that is new to the cache may go to the server.
session=$(curl -s -o /dev/null -D - '{url}' \
  -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream' \
  -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"{revision}","capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}' |
  tr -d '\r' | awk -F ': ' 'tolower($1) == "mcp-session-id" { print $2 }')
curl -s '{url}' \
  -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream' \
  -H "Mcp-Session-Id: $session" -H 'MCP-Protocol-Version: {revision}' \
  -d '{"jsonrpc":"2.0","method":"notifications/initialized"}'
for try in 1 2; do curl -si '{url}' \
  -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream' \
  -H "Mcp-Session-Id: $session" -H 'MCP-Protocol-Version: {revision}' \
  -d '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
echo; done
`
