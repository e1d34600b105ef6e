package several

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	mcpgotransport "github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// doored is a toolkit of a server for all, one with a guard, and one that is the door.
type doored struct {
	*caddytest.Proxy

	all, guarded, door *caddytest.World
}

func newDoored(t *testing.T, revisions []string, options ...string) *doored {
	t.Helper()
	all, first := caddytest.NewMember(t, "all")
	guarded, second := caddytest.NewMember(t, "guarded", "authorization guard", "guard bearer planted-guard")
	guarded.SetDoor(scripted.Bearers("planted-guard"))
	door, third := caddytest.NewMember(t, "door", "authorization forward")
	for _, w := range []*caddytest.World{all, guarded, door} {
		w.SetRevisions(revisions...)
	}
	door.SetDoor(scripted.Bearers("good", "other"))
	return &doored{caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second, third}, options...)), all, guarded, door}
}

// TestToolkitDoor: nobody gets anything whom the door has not let in: its refusal is the
// endpoint's, whatever the request, and no other server is asked for it.
func TestToolkitDoor(t *testing.T) {
	for name, revisions := range map[string][]string{"legacy": legacyRevisions, "modern": {scripted.Modern}} {
		t.Run(name, func(t *testing.T) {
			p := newDoored(t, revisions)
			for _, revision := range []string{"2025-06-18", scripted.Modern} {
				c := fixture.New(t, p.URL, revision, "Bearer good")
				for _, method := range scripted.ListMethods() {
					caddytest.HasListed(t, c, method, 6)
				}
				for _, server := range []string{"all", "guarded", "door"} {
					if a := c.Call("tools/call", c.Params(`"name":"`+server+`__item-0000","arguments":{}`)); a.Part("result") == nil {
						t.Errorf("%s: a call of %s gave %s: %s", revision, server, a, a.Body)
					}
				}
				before := len(clientsOf(p.all)) + len(clientsOf(p.guarded))
				wantTurnedAway(t, p, c, "Bearer bad")
				wantTurnedAway(t, p, c, "")
				if after := len(clientsOf(p.all)) + len(clientsOf(p.guarded)); after != before {
					t.Errorf("%s: %d requests of those who are not let in have reached other servers", revision, after-before)
				}
			}
		})
	}
}

// wantTurnedAway has a client make requests of every sort with other credentials, none of which
// may be answered.
func wantTurnedAway(t *testing.T, p *doored, c *fixture.Raw, credential string) {
	t.Helper()
	other := fixture.NewModern(t, p.URL, credential)
	other.Revision, other.Session = c.Revision, c.Session
	answers := map[string]*fixture.Answer{
		"tools/list": other.List(scripted.ToolsList), "prompts/list": other.List("prompts/list"),
		"tools/call":     other.Call("tools/call", other.Params(`"name":"all__item-0000","arguments":{}`)),
		"prompts/get":    other.Call("prompts/get", other.Params(`"name":"guarded__item-0000"`)),
		"resources/read": other.Call("resources/read", other.Params(`"uri":"door://item-0000"`)),
		"unknown":        other.Call("unknown/method", other.Params("")),
	}
	if c.Modern() {
		answers["server/discover"] = other.List("server/discover")
		answers["subscriptions/listen"] = other.Call("subscriptions/listen", other.Params(`"notifications":{"toolsListChanged":true}`))
	} else {
		answers["initialize"] = other.Call("initialize", fixture.InitializeParams("2025-06-18"))
		answers["ping"] = other.Call("ping", `{}`)
		answers["notification"] = other.Notify("notifications/cancelled", `{"requestId":1}`)
		a, err := other.Try(t.Context(), http.MethodGet, "", http.Header{"Accept": {"text/event-stream"}})
		if err != nil {
			t.Fatal(err)
		}
		answers["GET"] = a
		other.Session = ""
		answers["without a session"] = other.List(scripted.ToolsList)
	}
	for method, a := range answers {
		if a.Status != http.StatusUnauthorized || !strings.Contains(a.Header.Get("WWW-Authenticate"), "resource_metadata=") ||
			a.CacheStatus().Detail != "admission" || strings.Contains(string(a.Body), "item-") || a.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: %s with %q gave %s: %s", c.Revision, method, credential, a, a.Body)
		}
	}
}

