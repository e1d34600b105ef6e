package probe

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	callerA = "Authorization: Bearer a-secret-of-one"
	callerB = "Authorization: Bearer a-secret-of-another"
)

// needsCredentials lets in who brings any.
func needsCredentials(r *http.Request) int {
	if r.Header.Get("Authorization") == "" {
		return http.StatusUnauthorized
	}
	return 0
}

// TestReports holds what people are told about servers of every kind against
// texts in testdata.
func TestReports(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(s *scripted.Server)
		headers []string
	}{
		"hints":         {},
		"default_hints": {arrange: func(s *scripted.Server) { s.SetHints(defaultHint) }},
		"unannounced": {arrange: func(s *scripted.Server) {
			s.SetHints(defaultHint)
			s.SetCapabilities(`{"tools":{},"prompts":{},"resources":{}}`)
		}},
		"no_sessions":   {arrange: func(s *scripted.Server) { s.SetSessions(false) }},
		"legacy":        {arrange: func(s *scripted.Server) { s.SetRevisions("2025-06-18", "2025-03-26") }},
		"modern":        {arrange: func(s *scripted.Server) { s.SetRevisions(scripted.Modern) }},
		"event_streams": {arrange: func(s *scripted.Server) { s.SetSSE(true, `{"jsonrpc":"2.0","method":"notifications/message"}`) }},
		"brief":         {arrange: func(s *scripted.Server) { s.SetHints(`"ttlMs":300,"cacheScope":"public"`) }},
		"tools_only": {arrange: func(s *scripted.Server) {
			s.SetCapabilities(`{"tools":{}}`)
			for _, method := range scripted.ListMethods()[1:] {
				s.SetScript(method, func(x *scripted.Exchange) { x.Error(http.StatusOK, -32601, "not here") })
			}
			s.SetHints("")
		}},
		"pages": {arrange: func(s *scripted.Server) {
			items := scripted.Items(toolsList, "v1", 5)
			s.SetList(toolsList, items[:2], items[2:4], items[4:])
		}},
		"names": {arrange: func(s *scripted.Server) {
			s.SetList(toolsList, scripted.Page{
				`{"name":"` + strings.Repeat("x", 65) + `","inputSchema":{}}`,
				`{"name":"` + strings.Repeat("x", 64) + `","inputSchema":{}}`,
				`{"name":"with.dot","inputSchema":{}}`,
				`{"name":"\u001b[2J\u202eevil\u009b31m","inputSchema":{}}`,
			})
		}},
		"same_for_callers": {headers: []string{callerA, callerB}, arrange: func(s *scripted.Server) {
			s.SetHints(defaultHint)
			s.SetDoor(needsCredentials)
		}},
		"different_for_callers": {headers: []string{callerA, callerB}, arrange: func(s *scripted.Server) {
			s.SetHints(`"ttlMs":60000,"cacheScope":"private"`)
			s.SetDoor(needsCredentials)
			s.SetPrivateList("Bearer a-secret-of-another", toolsList, scripted.Items(toolsList, "v1", 5))
		}},
		"public_but_different": {headers: []string{callerA, callerB}, arrange: func(s *scripted.Server) {
			s.SetPrivateList("Bearer a-secret-of-another", toolsList, scripted.Items(toolsList, "another's", 3))
		}},
		"one_caller": {headers: []string{callerA}, arrange: func(s *scripted.Server) {
			s.SetHints(defaultHint)
			s.SetDoor(needsCredentials)
		}},
		"one_caller_public": {headers: []string{"X-Api-Key: a-secret-of-one"}, arrange: func(s *scripted.Server) {
			s.SetHints(`"ttlMs":0,"cacheScope":"public"`)
			s.SetDoor(func(r *http.Request) int {
				return map[bool]int{true: http.StatusForbidden}[r.Header.Get("X-Api-Key") == ""]
			})
		}},
		"second_refused": {headers: []string{callerA, callerB}, arrange: func(s *scripted.Server) {
			s.SetDoor(func(r *http.Request) int {
				return map[bool]int{true: http.StatusForbidden}[strings.Contains(r.Header.Get("Authorization"), "another")]
			})
		}},
		"different_for_eras": {arrange: func(s *scripted.Server) {
			all := scripted.Items(toolsList, "v1", 9)
			inEra(s, toolsList, all, scripted.Page{all[0], scripted.Items(toolsList, "v2", 2)[1]})
			prompts := scripted.Items("prompts/list", "v1", 2)
			inEra(s, "prompts/list", prompts, scripted.Page{prompts[1], prompts[0]})
			inEra(s, "resources/list", nil, scripted.Items("resources/list", "v1", 1))
			inEra(s, "resources/templates/list", scripted.Items("resources/templates/list", "v1", 2), nil)
		}},
		"failing": {arrange: func(s *scripted.Server) {
			s.SetScript(toolsList, scripted.Endless)
			s.SetScript("prompts/list", scripted.CursorCycle)
			s.SetScript("resources/list", scripted.Oversized(1<<20))
			s.SetList("resources/templates/list", scripted.Page{`{"uriTemplate":"a"}`, `{"name":"b"}`})
		}},
		"odd": {arrange: func(s *scripted.Server) {
			s.SetEnvelope(func(id, result string) string {
				return `{"jsonrpc":"2.0","jsonrpc":"2.0","id":` + id + `.0,"error":null,"result":` + result + `}`
			})
			s.SetScript(toolsList, scripted.DuplicateNames)
			s.SetMembers("prompts/list", `"nextCursor":null`)
			s.SetRevisions(scripted.LatestLegacy)
			s.SetMembers("resources/list", `"nextCursor":""`)
		}},
		"coded": {arrange: func(s *scripted.Server) {
			for _, method := range scripted.ListMethods() {
				s.SetScript(method, func(x *scripted.Exchange) {
					x.W.Header().Set("Content-Encoding", "br")
					x.Raw(http.StatusOK, "application/json", "\x8b\x01\x80")
				})
			}
			s.SetRevisions(scripted.LatestLegacy)
		}},
		"half_failing": {arrange: func(s *scripted.Server) {
			s.SetScript("prompts/list", scripted.ErrorObject)
			s.SetScript("resources/list", scripted.Status(http.StatusInternalServerError))
			s.SetScript("resources/templates/list", func(x *scripted.Exchange) { x.Error(http.StatusNotFound, -32601, "not here") })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScripted()
			if c.arrange != nil {
				c.arrange(s)
			}
			r := run(t, options(t, serve(t, s), c.headers...))
			wantGolden(t, r, name)
			if r.Usable == (name == "failing" || name == "coded") || (r.Trouble == nil) != r.Usable {
				t.Errorf("usable is %v, the trouble %v", r.Usable, r.Trouble)
			}
			if strings.Contains(r.Text()+asJSON(t, r), "a-secret") {
				t.Error("the report repeats a credential")
			}
			if clients, feeds := s.Sessions(); clients+feeds != 0 {
				t.Errorf("%d sessions are left", clients+feeds)
			}
			if n := s.Streams(scripted.Everybody); n > 0 {
				fixture.Await(t, "the end of the streams", func() bool { return s.Streams(scripted.Everybody) == 0 })
			}
		})
	}
}

