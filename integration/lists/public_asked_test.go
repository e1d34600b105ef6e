package lists

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// asking is a way in which clients ask one server for different lists.
type asking struct {
	name    string
	options []string
	query   string      // of the endpoint's URL
	header  http.Header // of each request
	detail  string      // of the first miss
	warning string      // in the status
	// apart says that the feed cannot ask the same, so that each caller has a copy.
	apart bool
}

// askings are the ways of one server. Each asks for the list of "a".
func askings() []asking {
	return []asking{
		{name: "query", query: "?toolsets=a", detail: "query", warning: "(query: toolsets"},
		{name: "header", header: http.Header{"X-Mcp-Toolsets": {"a"}}, detail: "header", warning: "(header: X-Mcp-Toolsets"},
		{
			name: "Host", options: []string{"host feed.localhost", "reverse_proxy SERVER"},
			header: http.Header{"Host": {"a.localhost"}}, detail: "host", warning: "(host: a.localhost",
		},
		{
			name: "harmless header in partition", options: []string{"partition {header.X-Trace-Id}"},
			header: http.Header{"X-Trace-Id": {"a"}}, detail: "partition",
		},
		{
			name: "Host in partition", options: []string{"partition {host}", "host feed.localhost", "reverse_proxy SERVER"},
			header: http.Header{"Host": {"a.localhost"}}, detail: "host",
		},
		{
			name: "value that only the site knows", options: []string{"host feed.localhost", "reverse_proxy SERVER {\nheader_up X-Mcp-Toolsets {vars.toolsets}\n}"},
			header: http.Header{"X-Trace-Id": {"a"}, "Host": {"feed.localhost"}}, detail: "partition", apart: true,
		},
	}
}

// asksFor returns the name of the list that a request asks a server for. Requests like the
// feed's ask for "feed".
func asksFor(r *http.Request) string {
	host, isTenant := strings.CutSuffix(r.Host, ".localhost")
	if !isTenant {
		host = ""
	}
	return cmp.Or(r.URL.Query().Get("toolsets"), r.Header.Get("X-Mcp-Toolsets"), r.Header.Get("X-Trace-Id"), host, "feed")
}

// TestPublicIsAboutWhoAsks has callers ask one server for another list than the feed. Its
// lists are public. So all who ask the same share one copy, and nobody else is given it.
func TestPublicIsAboutWhoAsks(t *testing.T) {
	for _, public := range []struct {
		hints   string
		options []string
		eras    []string
	}{
		{scripted.PublicHour, nil, caddytest.Revisions[:1]}, // in the legacy era servers do not say who may share a list
		{"", []string{"scope public"}, caddytest.Revisions},
		{scripted.PrivateHour, []string{"scope public always"}, caddytest.Revisions},
	} {
		for _, way := range askings() {
			if public.hints == scripted.PublicHour && way.apart {
				continue // such lists are private without the option
			}
			t.Run(way.name+", "+cmp.Or(strings.Join(public.options, " "), "public"), func(t *testing.T) {
				w := caddytest.NewUpstream(t)
				w.SetHints(public.hints)
				listBy(w, asksFor)
				w.Host.ShareCredentials() // none is the feed's
				w.Host.Start()
				options := append([]string{"admit all"}, public.options...)
				to := w.Host.URL
				for _, option := range way.options {
					options = append(options, strings.ReplaceAll(option, "SERVER", w.Host.Addr))
					if strings.HasPrefix(option, "reverse_proxy") {
						to = ""
					}
				}
				w.Proxy = caddytest.StartProxy(t, "vars toolsets {header.X-Trace-Id}\n"+caddytest.Directive(to, options...))
				for _, revision := range public.eras {
					t.Run(revision, func(t *testing.T) { shareWhatIsAsked(w.On(t), way, revision) })
				}
				if all := strings.Join(caddytest.Warnings(t, "mcp_cache"), "\n"); way.warning != "" && !strings.Contains(all, way.warning) {
					t.Errorf("the status does not name what keeps requests apart:\n%s", all)
				}
			})
		}
	}
}