// TestToolkitDoorCloses: whom the door refuses later, it has to let in anew; what it says of
// the scope of a single call is passed on; and while it is down, those are in whom it has let
// in lately.
func TestToolkitDoorCloses(t *testing.T) {
	p := newDoored(t, []string{scripted.Modern})
	c := fixture.NewModern(t, p.URL, "Bearer good")
	caddytest.HasListed(t, c, scripted.ToolsList, 6)

	var refuses atomic.Int64
	p.door.SetDoor(func(r *http.Request) int {
		if r.Header.Get("Mcp-Method") == "tools/call" || r.Header.Get("Mcp-Name") != "" {
			return int(refuses.Load())
		}
		return scripted.Bearers("good")(r)
	})
	refuses.Store(http.StatusForbidden)
	call := c.Params(`"name":"door__item-0000","arguments":{}`)
	if a := c.Call("tools/call", call); a.Status != http.StatusForbidden || !strings.Contains(a.Header.Get("WWW-Authenticate"), "insufficient_scope") {
		t.Errorf("a 403 of the door: %s", a)
	}
	refuses.Store(0)
	if a := c.Call("tools/call", call); a.Part("result") == nil {
		t.Errorf("after the 403: %s: %s", a, a.Body)
	}

	p.door.Host.Kill()
	if a := c.Call("tools/call", c.Params(`"name":"all__item-0000","arguments":{}`)); a.Part("result") == nil {
		t.Errorf("while the door is down: %s: %s", a, a.Body)
	}
	if a := fixture.NewModern(t, p.URL, "Bearer other").List(scripted.ToolsList); a.Status != http.StatusBadGateway || !strings.Contains(string(a.Body), `the MCP server \"door\" cannot be reached`) {
		t.Errorf("a stranger while the door is down: %s: %s", a, a.Body)
	}
	p.door.Host.Start()
	p.door.SetDoor(scripted.Bearers())
	if a := c.Call("tools/call", call); a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("a 401 of the door: %s", a)
	}
	if a := c.List(scripted.ToolsList); a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("the list after a 401: %s: %s", a, a.Body)
	}
}

// TestToolkitMetadata: what the door says of where to log in is the endpoint's, also where its
// path is another; nothing of the caller's is sent for it, and without a door there is none.
func TestToolkitMetadata(t *testing.T) {
	_, first := caddytest.NewMember(t, "all")
	paths := map[string]string{
		"/.well-known/oauth-protected-resource/all":      "/.well-known/oauth-protected-resource/mcp",
		"/.well-known/oauth-protected-resource":          "/.well-known/oauth-protected-resource",
		"/.well-known/oauth-authorization-server":        "/.well-known/oauth-authorization-server",
		"/.well-known/oauth-authorization-server/x":      "/.well-known/oauth-authorization-server/x",
		"/.well-known/openid-configuration":              "/.well-known/openid-configuration",
		"/all/.well-known/openid-configuration":          "/mcp/.well-known/openid-configuration",
		"/.well-known/openid-configuration/tenant/other": "/.well-known/openid-configuration/tenant/other",
	}
	host := fixture.NewHost(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "a=b")
		if strings.HasSuffix(r.URL.Path, "other") {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprintf(w, `{"path":%q,"sent":%q}`, r.URL.String(), fmt.Sprint(r.Header))
	}))
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, {Name: "door", URL: host.URL, Options: []string{"authorization forward"}}}, "endpoint /all"))
	client := fixture.HTTPClient(t, "browser", "Bearer canary-own")
	base := strings.TrimSuffix(p.URL, "/mcp")
	get := func(path string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path+"?token=canary", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Cookie", "a=canary")
		return fixture.Fetch(t, client, r)
	}
	for path, want := range paths {
		res, body := get(path)
		status := http.StatusOK
		if strings.HasSuffix(path, "other") {
			status = http.StatusNotFound
		}
		if res.StatusCode != status || !strings.Contains(body, fmt.Sprintf(`{"path":%q,`, want)) || strings.Contains(body, "canary") || res.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s gave %d: %s", path, res.StatusCode, body)
		}
	}
	before := len(host.Requests(func(r *fixture.Request) bool { return r.HTTPMethod == http.MethodGet }))
	for _, path := range []string{
		"/.well-known/oauth-unknown", "/.well-known/oauth-protected-resource/other", "/.well-known/oauth-protected-resource/../../secret",
		"/.well-known/oauth-protected-resource/%2e%2e/%2e%2e/secret", "/.well-known/oauth-authorization-server/..%2f..%2fsecret", "/.well-known/openid-configuration/../../mcp",
		"/.well-known/oauth-authorization-server//x", "/.well-known/oauth-authorization-server/x/", "/.well-known/openid-configuration/%5c..%5csecret", "/.well-known/openid-configurations",
	} {
		if res, body := get(path); res.StatusCode != http.StatusNotFound || strings.Contains(body, `"path"`) {
			t.Errorf("%s gave %d: %s", path, res.StatusCode, body)
		}
	}
	if after := len(host.Requests(func(r *fixture.Request) bool { return r.HTTPMethod == http.MethodGet })); after != before {
		t.Errorf("the door was sent %d requests for other paths", after-before)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		r, _ := http.NewRequestWithContext(t.Context(), method, base+"/.well-known/oauth-protected-resource", strings.NewReader("x"))
		if res, err := client.Do(r); err != nil || res.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %v, %v", method, res, err)
		}
	}
}

