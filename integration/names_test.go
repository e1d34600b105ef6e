package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestOneNameForTwoCaches: there is one warning for it, which says which ones. Handlers
// that share a cache are one, and so are an old and a new one while a configuration is
// loaded.
func TestOneNameForTwoCaches(t *testing.T) {
	w := newUpstream(t)
	w.host.Start()
	other := fixture.NewHost(t, scripted.New())
	sites := func(paths ...string) string {
		var text strings.Builder
		for i, directive := range paths {
			fmt.Fprintf(&text, "handle /site%d/* {\nuri strip_prefix /site%[1]d\n%s\n}\n", i, directive)
		}
		return text.String()
	}
	const warning = "several handlers have one name, and differ in their server or rules"
	count := func() int { return strings.Count(w.proxy.log(), warning) }

	w.proxy = startProxy(t, sites(mcpCache(w.host.URL), mcpCache(w.host.URL, "ttl 7m")))
	awaitReady(t, "mcp_cache")
	w.proxy.reload(sites(mcpCache(other.URL), mcpCache(w.host.URL, "name b")))
	if n := count(); n != 0 {
		t.Fatalf("of handlers that share a cache, or are not of one configuration, there are %d warnings:\n%s", n, w.proxy.log())
	}
	w.proxy.reload(sites(mcpCache(w.host.URL), mcpCache(other.URL), mcpCache(other.URL, "name b"), mcpCache(other.URL)))
	if n := count(); n != 1 {
		t.Fatalf("of two caches of one name there are %d warnings, want 1", n)
	}
	for line := range strings.Lines(w.proxy.log()) {
		if strings.Contains(line, warning) && (!strings.Contains(line, `"level":"warn"`) || !strings.Contains(line, `"name":"mcp_cache"`) ||
			!strings.Contains(line, fmt.Sprintf(`"upstreams":["%s","%s"]`, w.host.URL, other.URL))) {
			t.Errorf("the warning is %s", line)
		}
	}
	w.proxy.reload(sites(mcpCache(w.host.URL, "deny tools x"), mcpCache(w.host.URL)))
	if n := count(); n != 2 {
		t.Fatalf("of one cache under two rules there are %d warnings more, want 1", n-1)
	}
	w.proxy.reload(sites(mcpCache(w.host.URL), mcpCache(other.URL)))
	_, complaint := mcpCommand(t, 1, "list", "tools")
	for _, url := range []string{w.host.URL, other.URL} {
		if !strings.Contains(complaint, "mcp_cache ("+url+")") {
			t.Errorf("without a name the command says %s", complaint)
		}
	}
	if !strings.Contains(complaint, "give those of one name different ones first") {
		t.Errorf("without a name the command says %s", complaint)
	}
	_, complaint = mcpCommand(t, 1, "list", "tools", "--name", "mcp_cache")
	wantOneLine(t, complaint, "2 handlers are called \"mcp_cache\", in front of "+w.host.URL)
}