// shareWhatIsAsked has several callers ask for the list of "a", and others as the feed does.
func shareWhatIsAsked(w *caddytest.World, way asking, revision string) {
	t := w.T
	list := func(token string, asked bool) *fixture.Answer {
		t.Helper()
		to, header, want := w.Proxy.URL, http.Header{"Host": {"feed.localhost"}}, "feed"
		if asked {
			to, header, want = to+way.query, way.header, "a"
		}
		a := fixture.NewWith(t, to, revision, "Bearer "+token, header).List(scripted.ToolsList)
		if got := caddytest.MarkOf(a, scripted.ToolsList); got != want {
			t.Errorf("who asks for %q was given %q: %s", want, got, a)
		}
		return a
	}
	strangers := 0
	fixture.Await(t, "a hit of the feed's list, by somebody who has not asked before", func() bool {
		strangers++
		return list(fmt.Sprint("plain-", strangers), false).CacheStatus().Hit
	})
	if a := list("first", true); a.CacheStatus().Hit || a.CacheStatus().Detail != way.detail {
		t.Errorf("the first list is no miss that says why: %s", a)
	}
	fixture.Await(t, "a hit for the same caller", func() bool { return list("first", true).CacheStatus().Hit })
	if n := len(askedByUs(w, revision, "a")); n > 0 {
		t.Errorf("for a single caller, the feed has asked for the list of a %d times", n)
	}
	if way.apart {
		if a := list("second", true); a.CacheStatus().Hit {
			t.Errorf("another caller was given a copy that the feed has not asked for: %s", a)
		}
	} else {
		list("second", true)
		fixture.Await(t, "a hit for a caller who has not asked yet", func() bool { return list("third", true).CacheStatus().Hit })
	}
	if a := list("plain too", false); !a.CacheStatus().Hit {
		t.Errorf("who asks as the feed does is not served its list: %s", a)
	}
	if n := len(askedByUs(w, revision, "a")); way.apart != (n == 0) {
		t.Errorf("without credentials, the list of a was asked for %d times", n)
	}
}

// askedByUs returns the requests for tools that had no credentials of a caller, and asked
// for that.
func askedByUs(w *caddytest.World, revision, want string) []fixture.Request {
	return w.Host.Requests(func(r *fixture.Request) bool {
		u, err := url.Parse(r.URL)
		return err == nil && r.Method == scripted.ToolsList && r.Header.Get("Mcp-Protocol-Version") == revision && r.Header.Get("Authorization") == "" &&
			asksFor(&http.Request{Header: r.Header, Host: r.Host, URL: u}) == want
	})
}

// TestNobodyPoisonsListsOfOthers has callers without credentials ask for another list than the feed, of one server and of one of
// several. They share what the feed was given, also if the list is private. A server that repeats a harmless header
// shows it to nobody else than the caller who sent it.
func TestNobodyPoisonsListsOfOthers(t *testing.T) {
	for hints, name := range map[string]string{"": "without hints", scripted.PrivateHour: "private", scripted.PublicHour: "public"} {
		ways := askings()[:2] // query and header
		for _, way := range append(ways, asking{name: "header of several", header: ways[1].header, options: []string{"headers X-Mcp-Toolsets"}}) {
			t.Run(name+", "+way.name, func(t *testing.T) {
				w := caddytest.NewUpstream(t)
				w.SetHints(hints)
				listBy(w, func(r *http.Request) string { return asksFor(r) + r.Header.Get("Referer") })
				w.Host.ShareCredentials()
				w.Host.Start()
				site := caddytest.Directive(w.Host.URL)
				if way.options != nil {
					site = caddytest.ToolkitOf([]caddytest.Member{{Name: "one", URL: w.Host.URL, Options: way.options}})
				}
				w.Proxy = caddytest.StartProxy(t, site)
				caddytest.EachEra(t, func(t *testing.T, revision string) {
					w := w.On(t)
					caller := func(referer string) *fixture.Raw {
						header := make(http.Header)
						maps.Copy(header, way.header)
						if referer != "" {
							header.Set("Referer", referer)
						}
						return fixture.NewWith(t, w.Proxy.URL+way.query, revision, "", header)
					}
					list := func(referer string) bool {
						a := caller(referer).List(scripted.ToolsList)
						if got := caddytest.MarkOf(a, scripted.ToolsList); got != "a" && got != "a"+referer {
							t.Errorf("who is led here by %q was given %q: %s", referer, got, a)
						}
						return a.CacheStatus().Hit
					}
					fixture.Await(t, "a hit", func() bool { return list("") })
					caddytest.AskAdmin(t, http.MethodPost, "/mcp_cache/mcp_cache/purge", nil)
					for range 3 {
						list("evil")
						list("")
					}
				})
			})
		}
	}
}