// TestToolkitDoorAsks: with each caller the door is asked once for as long as admit says, and
// never again for a token that is refused.
func TestToolkitDoorAsks(t *testing.T) {
	asked := func(p *doored, credential string) int {
		return len(p.door.Host.Requests(func(r *fixture.Request) bool {
			return r.Header.Get("Authorization") == credential && r.Header.Get("Mcp-Method") == scripted.ToolsList
		}))
	}
	for admit, want := range map[string]func(n int) bool{
		"admit upstream 1h":  func(n int) bool { return n == 1 },
		"admit upstream 1ns": func(n int) bool { return n >= 10 },
	} {
		p := newDoored(t, []string{scripted.Modern}, admit)
		for range 10 {
			c := fixture.NewModern(t, p.URL, "Bearer good")
			if a := c.Call("tools/call", c.Params(`"name":"all__item-0000","arguments":{}`)); a.Part("result") == nil {
				t.Errorf("%s: %s: %s", admit, a, a.Body)
			}
			if a := fixture.NewModern(t, p.URL, "Bearer bad").List(scripted.ToolsList); a.Status != http.StatusUnauthorized {
				t.Errorf("%s: who is not let in: %s: %s", admit, a, a.Body)
			}
		}
		if n := asked(p, "Bearer good"); !want(n) {
			t.Errorf("%s: the door was asked %d times", admit, n)
		}
		if n := asked(p, "Bearer bad"); n != 10 {
			t.Errorf("%s: the door was asked %d times for who is not let in", admit, n)
		}
	}
}

// TestToolkitDoorByHeader: a door may know its callers by another header, and what another
// server refuses is no refusal of the door's.
func TestToolkitDoorByHeader(t *testing.T) {
	_, first := caddytest.NewMember(t, "all")
	door, second := caddytest.NewMember(t, "door", "headers X-Api-Key")
	door.SetDoor(func(r *http.Request) int {
		if r.Header.Get("X-Api-Key") != "right" {
			return http.StatusForbidden
		}
		return 0
	})
	other, third := caddytest.NewMember(t, "other", "authorization forward")
	other.SetDoor(scripted.Bearers())
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second, third}, "door door"))
	for _, revision := range []string{"2025-06-18", scripted.Modern} {
		stranger := fixture.NewModern(t, p.URL, "Bearer x")
		if a := stranger.List(scripted.ToolsList); a.Status != http.StatusForbidden || a.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("a stranger: %s: %s", a, a.Body)
		}
		header := http.Header{"Authorization": {"Bearer x"}, "X-Api-Key": {"right"}}
		c := fixture.NewModern(t, p.URL, "")
		if c.Header = header; revision != scripted.Modern {
			c = opened(t, p, header)
		}
		if a := caddytest.HasListed(t, c, scripted.ToolsList, 4); strings.Contains(string(a.Body), "other__") {
			t.Errorf("%s: %s", a, a.Body)
		}
		if a := c.Call("tools/call", c.Params(`"name":"other__item-0000","arguments":{}`)); a.Status != http.StatusBadGateway || a.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("a call of a server that refuses: %s: %s", a, a.Body)
		}
	}
}

