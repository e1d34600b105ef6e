package operate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestOneNameForTwoCaches: there is one warning for it, which says which ones. Handlers
// that share a cache are one, and so are an old and a new one while a configuration is
// loaded.
func TestOneNameForTwoCaches(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	other := fixture.NewHost(t, scripted.New())
	sites := func(paths ...string) string {
		var text strings.Builder
		for i, directive := range paths {
			fmt.Fprintf(&text, "handle /site%d/* {\nuri strip_prefix /site%[1]d\n%s\n}\n", i, directive)
		}
		return text.String()
	}
	const warning = "several handlers have one name, and differ in their server or rules"
	count := func() int { return strings.Count(w.Proxy.Log(), warning) }

	w.Proxy = caddytest.StartProxy(t, sites(caddytest.Directive(w.Host.URL), caddytest.Directive(w.Host.URL, "ttl 7m")))
	caddytest.AwaitReady(t, "mcp_cache")
	w.Proxy.Reload(sites(caddytest.Directive(other.URL), caddytest.Directive(w.Host.URL, "name b")))
	if n := count(); n != 0 {
		t.Fatalf("of handlers that share a cache, or are not of one configuration, there are %d warnings:\n%s", n, w.Proxy.Log())
	}
	w.Proxy.Reload(sites(caddytest.Directive(w.Host.URL), caddytest.Directive(other.URL), caddytest.Directive(other.URL, "name b"), caddytest.Directive(other.URL)))
	if n := count(); n != 1 {
		t.Fatalf("of two caches of one name there are %d warnings, want 1", n)
	}
	for line := range strings.Lines(w.Proxy.Log()) {
		if strings.Contains(line, warning) && (!strings.Contains(line, `"level":"warn"`) || !strings.Contains(line, `"name":"mcp_cache"`) ||
			!strings.Contains(line, fmt.Sprintf(`"upstreams":["%s","%s"]`, w.Host.URL, other.URL))) {
			t.Errorf("the warning is %s", line)
		}
	}
	w.Proxy.Reload(sites(caddytest.Directive(w.Host.URL, "deny tools x"), caddytest.Directive(w.Host.URL)))
	if n := count(); n != 2 {
		t.Fatalf("of one cache under two rules there are %d warnings more, want 1", n-1)
	}
	w.Proxy.Reload(sites(caddytest.Directive(w.Host.URL), caddytest.Directive(other.URL)))
	_, complaint := caddytest.Command(t, 1, "list", "tools")
	for _, url := range []string{w.Host.URL, other.URL} {
		if !strings.Contains(complaint, "mcp_cache ("+url+")") {
			t.Errorf("without a name the command says %s", complaint)
		}
	}
	if !strings.Contains(complaint, "give those of one name different ones first") {
		t.Errorf("without a name the command says %s", complaint)
	}
	_, complaint = caddytest.Command(t, 1, "list", "tools", "--name", "mcp_cache")
	caddytest.WantOneLine(t, complaint, "2 handlers are called \"mcp_cache\", in front of "+w.Host.URL)
}
