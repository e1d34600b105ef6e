package toolkit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy/policytest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// hiding is a rule, the names of something that it hides and of something that does not exist, and of something else.
type hiding struct {
	all, ofOne              string // rules
	kind                    revision.Kind
	method, params          string // with %q for the name
	hidden, missing, listed string
}

// test has a client ask for each of the three.
func (h hiding) test(w *world, c *caller, records *recorder) {
	if names := c.list(h.kind).names(h.kind); slices.Contains(names, h.hidden) || !slices.Contains(names, h.listed) {
		w.Errorf("the list has %q", names)
	}
	hidden := c.ask(h.method, fmt.Sprintf(h.params, h.hidden))
	missing := c.ask(h.method, fmt.Sprintf(h.params, h.missing))
	told := strings.ReplaceAll(hidden.Body.String(), h.hidden, h.missing)
	told = strings.Replace(told, fmt.Sprintf(`"id":%d`, c.sent-1), fmt.Sprintf(`"id":%d`, c.sent), 1)
	hidden.Header().Del("Content-Length") // which depends on the name
	missing.Header().Del("Content-Length")
	if told != missing.Body.String() || hidden.Code != missing.Code || fmt.Sprint(hidden.Header()) != fmt.Sprint(missing.Header()) {
		w.Errorf("what is hidden is answered with %s, what is missing with %s", hidden, missing)
	}
	last := w.observed.outcomes[len(w.observed.outcomes)-2:]
	if last[0] != outcome.Denied || last[1] != outcome.Denied || hidden.code() == 0 || hidden.status() != "detail=denied" {
		w.Errorf("the metrics count %v, and the client is told %s", last, hidden)
	}
	if sent := records.of(h.method); len(sent) != 0 {
		w.Errorf("the server is sent %v", sent)
	}
	c.ask(h.method, fmt.Sprintf(h.params, h.listed)).wantOf(w, "one")
	records.of(h.method)
}

// A client whom rules keep from something is told the same as of what does not exist. No server hears of it.
func TestHiddenAndMissingAreAnsweredAlike(t *testing.T) {
	for name, tt := range map[string]hiding{
		"a tool": {"deny tools one__tools_b", "", revision.Tools, "tools/call", `"name":%q`, "one__tools_b", "nobody__tools_b", "one__tools_a"},
		"a tool of one server": {
			"", "deny tools tools_b", revision.Tools, "tools/call", `"name":%q`, "one__tools_b", "nobody__tools_b", "one__tools_a",
		},
		"a tool that is not allowed": {
			"allow tools one__tools_a", "", revision.Tools, "tools/call", `"name":%q`, "one__not_listed", "nobody__a", "one__tools_a",
		},
		"a prompt": {
			"deny prompts *_b", "", revision.Prompts, "prompts/get", `"name":%q`, "one__prompts_b", "nobody__b", "one__prompts_a",
		},
		"a resource": {
			"deny resources *_b", "", revision.Resources, "resources/read", `"uri":%q`, "one://resources_b", "odd://b", "one://resources_a",
		},
		"a resource of one server": {
			"", "deny resources *_b", revision.Resources, "resources/read", `"uri":%q`, "one://resources_b", "odd://b", "one://resources_a",
		},
		"a completion": {
			"deny prompts *_b", "", revision.Prompts, "completion/complete", `"ref":{"type":"ref/prompt","name":%q}`,
			"one__prompts_b", "nobody__b", "one__prompts_a",
		},
		"a template": {
			"deny resource_templates *_b", "", revision.ResourceTemplates, "completion/complete", `"ref":{"type":"ref/resource","uri":%q}`,
			"one://resource_templates_b", "odd://b", "one://resource_templates_a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, with := serves("one"), setup{}
			if tt.all != "" {
				with.rules = []string{tt.all}
			} else {
				one.of.Rules = policytest.Parse(t, tt.ofOne)
			}
			runWith(t, with, func(w *world) {
				records := one.records()
				w.eachEra(func(c *caller) { tt.test(w, c, records) })
			}, one, serves("two"))
		})
	}
}