// TestToolkitDoorOfSDKs: a door that is made with an SDK lets clients of SDKs in, which find out
// from it where to log in; other servers are used without that token.
func TestToolkitDoorOfSDKs(t *testing.T) {
	behind, other := fixture.NewGoSDKServer(t, true), fixture.NewMCPGoServer(t, "stateful")
	behind.Grow()
	other.Grow()
	var door atomic.Pointer[http.ServeMux]
	host := fixture.NewHost(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mux := door.Load(); mux != nil {
			mux.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable) // until the endpoint's URL is known
	}))
	host.ShareCredentials()
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{{Name: "door", URL: host.URL, Options: []string{"authorization forward"}}, {Name: "other", URL: other.URL}}))
	public := p.URL
	metadata := strings.TrimSuffix(public, "/mcp") + authtest.ResourcePath + "/mcp"
	target, err := url.Parse(strings.TrimSuffix(behind.URL, "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", sdkauth.RequireBearerToken(func(_ context.Context, raw string, _ *http.Request) (*sdkauth.TokenInfo, error) {
		if raw != "token-of-a-user" {
			return nil, sdkauth.ErrInvalidToken
		}
		return &sdkauth.TokenInfo{Expiration: time.Now().Add(time.Hour), UserID: "user"}, nil
	}, &sdkauth.RequireBearerTokenOptions{ResourceMetadataURL: metadata})(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization")
	}}))
	mux.Handle(authtest.ResourcePath+"/mcp", sdkauth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: public, AuthorizationServers: []string{"https://login.example"},
	}))
	door.Store(mux)

	refused := fixture.NewModern(t, p.URL, "").List(scripted.ToolsList)
	challenges, err := oauthex.ParseWWWAuthenticate(refused.Header.Values("WWW-Authenticate"))
	if refused.Status != http.StatusUnauthorized || err != nil || len(challenges) != 1 {
		t.Fatalf("%s, %v, %v", refused, challenges, err)
	}
	found, err := oauthex.GetProtectedResourceMetadata(t.Context(), challenges[0].Params["resource_metadata"], public, http.DefaultClient)
	if err != nil || len(found.AuthorizationServers) != 1 || found.AuthorizationServers[0] != "https://login.example" {
		t.Fatalf("the metadata are %+v, %v", found, err)
	}

	const token = "Bearer token-of-a-user"
	goSDK, err := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: p.URL, HTTPClient: fixture.HTTPClient(t, "go-sdk", token), DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer goSDK.Close()
	tools, err := goSDK.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 8 {
		t.Fatalf("go-sdk lists %+v, %v", tools, err)
	}
	transport, err := mcpgotransport.NewStreamableHTTP(p.URL, mcpgotransport.WithHTTPHeaders(map[string]string{"Authorization": token, "User-Agent": scripted.ClientAgent}))
	if err != nil {
		t.Fatal(err)
	}
	mcpGo := mcpgoclient.NewClient(transport)
	defer mcpGo.Close()
	if err := mcpGo.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := mcpGo.Initialize(t.Context(), mcpgo.InitializeRequest{Params: mcpgo.InitializeParams{ProtocolVersion: "2025-11-25", ClientInfo: mcpgo.Implementation{Name: "mcp-go", Version: "1"}}}); err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"door__", "other__"} {
		name := server + fixture.GrownTool
		if result, err := goSDK.CallTool(t.Context(), &mcp.CallToolParams{Name: name}); err != nil || result.IsError {
			t.Errorf("go-sdk calls %s: %+v, %v", name, result, err)
		}
		if result, err := mcpGo.CallTool(t.Context(), mcpgo.CallToolRequest{Params: mcpgo.CallToolParams{Name: name}}); err != nil || result.IsError {
			t.Errorf("mcp-go calls %s: %+v, %v", name, result, err)
		}
	}
	for _, r := range other.Requests(func(*fixture.Request) bool { return true }) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("the other server was sent %s", r.Header.Get("Authorization"))
		}
	}
}

// TestToolkitDoorInSession: a token that has expired in the middle of a session is a 401, and
// the session goes on with the next token, at the servers, too.
func TestToolkitDoorInSession(t *testing.T) {
	for _, lost := range []string{"reopen", "end"} {
		t.Run(lost, func(t *testing.T) {
			door, m := caddytest.NewMember(t, "door", "authorization forward", "session_lost "+lost)
			door.SetRevisions(legacyRevisions...)
			door.SetDoor(scripted.Bearers("first"))
			p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{m}))
			c := opened(t, p, http.Header{"Authorization": {"Bearer first"}})
			call := `"name":"door__item-0000","arguments":{}`
			wantResult := func(when string) {
				t.Helper()
				if a := c.Call("tools/call", c.Params(call)); a.Part("result") == nil {
					t.Errorf("%s: %s: %s", when, a, a.Body)
				}
			}
			wantResult("with the first token")
			door.SetDoor(scripted.Bearers("second"))
			if a := c.Call("tools/call", c.Params(call)); a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("when the first token has expired: %s: %s", a, a.Body)
			}
			c.Header.Set("Authorization", "Bearer second")
			wantResult("with the second token")
			// A server that knows whose its sessions are, while both tokens are good.
			ids := sessionsOf(door, "tools/call")
			bound := ids[len(ids)-1]
			door.SetDoor(func(r *http.Request) int {
				if r.Header.Get("Mcp-Session-Id") == bound && r.Header.Get("Authorization") != "Bearer second" {
					return http.StatusNotFound
				}
				return scripted.Bearers("second", "third")(r)
			})
			if lost == "reopen" {
				c.Header.Set("Authorization", "Bearer third")
				wantResult("with the third token")
			}
			caddytest.HasListed(t, c, scripted.ToolsList, 2)
			for _, id := range sessionsOf(door, "tools/call") {
				if id == c.Session || id == "" {
					t.Errorf("the server was called in session %q", id)
				}
			}
			// A session that the server has lost, with a token that is good.
			door.ForgetSessions()
			a := c.Call("tools/call", c.Params(call))
			if lost == "end" && a.Status != http.StatusNotFound || lost != "end" && a.Part("result") == nil {
				t.Errorf("after the server has lost the session: %s: %s", a, a.Body)
			}
		})
	}
}

