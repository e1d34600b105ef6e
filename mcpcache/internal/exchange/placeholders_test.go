package exchange

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestPlaceholders(t *testing.T) {
	modern := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Name": {"named"}}
	for name, c := range map[string]struct {
		x                                          exchange
		header                                     http.Header
		outcome, method, kind, era, revision, tool string
	}{
		"list": {
			x:       exchange{in: inbound.Request{Method: "tools/list"}, outcome: outcome.Hit, search: search{question: question{revision: revision.V20251125}}},
			outcome: "hit", method: "tools/list", kind: "tools", era: "legacy", revision: "2025-11-25",
		},
		"stale templates": {
			x:       exchange{in: inbound.Request{Method: "resources/templates/list"}, outcome: outcome.Stale},
			header:  modern,
			outcome: "stale", method: "resources/templates/list", kind: "resource_templates", era: "modern", revision: "2026-07-28",
		},
		"call": {
			x:       exchange{in: inbound.Request{Method: "tools/call", Body: wholeBody(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"es\u0063aped"}}`)}},
			header:  http.Header{"Mcp-Name": {"named"}},
			outcome: "bypass", method: "tools/call", era: "legacy", revision: "unknown", tool: "escaped",
		},
		"call of no tool": {
			x:       exchange{in: inbound.Request{Method: "tools/call", Body: wholeBody(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)}},
			outcome: "bypass", method: "tools/call", era: "legacy", revision: "unknown",
		},
		"call that is no JSON": {
			x:       exchange{in: inbound.Request{Method: "tools/call", Body: wholeBody(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}`)}},
			outcome: "bypass", method: "tools/call", era: "legacy", revision: "unknown",
		},
		"call known by its header": {
			x: exchange{in: inbound.Request{Method: "tools/call"}, outcome: outcome.Miss}, header: modern,
			outcome: "miss", method: "tools/call", era: "modern", revision: "2026-07-28", tool: "named",
		},
		"stream": {
			header:  http.Header{"Mcp-Protocol-Version": {"1999-01-01"}, "Mcp-Name": {"named"}},
			outcome: "bypass", era: "legacy", revision: "unknown",
		},
	} {
		t.Run(name, func(t *testing.T) {
			repl := caddy.NewReplacer()
			ctx := context.WithValue(t.Context(), caddy.ReplacerCtxKey, repl)
			c.x.r = httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", nil)
			c.x.r.Header = c.header
			c.x.replacer = replacerOf(c.x.r)
			c.x.mapPlaceholders()
			for key, want := range map[string]string{
				"outcome": c.outcome, "method": c.method, "kind": c.kind, "era": c.era, "revision": c.revision, "tool": c.tool,
			} {
				if got := repl.ReplaceAll("{http.mcp_cache."+key+"}", "unset"); got != cmp.Or(want, "unset") {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
			if got, known := repl.GetString("http.mcp_cache.other"); known {
				t.Errorf("an unknown placeholder is %q", got)
			}
		})
	}
}

// A log asks for the tool of a call after the call. If rules have refused the call, other requests use the buffer of its
// body by then. The tool is the one in the body, whatever the header says.
func TestToolOfARefusedCall(t *testing.T) {
	f := ruled(t, config{})
	f.admitLegacy(t, "session")
	call := func(tool string, status int, header ...string) *caddy.Replacer {
		repl := caddy.NewReplacer()
		r := legacyRequest(revision.V20251125, "session", "tools/call")
		withBody(r, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`)
		r.Header["Mcp-Name"] = header
		f.denied(t, tool, r.WithContext(context.WithValue(t.Context(), caddy.ReplacerCtxKey, repl)), status)
		return repl
	}
	const tool = "hidden-first"
	calls := map[string]*caddy.Replacer{tool: call(tool, http.StatusOK), "": call("", http.StatusBadRequest, "another")}
	for range 10 {
		call("hidden-later", http.StatusOK)
	}
	for tool, repl := range calls {
		if got, _ := repl.GetString("http.mcp_cache.tool"); got != tool {
			t.Errorf("the tool is %q, want %q", got, tool)
		}
	}
}

// wholeBody is a body that has been read.
func wholeBody(text string) inbound.Body { return inbound.Body{Bytes: []byte(text), Whole: true} }