// A rule about some callers counts for them alone. No client gets around one by naming its field in Connection.
func TestRulesForSomeCallers(t *testing.T) {
	for name, with := range map[string]setup{"of all": {rules: []string{"deny X-Guest tools one__tools_b"}}, "of one server": {}} {
		one := serves("one")
		if with.rules == nil {
			one.of.Rules = policytest.Parse(t, "deny X-Guest tools tools_b")
		}
		runWith(t, with, func(w *world) {
			for _, guest := range []bool{true, false, true} {
				for _, connection := range []string{"", "X-Guest"} {
					header := []string{"X-Guest", "yes", "Connection", connection}
					if !guest {
						header = header[2:]
					}
					w.eachEra(func(c *caller) {
						if guest {
							c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a")
							if a := c.call("one__tools_b"); a.code() != jsonrpc.InvalidParams || a.status() != "detail=denied" {
								w.Errorf("with rules %s, a guest with Connection: %q is answered with %s", name, connection, a)
							}
						} else {
							c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b")
							c.call("one__tools_b").wantOf(w, "one")
						}
						c.ask("prompts/get", `"name":"one__not_listed"`).wantOf(w, "one")
					}, header...)
				}
			}
			w.eachEra(func(c *caller) { // no rule is about prompts
				if a := c.ask("prompts/get", `"name":"nobody__a"`); a.status() != "detail=refused" {
					w.Errorf("a prompt of nobody is answered with %s", a)
				}
			})
		}, one)
	}
}

// annotated lists those tools, of which "drop" ones are destructive and the others read only.
func annotated(tools ...string) clienttest.Script {
	items := make([]string, len(tools))
	for i, name := range tools {
		items[i] = fmt.Sprintf(`{"name":%q,"annotations":{"readOnlyHint":%v}}`, name, !strings.HasPrefix(name, "drop"))
	}
	return clienttest.Gives(`{"tools":[` + strings.Join(items, ",") + `],"ttlMs":60000,"cacheScope":"private"}`)
}

// listing are rules by which callers may call listed tools alone. One goes by what tools say of themselves, and one
// denies what is not listed.
func listing(t *testing.T) map[string]*policytest.Rules {
	unlisted := policytest.Parse(t, "deny tools *drop*")
	unlisted.DenyUnlisted()
	return map[string]*policytest.Rules{"by hints": policytest.Parse(t, "deny tools hint:destructive"), "not what is unlisted": unlisted}
}

// Where rules need a list, clients can call only what is in it. The endpoint looks for anything else in a new list, at
// most once within the option refresh.
func TestRulesThatNeedTheList(t *testing.T) {
	for name, rules := range listing(t) {
		for _, at := range eras {
			for _, personal := range []bool{false, true} {
				one := serves("one", at).with(func(m *member) { m.Quiet, m.of.Rules = true, rules })
				one.On("tools/list", annotated("read", "drop"))
				if personal {
					one.personal()
				}
				run(t, func(w *world) {
					what := fmt.Sprintf("%s, at %s, personal: %v", name, at, personal)
					w.eachEra(func(c *caller) {
						c.call("one__read").wantOf(w, "one")
						for _, tool := range []string{"one__drop", "one__new"} {
							if a := c.call(tool); a.code() != jsonrpc.InvalidParams || a.says() != "Unknown tool: "+tool || a.status() != "detail=denied" {
								w.Errorf("%s: %s is answered with %s", what, tool, a)
							}
						}
						w.afterLists(one, revision.Tools, one.settings.Feed.Refresh) // and the list is fresh still
						one.On("tools/list", annotated("read", "drop", "drop_new", "new"))
						c.call("one__new").wantOf(w, "one")
						before := one.Count("tools/list")
						for range 3 {
							if a := c.call("one__drop_new"); a.code() != jsonrpc.InvalidParams {
								w.Errorf("%s: a new tool that is denied is answered with %s", what, a)
							}
						}
						if n := one.Count("tools/list") - before; n > 0 {
							w.Errorf("%s: the list is fetched %d times more", what, n)
						}
						one.On("tools/list", annotated("read", "drop"))
						w.after(2 * time.Hour) // the last list is too old for everybody
						c.list(revision.Tools)
						w.after(time.Minute)
					}, "Authorization", "Bearer a")
				}, one)
			}
		}
	}
}