// opened returns a client that has opened a session, and sends that header, which it may change.
func opened(t *testing.T, p *caddytest.Proxy, header http.Header) *fixture.Raw {
	t.Helper()
	c := fixture.NewModern(t, p.URL, "")
	c.Header, c.Revision = header, "2025-06-18"
	a := c.Call("initialize", fixture.InitializeParams("2025-06-18"))
	if c.Session = a.Header.Get("Mcp-Session-Id"); c.Session == "" {
		t.Fatalf("initialize gave %s: %s", a, a.Body)
	}
	return c
}

// TestToolkitDoorWithoutLists: a door that has no list for anybody lets nobody in, whatever else
// it answers.
func TestToolkitDoorWithoutLists(t *testing.T) {
	for name, revisions := range map[string][]string{"legacy": legacyRevisions, "modern": {scripted.Modern}, "both": append([]string{scripted.Modern}, legacyRevisions...)} {
		for said, capabilities := range map[string]string{"none": `{}`, "all": `{"tools":{},"prompts":{},"resources":{}}`} {
			t.Run(name+", "+said, func(t *testing.T) {
				p := newDoored(t, revisions)
				p.door.SetDoor(nil)
				p.door.SetCapabilities(capabilities)
				for _, method := range scripted.ListMethods() {
					p.door.SetScript(method, func(x *scripted.Exchange) { x.Error(http.StatusOK, -32601, "Method not found") })
				}
				wantNobodyIn(t, p, "")
				wantNobodyIn(t, p, "Bearer junk")
			})
		}
	}
}

// wantNobodyIn has a client with those credentials try what it can, at a door that does not say
// whom it lets in.
func wantNobodyIn(t *testing.T, p *doored, credentials string) {
	t.Helper()
	c := fixture.NewModern(t, p.URL, credentials)
	for method, params := range map[string]string{scripted.ToolsList: "", "prompts/list": "", "tools/call": `"name":"guarded__item-0000","arguments":{}`} {
		if a := c.Call(method, c.Params(params)); a.Status != http.StatusBadGateway || !strings.Contains(string(a.Body), "door") {
			t.Errorf("%s gave %s: %s", method, a, a.Body)
		}
	}
	c.Revision = "2025-06-18"
	if a := c.Call("initialize", fixture.InitializeParams("2025-06-18")); a.Status != http.StatusBadGateway {
		t.Errorf("initialize gave %s: %s", a, a.Body)
	}
	if n := len(clientsOf(p.guarded)); n > 0 {
		t.Errorf("the guarded server was sent %d requests", n)
	}
}

// TestToolkitPurge: who was let in has to be let in anew after a purge of the toolkit.
func TestToolkitPurge(t *testing.T) {
	p := newDoored(t, []string{scripted.Modern})
	c := fixture.NewModern(t, p.URL, "Bearer good")
	caddytest.HasListed(t, c, scripted.ToolsList, 6)
	p.door.SetDoor(scripted.Bearers())
	caddytest.HasListed(t, c, scripted.ToolsList, 6)
	if status, body := caddytest.AskAdmin(t, http.MethodPost, "/mcp_cache/mcp_cache/purge", nil); status >= 300 {
		t.Fatalf("purge gave %d: %s", status, body)
	}
	if a := c.List(scripted.ToolsList); a.Status != http.StatusUnauthorized {
		t.Errorf("after a purge: %s: %s", a, a.Body)
	}
}
