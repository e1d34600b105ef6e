package toolkit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// names reports whether a request names an item in that member, and nothing else in its header if it has Mcp-Name. Requests
// of the modern era have that, except for completions.
func (r *recorded) names(member, name string) bool {
	said, has := r.Header["Mcp-Name"]
	wanted := r.Header.Get("Mcp-Protocol-Version") == modern.String() && !strings.Contains(r.body, "completion/complete")
	return strings.Contains(r.body, fmt.Sprintf("%q:%q", member, name)) && (!has && !wanted || len(said) == 1 && said[0] == name)
}

// serving are the revisions of servers of one era, and of both.
var serving = map[string][]revision.Revision{"legacy": {legacy}, "modern": {modern}, "both": {modern, legacy}}

// A request goes to the server that what it names is of, and to no other. The server is sent its own name for that.
func TestRequestsGoToTheServerOfWhatTheyName(t *testing.T) {
	for of, speaks := range serving {
		t.Run(of, func(t *testing.T) {
			one, two := serves("one", speaks...), serves("two", speaks...)
			two.Items[revision.Prompts] = append(two.Items[revision.Prompts], `say "hi"`)
			run(t, func(w *world) {
				taps := map[string]*recorder{"one": one.records(), "two": two.records()}
				w.eachEra(func(c *caller) {
					for _, tt := range []struct{ method, params, server, member, bare string }{
						{"tools/call", `"name":"one__tools_a","arguments":{"name":"one__x"}`, "one", "name", "tools_a"},
						{"tools/call", `"name":"two__not_listed","arguments":{}`, "two", "name", "not_listed"},
						{"tools/call", `"name":"two__one__tools_a","arguments":{}`, "two", "name", "one__tools_a"},
						{"prompts/get", `"name":"two__prompts_b"`, "two", "name", "prompts_b"},
						{"prompts/get", `"name":"two__say \"hi\""`, "two", "name", `say "hi"`},
						{"resources/read", `"uri":"one://resources_a"`, "one", "uri", "one://resources_a"},
						{"resources/read", `"uri":"two://resource_templates_b"`, "two", "uri", "two://resource_templates_b"},
						{"completion/complete", `"ref":{"type":"ref/prompt","name":"one__prompts_a"},"argument":{}`, "one", "name", "prompts_a"},
						{
							"completion/complete", `"ref":{"type":"ref/resource","uri":"two://resource_templates_a"},"argument":{}`,
							"two", "uri", "two://resource_templates_a",
						},
					} {
						c.ask(tt.method, tt.params).wantOf(w, tt.server)
						for name, records := range taps {
							requests := records.of(tt.method)
							if (len(requests) == 1) != (name == tt.server) || len(requests) > 1 {
								w.Errorf("%s of %s reaches %s %d times", tt.method, tt.params, name, len(requests))
								continue
							}
							if len(requests) == 1 && !requests[0].names(tt.member, tt.bare) {
								w.Errorf("%s of %s is sent as %v", tt.method, tt.params, requests[0])
							}
						}
					}
				})
			}, one, two)
		})
	}
}

// A name without a prefix is one of the only server that has no prefix. With several such servers, it is of the one that
// lists it.
func TestNamesWithoutPrefix(t *testing.T) {
	for name, tt := range map[string]struct {
		second *member
		want   map[string]string // the servers of tools; "" for none
	}{
		"one such server": {bare("two", "tools_c"), map[string]string{
			"tools_c": "two", "anything": "two", "on": "two", "one__x": "one", "one__": "",
		}},
		"two such servers": {bare("two", "tools_c", "one__tools_c"), map[string]string{
			"tools_c": "two", "tools_d": "three", "tools_e": "two", "anything": "", "one__tools_c": "one", "one__": "",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			members := []*member{serves("one"), tt.second}
			if name == "two such servers" {
				members = append(members, bare("three", "tools_d", "tools_e"))
				tt.second.Items[revision.Tools] = append(tt.second.Items[revision.Tools], "tools_e")
			}
			run(t, func(w *world) {
				w.eachEra(func(c *caller) {
					for tool, want := range tt.want {
						a := c.call(tool)
						switch {
						case want != "":
							a.wantOf(w, want)
						case a.code() != jsonrpc.InvalidParams || a.says() != "Unknown tool: "+tool:
							w.Errorf("the tool %q is answered with %s", tool, a)
						}
					}
				})
			}, members...)
		})
	}
}