// TestPublicOfSeveralServers has callers send a header that one of several servers receives:
// its list is public, and nobody is given that of another value.
func TestPublicOfSeveralServers(t *testing.T) {
	one, first := caddytest.NewMember(t, "one", "headers X-Mcp-Toolsets")
	listBy(one, asksFor)
	_, second := caddytest.NewMember(t, "two")
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}, "admit all"))
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		for _, authorization := range []string{"", "Bearer somebody"} {
			for _, want := range []string{"feed", "a", "b", "feed"} {
				header := http.Header{"X-Mcp-Toolsets": {want}}
				if want == "feed" {
					header = nil
				}
				c := fixture.NewWith(t, p.URL, revision, authorization, header)
				a := caddytest.HasListed(t, c, scripted.ToolsList, 3+2)
				if got := caddytest.MarkOf(a, scripted.ToolsList); got != want {
					t.Errorf("who sends %q was given %q: %s", want, got, a)
				}
			}
		}
	})
}

// TestPublicOfProgram has callers send a program's requests with a query, a header and a Host
// of their own. The program receives none of them, so all share its list.
func TestPublicOfProgram(t *testing.T) {
	command, _ := caddytest.MisbehavingProgram(t)
	p := caddytest.StartProxy(t, "mcp_cache {\nscope public\nadmit all\n"+caddytest.ProgramUpstream(command)+"\n}")
	fixture.New(t, p.URL, scripted.LatestLegacy, "").Settle(scripted.ToolsList)
	c := fixture.NewWith(t, p.URL+"?toolsets=a", scripted.LatestLegacy, "", http.Header{"X-Mcp-Toolsets": {"a"}, "Host": {"a.localhost"}})
	if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit {
		t.Errorf("who asks with a query is not served the list: %s", a)
	}
}

// TestRealClientsAskLikeTheFeed has clients list that send the headers of real SDKs and of
// the proxies before them. Their lists are hits of the feed's public list.
func TestRealClientsAskLikeTheFeed(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicHour)
	w.Start("scope public")
	w.Warm(scripted.Modern)
	w.Warm(scripted.LatestLegacy)
	for name, header := range map[string]http.Header{
		"TypeScript SDK": {"Accept-Language": {"*"}, "Sec-Fetch-Mode": {"cors"}, "User-Agent": {"node"}, "Accept-Encoding": {"gzip, deflate"}},
		"Python SDK":     {"User-Agent": {"python-httpx2/2.16.2"}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
		"langchain":      {"User-Agent": {"python-httpx/0.28.1"}, "Accept-Encoding": {"gzip, deflate, zstd"}},
		"rmcp":           {"Accept": {"text/event-stream, application/json"}},
		"Java SDK":       {"Cache-Control": {"no-cache"}, "Content-Type": {"application/json; charset=utf-8"}},
		"session header": {"X-Session-Id": {"4711"}},
		"cookies":        {"Cookie": {"lb=1"}},
		"behind a proxy": {"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Host": {"mcp.example.com"}, "X-Real-Ip": {"192.0.2.1"}, "Via": {"1.1 proxy"}},
	} {
		hits, lists := make(map[string]int), 0
		for _, authorization := range []string{"", "Bearer " + name} {
			for _, revision := range caddytest.Revisions {
				c := fixture.NewWith(t, w.Proxy.URL, revision, authorization, header)
				if c.Modern() {
					c.List(scripted.PromptsList) // which lets it in
				}
				for range 5 {
					lists++
					if c.List(scripted.ToolsList).CacheStatus().Hit {
						hits[revision]++
					}
				}
			}
		}
		t.Logf("%s: %d lists, hits %v", name, lists, hits)
		if hits[scripted.Modern] != 10 || hits[scripted.LatestLegacy] < 9 { // the first of a client's kind goes to the server
			t.Errorf("%s: hits are %v of 10 each", name, hits)
		}
	}
}