// A call is judged by the list that a server has announced, as far as that comes in time. Where rules go by names, a tool
// that was listed is called without waiting.
func TestRulesAwaitANewList(t *testing.T) {
	for name, rules := range listing(t) {
		for took, inTime := range map[time.Duration]bool{500 * time.Millisecond: true, 10 * time.Second: false} {
			one := serves("one").with(func(m *member) { m.of.Rules = rules })
			one.On("tools/list", annotated("read", "gone"))
			run(t, func(w *world) {
				c, began := w.calls(modern), time.Now()
				one.On("tools/list", func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
					time.Sleep(took)
					return annotated("read", "new")(w, r, c)
				})
				w.outdate(one, revision.Tools)
				a := c.call("one__gone")
				if waited := time.Since(began); waited > 0 != (name == "by hints") || waited > 2*time.Second {
					w.Errorf("%s: a call waits for %s", name, waited)
				}
				if name == "by hints" && inTime {
					a.want(w, "a tool that is gone", http.StatusBadRequest, jsonrpc.InvalidParams)
				} else {
					a.wantOf(w, "one")
				}
				if a = c.call("one__new"); inTime {
					a.wantOf(w, "one")
				} else {
					a.want(w, "a tool of a list that comes too late", http.StatusBadRequest, jsonrpc.InvalidParams)
				}
				w.after(time.Minute)
				c.call("one__new").wantOf(w, "one")
			}, one)
		}
	}
}

// The first call waits for the list by which rules go.
func TestRulesAwaitTheFirstList(t *testing.T) {
	for _, rules := range listing(t) {
		one := serves("one").with(func(m *member) { m.of.Rules = rules })
		one.On("tools/list", annotated("read"))
		runWith(t, setup{waits: true}, func(w *world) { w.calls(modern).call("one__read").wantOf(w, "one") }, one)
	}
}

// A call is judged by hints of a list that is fresh, where only the caller's own requests bring one.
func TestRulesAwaitListsOfCallers(t *testing.T) {
	for name, rules := range listing(t) {
		for _, at := range eras {
			one := serves("one", at).with(func(m *member) { m.of.Rules = rules }).personal()
			one.On("tools/list", annotated("read"))
			run(t, func(w *world) {
				c := w.calls(modern, "Authorization", "Bearer a")
				c.call("one__read").wantOf(w, "one")
				one.On("tools/list", annotated("other"))
				w.after(2 * time.Minute)
				if a := c.call("one__read"); name == "by hints" {
					a.want(w, "a tool that is gone", http.StatusBadRequest, jsonrpc.InvalidParams)
				} else {
					a.wantOf(w, "one")
				}
			}, one)
		}
	}
}

// A client is told of a server whose list is not there, where rules go by it: nobody knows whether it may call the tool.
func TestRulesWithoutAList(t *testing.T) {
	for name, rules := range listing(t) {
		for text, down := range map[string]func(m *member){
			`the MCP server "one" has not been reached yet`: func(m *member) { m.OnAll(clienttest.Refuse) },
			`the MCP server "one" gives no list of its tools, and rules go by what is listed there`: func(m *member) {
				m.On("tools/list", clienttest.Status(http.StatusInternalServerError))
			},
		} {
			one := serves("one").with(func(m *member) { m.of.Rules = rules }).with(down)
			run(t, func(w *world) {
				w.eachEra(func(c *caller) {
					a := c.call("one__tools_a")
					if status := a.Code; a.says() != text || status != http.StatusServiceUnavailable && status != http.StatusBadGateway {
						w.Errorf("%s: a %s client is answered with %s, want %q", name, c.at.Era(), a, text)
					}
				})
			}, one)
		}
		one := serves("one").with(func(m *member) { m.of.Rules, m.Kinds = rules, []revision.Kind{revision.Prompts} })
		one.On("tools/list", clienttest.Failure(http.StatusOK, jsonrpc.MethodNotFound, ""))
		run(t, func(w *world) { // it has no tools
			w.eachEra(func(c *caller) {
				if a := c.call("one__tools_a"); a.says() != "Unknown tool: one__tools_a" {
					w.Errorf("%s: a server without tools is answered for with %s", name, a)
				}
			})
		}, one)
	}
}