// A tool whose name is shortened in the list is called by the short name, and by the whole one.
func TestShortenedNamesAreCalled(t *testing.T) {
	long := strings.Repeat("a", 62)
	one := serves("one").with(func(m *member) { m.Items[revision.Tools] = []string{long, "b" + long + long} })
	run(t, func(w *world) {
		records := one.records()
		w.eachEra(func(c *caller) {
			listed := c.list(revision.Tools).names(revision.Tools)
			if len(listed) != 2 || len(listed[0]) != 64 || listed[1] != "one__b"+long+long {
				w.Fatalf("the list has %q", listed)
			}
			for _, name := range []string{listed[0], "one__" + long} {
				c.call(name).wantOf(w, "one")
				if sent := records.of("tools/call"); len(sent) != 1 || !strings.Contains(sent[0].body, strconv.Quote(long)) {
					w.Errorf("%s is sent as %v", name, sent)
				}
			}
		})
	}, one)
}

// A URI is read from the server that lists it, or else from the first one with a template for it, or else from the only
// one that has resources. No server is asked for a URI that is not its own.
func TestServersOfURIs(t *testing.T) {
	templates := func(name string, all ...string) *member {
		return serves(name).with(func(m *member) { m.Items[revision.ResourceTemplates] = all })
	}
	two := templates("two", "users://{id}", "two://{+path}", "no template {")
	two.Items[revision.Resources] = []string{"users://8"}
	without := func() *member { return serves("two").lacks(revision.Resources).lacks(revision.ResourceTemplates) }
	for name, tt := range map[string]struct {
		members []*member
		want    map[string]string
	}{
		"templates": {[]*member{templates("one", "users://{id}"), two}, map[string]string{
			"users://7": "one", "users://8": "two", "two://a/b": "two", "users://7/8": "", "two:/a": "", "one://resources_b": "one",
		}},
		"one server has resources": {[]*member{serves("one"), without()}, map[string]string{
			"one://resources_a": "one", "odd://anything": "one",
		}},
		"none has resources": {[]*member{without()}, map[string]string{"one://resources_a": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.eachEra(func(c *caller) {
					for uri, want := range tt.want {
						a := c.ask("resources/read", fmt.Sprintf(`"uri":%q`, uri))
						if want != "" {
							a.wantOf(w, want)
							continue
						}
						status, code := http.StatusOK, jsonrpc.ResourceNotFound
						if c.at == modern {
							status, code = http.StatusBadRequest, jsonrpc.InvalidParams
						}
						a.want(w, uri, status, code)
						if data := fmt.Sprintf(`{"uri":%q}`, uri); a.says() != "Resource not found" || string(a.response().Error.Data) != data {
							w.Errorf("%q is refused with %s", uri, a)
						}
					}
				})
			}, tt.members...)
		})
	}
}

// The endpoint does not look for the servers of URIs that are too long, as that would take too long.
func TestLongURIs(t *testing.T) {
	run(t, func(w *world) {
		w.eachEra(func(c *caller) {
			for length, found := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
				uri := "odd://" + strings.Repeat("a", length-len("odd://"))
				a := c.ask("resources/read", fmt.Sprintf(`"uri":%q`, uri))
				if found {
					a.wantOf(w, "one")
					continue
				}
				const want = "the URI has 65537 bytes; its server is found out for URIs of at most 65536"
				if a.code() != jsonrpc.InvalidParams || a.says() != want {
					w.Errorf("a URI of %d bytes is answered with %d %s", length, a.Code, a.says())
				}
			}
		})
	}, serves("one"))
}