// TestReadOnlyClientOfGoSDK has a server of the official Go SDK show fewer tools to requests
// with a header. The SDK calls its lists public. So a client that reads only is not given the
// tools that write, and its list is a hit all the same.
func TestReadOnlyClientOfGoSDK(t *testing.T) {
	newServer := func(tools ...string) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "repositories", Version: "1"}, nil)
		for _, name := range tools {
			s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
				func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{}, nil
				})
		}
		return s
	}
	all, reading := newServer("read", "write"), newServer("read")
	host := fixture.NewHost(t, mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		if r.Header.Get("X-Mcp-Readonly") != "" {
			return reading
		}
		return all
	}, &mcp.StreamableHTTPOptions{Stateless: true}))
	p := caddytest.StartProxy(t, caddytest.Directive(host.URL, "min_ttl 1m"))
	fixture.NewModern(t, p.URL, "").Settle(scripted.ToolsList)
	c := fixture.NewWith(t, p.URL, scripted.Modern, "", http.Header{"X-Mcp-Readonly": {"true"}})
	c.AwaitList(scripted.ToolsList, "a hit without the tools that write", func(a *fixture.Answer) bool {
		if strings.Contains(string(a.Body), "write") {
			t.Fatalf("a client that reads only was given %s", a)
		}
		return a.CacheStatus().Hit
	})
}

// TestSessionsOfOtherQueries has an attacker open a session with one query and list in it with
// another, of a server that decides at initialize what a session lists. Nobody else is given that
// list.
func TestSessionsOfOtherQueries(t *testing.T) {
	for _, scope := range []string{"private", "public"} {
		for _, token := range []string{"", "Bearer shared"} {
			t.Run(fmt.Sprintf("scope %s, token %q", scope, token), func(t *testing.T) {
				w := caddytest.NewUpstream(t)
				var sets sync.Map
				w.SetScript("initialize", func(x *scripted.Exchange) {
					x.Default()
					sets.Store(x.W.Header().Get("Mcp-Session-Id"), asksFor(x.R))
				})
				w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
					set, _ := sets.Load(x.Session)
					x.Result(fmt.Sprintf(`{"tools":[{"name":"t","description":"%v","inputSchema":{"type":"object"}}]}`, set))
				})
				w.Host.ShareCredentials()
				w.Start("scope " + scope)
				opened := fixture.New(t, w.Proxy.URL+"?toolsets=a", scripted.LatestLegacy, token)
				attacker := fixture.NewWith(t, w.Proxy.URL+"?toolsets=b", scripted.Modern, token, http.Header{"Mcp-Session-Id": {opened.Session}})
				attacker.Revision = scripted.LatestLegacy
				for range 3 {
					attacker.List(scripted.ToolsList)
				}
				for range 3 {
					c := fixture.New(t, w.Proxy.URL+"?toolsets=b", scripted.LatestLegacy, token)
					for range 2 {
						if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != "b" {
							t.Errorf("who asks for b was given %s", a)
						}
					}
				}
				if a := opened.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != "a" {
					t.Errorf("the session of a was given %s", a)
				}
			})
		}
	}
}