// TestReportsOfSDKs looks at servers of the SDKs as they come.
func TestReportsOfSDKs(t *testing.T) {
	for name, start := range fixture.SDKServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			r := run(t, options(t, server.URL))
			wantGolden(t, r, strings.ReplaceAll(name, " ", "_"))
			for _, revision := range server.Revisions {
				if !strings.Contains(strings.Join(r.Revisions, " "), revision) {
					t.Errorf("it speaks %v, not %s", r.Revisions, revision)
				}
			}
		})
	}
}

// TestListsThatMove looks at servers that do not give the same list twice.
func TestListsThatMove(t *testing.T) {
	first := scripted.Items(toolsList, "v1", 3)
	for name, c := range map[string]struct {
		second scripted.Page
		want   string
	}{
		"order":   {scripted.Page{first[1], first[0], first[2]}, "the same items in another order"},
		"content": {scripted.Items(toolsList, "v2", 3), "not the same: item-0000, item-0001, item-0002"},
		"items":   {first[:2], "2 items instead of 3; missing: item-0002"},
	} {
		t.Run(name, func(t *testing.T) {
			s, asked := newScripted(), 0
			s.SetScript(toolsList, func(x *scripted.Exchange) {
				if asked++; asked%2 == 0 {
					s.SetList(toolsList, c.second)
				} else {
					s.SetList(toolsList, first)
				}
				x.Default()
			})
			o := options(t, serve(t, s))
			o.Eras = []revision.Era{revision.Modern}
			r := run(t, o)
			if again := list(t, r, "tools").Again; again.Same || again.Difference != c.want {
				t.Errorf("asking again gives %+v", again)
			}
			if !strings.Contains(strings.Join(strings.Fields(r.Text()), " "), "not the same when asked for twice. tools: "+c.want) {
				t.Errorf("the report is\n%s", r.Text())
			}
		})
	}
}