// A client is told so if the message does not say what it is about, or says it in more than one way. No server gets it.
func TestRequestsThatNameNothing(t *testing.T) {
	one := serves("one")
	run(t, func(w *world) {
		records := one.records()
		w.eachEra(func(c *caller) {
			for _, tt := range []struct{ method, params, says string }{
				{"tools/call", `"arguments":{}`, "the name is missing or not a string"},
				{"tools/call", `"name":"one__a\u0000b"`, "NUL"},
				{"prompts/get", `"uri":"one__prompts_a"`, "the name is missing or not a string"},
				{"resources/read", `"name":"one://resources_a"`, "the name is missing or not a string"},
				{"completion/complete", `"argument":{}`, "no ref"},
				{"completion/complete", `"ref":{"type":"ref/tool","name":"one__tools_a"}`, "unknown type"},
				{"completion/complete", `"ref":{"type":"ref/prompt","name":"one__prompts_a","uri":"x"}`, "both name and uri"},
				{"completion/complete", `"ref":{"type":"ref/prompt","name":"one__prompts_a","name":"two"}`, "repeated"},
				{"completion/complete", `"ref":{"type":"ref/prompt","name":"two__prompts_a"}`, "Unknown prompt: two__prompts_a"},
				{"completion/complete", `"ref":{"type":"ref/prompt","name":"one__"}`, "Unknown prompt: one__"},
			} {
				a := c.ask(tt.method, tt.params)
				status := http.StatusOK
				if c.at == modern {
					status = http.StatusBadRequest
				}
				if a.want(w, tt.params, status, jsonrpc.InvalidParams); !strings.Contains(a.says(), tt.says) {
					w.Errorf("%s of %s is refused with %q, want %q", tt.method, tt.params, a.says(), tt.says)
				}
				if sent := records.of(tt.method); len(sent) != 0 {
					w.Errorf("%s of %s reaches the server", tt.method, tt.params)
				}
			}
		})
	}, one)
}

// A modern client has to repeat in the header what the message names, as the message has it.
func TestHeadersRepeatTheName(t *testing.T) {
	one := serves("one")
	one.Items[revision.Resources] = []string{"one://ä"}
	run(t, func(w *world) {
		c := w.calls(modern)
		for _, tt := range []struct {
			name   string
			header []string
			want   bool
		}{
			{"one__tools_a", []string{"one__tools_a"}, true},
			{"one__tools_a", []string{" one__tools_a\t"}, true},
			{"one__tools_a", []string{"=?base64?b25lX190b29sc19h?="}, true},
			{"one__tools_a", []string{"=?base64?b25lX190b29sc19i?="}, false},
			{"one__tools_a", []string{"=?base64?%?="}, false},
			{"one__tools_a", []string{"tools_a"}, false},
			{"one__tools_a", []string{"ONE__tools_a"}, false},
			{"one__tools_a", []string{""}, false},
			{"one__tools_a", nil, false},
			{"one__tools_a", []string{"one__tools_a", "one__tools_a"}, false},
			{"one://ä", []string{"=?base64?b25lOi8vw6Q=?="}, true},
			{"=?utf-8?q?one://a?=", []string{"=?utf-8?q?one://a?="}, false}, // others may decode it
		} {
			method, params := "tools/call", fmt.Sprintf(`"name":%q`, tt.name)
			if strings.Contains(tt.name, "://") {
				method, params = "resources/read", fmt.Sprintf(`"uri":%q`, tt.name)
			}
			r := c.request(http.MethodPost, "/mcp", c.message(method, params), "Mcp-Method", method)
			if r.Header["Mcp-Name"] = tt.header; tt.header == nil {
				delete(r.Header, "Mcp-Name")
			}
			a, before := c.send(r), len(one.asked(method))
			if tt.want {
				a.wantOf(w, "one")
			} else if a.want(w, fmt.Sprint(tt.header), http.StatusBadRequest, jsonrpc.HeaderMismatch); len(one.asked(method)) != before {
				w.Errorf("%q for %s reaches the server", tt.header, tt.name)
			}
		}
	}, one)
}