// TestSessionsOwnListsOfAQuery has the list of one session change by a call, without a notice.
// Others without credentials who ask for the same are not given it: neither if the feed can ask
// the same, nor if the query may hold a credential, which the feed does not repeat.
func TestSessionsOwnListsOfAQuery(t *testing.T) {
	for _, query := range []string{"?toolsets=a", "?profile=a"} {
		t.Run(query, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.Start()
			own := fixture.New(t, w.Proxy.URL+query, scripted.LatestLegacy, "")
			own.List(scripted.ToolsList)
			own.Call("tools/call", own.Params(`"name":"item-0000","arguments":{}`))
			w.SetSessionList(own.Session, scripted.ToolsList, scripted.Items(scripted.ToolsList, "own", 3))
			for range 3 {
				own.List(scripted.ToolsList)
			}
			for range 3 {
				c := fixture.New(t, w.Proxy.URL+query, scripted.LatestLegacy, "")
				for range 2 {
					if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
						t.Errorf("another session was given %s", a)
					}
				}
			}
		})
	}
}

// TestManyWaysToAsk has more ways to ask than the feed has places. Each becomes shared.
func TestManyWaysToAsk(t *testing.T) {
	w := caddytest.NewUpstream(t)
	listBy(w, asksFor)
	w.Host.ShareCredentials()
	w.Start("scope public", "admit all")
	for n := range 12 {
		set := fmt.Sprint("set-", n)
		caller := 0
		list := func() *fixture.Answer {
			caller++
			a := fixture.New(t, w.Proxy.URL+"?toolsets="+set, scripted.Modern, fmt.Sprint("Bearer ", set, "-", caller)).List(scripted.ToolsList)
			if caddytest.MarkOf(a, scripted.ToolsList) != set {
				t.Errorf("who asks for %s was given %s", set, a)
			}
			return a
		}
		fixture.Await(t, "a hit of a new caller of "+set, func() bool { return list().CacheStatus().Hit })
	}
}

// TestFeedRepeatsNoSecrets has callers share a list under values that may be credentials. The feed
// does not repeat them.
func TestFeedRepeatsNoSecrets(t *testing.T) {
	const secret = "planted-secret-of-a-client"
	w := caddytest.NewUpstream(t)
	listBy(w, func(*http.Request) string { return "all" })
	w.Host.ShareCredentials()
	w.Start("scope public", "admit all")
	for _, revision := range caddytest.Revisions {
		for _, name := range []string{"X-GitHub-Token", "X-Vault", "X-Key", "X-Tenant", "Forwarded", "Authorization", "Cookie", "token", "apiKey", "code"} {
			for n := range 3 {
				header, to := http.Header{"X-Mcp-Toolsets": {name}}, w.Proxy.URL
				if name == strings.ToUpper(name[:1])+name[1:] {
					header.Set(name, secret)
				} else {
					to += "?" + name + "=" + secret
				}
				// Two callers, by another credential.
				header.Set("X-Api-Key", fmt.Sprint("planted-", n))
				c := fixture.NewWith(t, to, revision, "", header)
				for range 2 {
					c.List(scripted.ToolsList)
				}
			}
		}
	}
	repeated := w.Host.Requests(func(r *fixture.Request) bool {
		return r.Header.Get("X-Api-Key") == "" && r.Method == scripted.ToolsList
	})
	if len(repeated) < 2 {
		t.Error("the feed has asked for nothing")
	}
	for _, r := range repeated {
		if strings.Contains(fmt.Sprint(r.URL, r.Header), secret) {
			t.Errorf("the feed sent %s %v", r.URL, r.Header)
		}
	}
}