// TestCapabilitiesAreToldFromSessions looks at servers of the legacy era that
// show other tools to a client with other capabilities, or to each session.
func TestCapabilitiesAreToldFromSessions(t *testing.T) {
	for name, c := range map[string]struct {
		differs func(capable bool, n int) bool
		grade   Grade
		want    string
	}{
		"capabilities": {func(capable bool, _ int) bool { return capable }, Note, "A client that offers sampling"},
		"sessions":     {func(_ bool, n int) bool { return n > 0 }, Costs, "Lists differ from session to session"},
	} {
		t.Run(name, func(t *testing.T) {
			s, sessions := newScripted(), 0
			s.SetRevisions(scripted.LatestLegacy)
			s.SetScript("initialize", func(x *scripted.Exchange) {
				differs := c.differs(strings.Contains(string(x.Params), "sampling"), sessions)
				x.Default()
				if id := x.W.Header().Get("Mcp-Session-Id"); strings.Contains(string(x.Params), scripted.LatestLegacy) {
					sessions++
					if differs {
						s.SetSessionList(id, toolsList, scripted.Items(toolsList, "v1", 4))
					}
				}
			})
			r := run(t, options(t, serve(t, s)))
			tools := list(t, r, "tools")
			if tools.Capabilities.Same || tools.Session.Same == (name == "sessions") {
				t.Errorf("compared: %+v, %+v", tools.Capabilities, tools.Session)
			}
			for _, f := range r.Findings {
				if strings.HasPrefix(f.Text, c.want) && f.Grade == c.grade && strings.Contains(f.Text, "4 items instead of 3; more: item-0003") {
					return
				}
			}
			t.Errorf("nothing begins with %q: %+v", c.want, r.Findings)
		})
	}
}

// TestJSONIsForPrograms reads the report as a program does.
func TestJSONIsForPrograms(t *testing.T) {
	s := newScripted()
	s.SetHints(defaultHint)
	r := run(t, options(t, serve(t, s)))
	var got struct {
		Usable bool
		Eras   []struct {
			Era, Stream string
			Lists       []struct {
				Kind  string
				Items int
				Bytes int64
				About int64  `json:"tokens_about"`
				TTL   *int64 `json:"ttl_ms"`
				Scope string `json:"cache_scope"`
				Again struct{ Same bool }
			}
		}
		Findings  []Finding
		Caddyfile string
	}
	if err := json.Unmarshal([]byte(asJSON(t, r)), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Usable || len(got.Eras) != 2 || got.Eras[0].Era != "modern" || got.Eras[0].Stream != "open" {
		t.Fatalf("got %+v", got)
	}
	tools := got.Eras[0].Lists[0]
	if tools.Kind != "tools" || tools.Items != 3 || tools.TTL == nil || *tools.TTL != 0 || tools.Scope != "private" ||
		!tools.Again.Same || tools.About != tools.Bytes/4 {
		t.Errorf("the tools are %+v", tools)
	}
	legacy := got.Eras[1].Lists[0]
	if legacy.TTL != nil || legacy.Scope != "" {
		t.Errorf("the legacy tools are %+v", legacy)
	}
	if !strings.Contains(got.Caddyfile, "\n\t\tmin_ttl 1m\n") || len(got.Findings) == 0 {
		t.Errorf("findings %+v, Caddyfile\n%s", got.Findings, got.Caddyfile)
	}
}

// TestSecretsAreHidden looks at a server that repeats what it was sent wherever
// it can.
func TestSecretsAreHidden(t *testing.T) {
	echo := func(r *http.Request) string { return strings.ReplaceAll(r.Header.Get("Authorization"), `"`, "") }
	repeat := func(x *scripted.Exchange) {
		x.Result(`{"tools":[{"name":"` + echo(x.R) + `","inputSchema":{}}]}`)
	}
	s := newScripted()
	s.SetScript(toolsList, repeat)
	s.SetScript("prompts/list", func(x *scripted.Exchange) { x.Error(http.StatusOK, -32603, echo(x.R)) })
	r := run(t, options(t, serve(t, s), callerA, callerB))
	if said := r.Text() + asJSON(t, r); strings.Contains(said, "a-secret") || !strings.Contains(said, "***") {
		t.Errorf("the report is\n%s", said)
	}
	for _, status := range []int{http.StatusFound, http.StatusUnauthorized} {
		refusal := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/"+echo(r))
			w.Header().Set("WWW-Authenticate", strings.Fields(echo(r))[1])
			w.WriteHeader(status)
		})
		r := run(t, options(t, serve(t, refusal), callerA))
		if r.Trouble == nil || strings.Contains(r.Trouble.Text, "a-secret") {
			t.Errorf("the trouble is %v", r.Trouble)
		}
	}
}
