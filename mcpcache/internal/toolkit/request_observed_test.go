package toolkit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy/policytest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// counted writes down what metrics and logs are told of each request.
type counted struct {
	requests []string
	lost     bool // the context of one is not the request's
}

// Answered implements [outcome.Observer].
func (o *counted) Answered(a outcome.Answered) {
	o.requests = append(o.requests, fmt.Sprintf("%s %q: %s of %q %q at %s in %s",
		outcome.Methods[a.Method()], a.MethodName(), a.Outcome(), a.Server(), a.Tool(), a.Revision(), a.Took()))
	o.lost = o.lost || a.Context().Value(caddy.ReplacerCtxKey) == nil
}

// Noticed implements [outcome.Observer].
func (*counted) Noticed(revision.KindSet, outcome.Source) {}

// Metrics count each request once, with what became of it: those of the endpoint all of them, and those of a server what
// it was handed.
func TestRequestsAreCounted(t *testing.T) {
	one, ofOne := serves("one"), new(counted)
	one.of.Observer = ofOne
	late := func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
		time.Sleep(3 * time.Second)
		return clienttest.Result(w, c, "{}")
	}
	one.On("tools/call", late)
	rules := setup{rules: []string{"deny prompts one__prompts_b"}}
	runWith(t, rules, func(w *world) {
		w.eachEra(func(c *caller) {
			all := new(counted)
			w.Observer, ofOne.requests = all, nil
			c.list(revision.Tools)
			c.call("one__tools_a")
			c.ask("prompts/get", `"name":"one__prompts_b"`)
			c.ask("made/up", "")
			c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			c.post("{")
			c.send(c.request(http.MethodPut, "/mcp", ""))
			at, named := c.at.String(), c.at.String()
			if c.at == modern {
				named = "unknown" // the notification does not name one, and is in no session
			}
			routed := `tools/call "tools/call": routed of "one" "one__tools_a" at ` + at + " in 3s"
			want := []string{
				`tools/list "tools/list": hit of "" "" at ` + at + " in 0s", routed,
				`prompts/get "prompts/get": denied of "" "" at ` + at + " in 0s",
				`other "made/up": bypass of "" "" at ` + at + " in 0s",
				`notification "notifications/initialized": bypass of "" "" at ` + named + " in 0s",
				`other "": bypass of "" "" at unknown in 0s`, `other "": bypass of "" "" at unknown in 0s`,
			}
			if !slices.Equal(all.requests, want) || all.lost {
				w.Errorf("the endpoint has counted\n%s\nwant\n%s", strings.Join(all.requests, "\n"), strings.Join(want, "\n"))
			}
			if !slices.Equal(ofOne.requests, []string{routed}) {
				w.Errorf("the server has counted %q", ofOne.requests)
			}
		})
	}, one)
}

// Handlers around the endpoint can ask what becomes of a request, also while a server still works on it, and after a refusal,
// when other requests use the buffer that its body was in.
func TestPlaceholdersTellOfRequests(t *testing.T) {
	one := serves("one").with(func(m *member) { m.of.Rules = policytest.Parse(t, "deny tools hidden*") })
	var asked map[string]string
	ask := func(r *http.Request) {
		replacer := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		asked = make(map[string]string)
		for _, key := range []string{"outcome", "method", "kind", "era", "revision", "tool", "server"} {
			asked[key], _ = replacer.GetString("http.mcp_cache." + key)
		}
	}
	answers := echoes(one)
	one.On("tools/call", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
		ask(r)
		return answers(w, r, c)
	})
	run(t, func(w *world) {
		w.eachEra(func(c *caller) {
			want := func(what, outcome, method, kind, tool, server string) {
				w.Helper()
				all := map[string]string{
					"outcome": outcome, "method": method, "kind": kind, "tool": tool, "server": server,
					"era": c.at.Era().String(), "revision": c.at.String(),
				}
				if fmt.Sprint(asked) != fmt.Sprint(all) {
					w.Errorf("%s, the placeholders say %v, want %v", what, asked, all)
				}
			}
			c.call("one__tools_a").wantOf(w, "one")
			want("while the server works", "routed", "tools/call", "", "one__tools_a", "one")
			r := c.request(http.MethodPost, "/mcp", c.message("tools/list", ""), "Mcp-Method", "tools/list")
			c.send(r)
			ask(r)
			want("after a list", "hit", "tools/list", "tools", "", "")
			refused := func(tool string) *http.Request {
				r := c.request(http.MethodPost, "/mcp", c.message("tools/call", fmt.Sprintf(`"name":%q`, tool)), "Mcp-Method", "tools/call", "Mcp-Name", tool)
				c.send(r)
				return r
			}
			r = refused("one__hidden-first")
			for range 10 {
				refused("one__hidden-later")
			}
			ask(r)
			want("after a call that rules refuse", "denied", "tools/call", "", "one__hidden-first", "")
		})
	}, one)
}

// The log of the level debug has a line of each request.
func TestRequestsAreLogged(t *testing.T) {
	run(t, func(w *world) {
		core, logs := observer.New(zap.DebugLevel)
		w.Logger = zap.New(core)
		w.eachEra(func(c *caller) {
			logs.TakeAll()
			c.call("one__tools_a")
			lines := logs.FilterMessage("request decided").All()
			if len(lines) != 1 {
				w.Fatalf("the log has %d lines of a call", len(lines))
			}
			got := lines[0].ContextMap()
			want := map[string]any{
				"method": "tools/call", "outcome": "routed", "server": "one", "revision": c.at.String(), "took": time.Duration(0),
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				w.Errorf("the log has %v, want %v", got, want)
			}
		})
	}, serves("one"))
}
