package guards

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestCredentialOfAGateway has forward_auth copy a token that is signed anew for each request
// (Authentik, Pomerium): what keeps lists from being hits is named, with the remedy.
func TestCredentialOfAGateway(t *testing.T) {
	var signed atomic.Int64
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Authentik-Jwt", fmt.Sprint("signed-", signed.Add(1)))
	}))
	t.Cleanup(gateway.Close)
	for _, options := range [][]string{nil, {"admit all", "scope public"}} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.Host.Start()
			w.Proxy = caddytest.StartProxy(t, "route {\nforward_auth "+gateway.Listener.Addr().String()+" {\nuri /auth\ncopy_headers X-Authentik-Jwt\n}\n"+
				block("mcp_cache "+w.Host.URL, options...)+"\n}")
			caddytest.AwaitReady(t, "mcp_cache")
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				c := w.Client(revision)
				want := func(a *fixture.Answer) bool { return strings.HasSuffix(a.CacheStatus().Raw, "detail=header") }
				if revision == scripted.Modern && options != nil {
					want = func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v1") }
				}
				c.AwaitList(scripted.ToolsList, "what it is", want)
			})
			if all := caddytest.Warnings(t, "mcp_cache"); len(all) != 1 || !strings.Contains(all[0], "have it deleted in front, or not copied there (header: X-Authentik-Jwt, ") {
				t.Errorf("warnings: %q", all)
			}
			if n := strings.Count(w.Proxy.Log(), "lists are not answered from the cache"); n != 1 {
				t.Errorf("the log says so %d times", n)
			}
		})
	}
}

// TestSiteOfTwoNames has a server that sees the Hosts of clients: those of another name than the
// feed's are told why they get no hits, and get them once it is named.
func TestSiteOfTwoNames(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetRevisions(scripted.LatestLegacy) // whose lists are not called public
	w.Host.Start()
	config := func(hosts string) string {
		return block("mcp_cache", "origins https://one.example https://two.example", "host "+hosts, "reverse_proxy "+w.Host.Addr)
	}
	w.Proxy = caddytest.StartProxy(t, config("one.example"))
	for host, want := range map[string]string{"one.example": "; hit; ", "two.example": "; fwd=bypass; detail=host"} {
		c := fixture.NewWith(t, w.Proxy.URL, scripted.LatestLegacy, "", http.Header{"Host": {host}})
		c.AwaitList(scripted.ToolsList, want, func(a *fixture.Answer) bool { return strings.Contains(a.CacheStatus().Raw, want) })
	}
	w.Proxy.Reload(config("one.example two.example"))
	c := fixture.NewWith(t, w.Proxy.URL, scripted.LatestLegacy, "", http.Header{"Host": {"two.example"}})
	caddytest.WantHit(t, c.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
}

// balanced is a load balancer that finds the server of a session by a cookie, which is new in
// each answer, and does not find it without (mcp-remote#168).
func balanced(s *scripted.Server) http.Handler {
	var last atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("AWSALB"); err != nil && r.Header.Get("Mcp-Session-Id") != "" {
			http.Error(w, "unknown session", http.StatusNotFound)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "AWSALB", Value: fmt.Sprint(last.Add(1))})
		s.ServeHTTP(w, r)
	})
}

// TestAffinityByCookie has the feed keep one session behind such a load balancer, and clients get
// hits once the cookie is called harmless. Until then they are told what it is.
func TestAffinityByCookie(t *testing.T) {
	for options, want := range map[string]string{"": "; detail=header", "harmless Cookie:AWSALB": "; hit; "} {
		t.Run(options, func(t *testing.T) {
			w := caddytest.NewUpstreamBehind(t, balanced)
			w.SetRevisions(scripted.LatestLegacy)
			w.Start(append(strings.Split(options, "\n"), "eras legacy")...)
			caddytest.AwaitReady(t, "mcp_cache")
			c, asked := w.Client(scripted.LatestLegacy), 0
			fixture.Await(t, "lists with "+want, func() bool {
				asked++
				c.Header = http.Header{"Cookie": {fmt.Sprint("AWSALB=client-", asked)}}
				a := c.List(scripted.ToolsList)
				return a.Status == http.StatusOK && strings.Contains(a.CacheStatus().Raw, want)
			})
			if options == "" {
				wantWarning(t, "as Cookie:NAME (header: Cookie, ")
			}
			caddytest.RefreshFeeds(t)
			fixture.Await(t, "a refresh", func() bool { return w.Host.CountFeed(scripted.ToolsList) > 1 })
			if n := w.Host.CountFeed("initialize"); n != 1 {
				t.Errorf("the feed opened %d sessions", n)
			}
			caddytest.AwaitState(t, "ready")
			if stdout, stderr := caddytest.Check(t, 0, w.Host.URL); !strings.Contains(stdout, "tools") {
				t.Errorf("check says %s%s", stdout, stderr)
			}
		})
	}
}

// wantWarning fails unless the status has a warning with that text.
func wantWarning(t testing.TB, text string) {
	t.Helper()
	if all := caddytest.Warnings(t, "mcp_cache"); !slices.ContainsFunc(all, func(w string) bool { return strings.Contains(w, text) }) {
		t.Errorf("warnings are %q, want one with %q", all, text)
	}
}

// TestServersThatRefuseTheFeed are explained, and what is advised helps.
func TestServersThatRefuseTheFeed(t *testing.T) {
	unless := func(status int, letsIn func(r *http.Request, body []byte) bool) func(*scripted.Server) http.Handler {
		return func(s *scripted.Server) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if !letsIn(r, body) {
					w.WriteHeader(status)
					return
				}
				s.ServeHTTP(w, r)
			})
		}
	}
	for name, c := range map[string]struct {
		front           func(*scripted.Server) http.Handler
		state, failure  string
		option, advised string // before and inside reverse_proxy
	}{
		"no credential": { // which a handler in front sets for clients alone
			unless(http.StatusUnauthorized, func(r *http.Request, _ []byte) bool { return r.Header.Get("Authorization") != "" }),
			"needs_authorization", "answered 401: give the feed a credential, with guard or header_up",
			"", "header_up Authorization \"Bearer letmein\"",
		},
		"by name": {
			unless(http.StatusForbidden, func(r *http.Request, body []byte) bool {
				return !bytes.Contains(body, []byte(`"method":"initialize"`)) || bytes.Contains(body, []byte(`"name":"Trusted Client"`))
			}),
			"needs_authorization", "answered 403: give the feed a credential, with guard or header_up, or another name, with client_name",
			"client_name \"Trusted Client\"", "",
		},
		"by User-Agent": {
			unless(http.StatusForbidden, func(r *http.Request, _ []byte) bool { return r.UserAgent() == "trusted/1" }),
			"needs_authorization", "or header_up User-Agent",
			"", "header_up User-Agent trusted/1",
		},
		"by Host": { // (fastmcp#4468)
			unless(http.StatusMisdirectedRequest, func(r *http.Request, _ []byte) bool { return r.Host == "mcp.public.example" }),
			"down", "answered 421: the server answers to another Host; name it with header_up Host",
			"", "header_up Host mcp.public.example",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstreamBehind(t, c.front)
			w.SetRevisions(scripted.LatestLegacy)
			w.Host.Start()
			w.Proxy = caddytest.StartProxy(t, block("request_header Authorization \"Bearer front\"\nmcp_cache "+w.Host.URL, "eras legacy"))
			caddytest.AwaitFailure(t, c.state, c.failure)
			w.Proxy.Reload(block("mcp_cache "+w.Host.URL, "eras legacy", c.option, "reverse_proxy {\n"+c.advised+"\n}"))
			caddytest.AwaitState(t, "ready")
		})
	}
}

// TestEndpointElsewhere has clients use another path than the endpoint's: that is said.
func TestEndpointElsewhere(t *testing.T) {
	w := caddytest.NewUpstreamBehind(t, func(s *scripted.Server) http.Handler { return http.StripPrefix("/v1", s) })
	w.SetRevisions(scripted.LatestLegacy)
	w.Host.Start()
	w.Proxy = caddytest.StartProxy(t, block("mcp_cache http://"+w.Host.Addr, "eras legacy"))
	c := fixture.New(t, "http://"+w.Proxy.Addr+"/v1/mcp", scripted.LatestLegacy, "")
	if a := c.List(scripted.ToolsList); a.Status != http.StatusOK {
		t.Errorf("a list got %s", a)
	}
	caddytest.AwaitFailure(t, "unsupported", "answered 404 at /mcp")
	wantWarning(t, "arrive at another path than the endpoint (/mcp), and are passed on without a look into the cache; "+
		"if that is the endpoint, name it in the upstream URL or in the option endpoint (path: /v1/mcp, ")
}

// TestServerThatTheRequestPicks is said at load to have no feed, and has lists for each caller.
func TestServerThatTheRequestPicks(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	_, port, _ := strings.Cut(w.Host.Addr, ":")
	w.Proxy = caddytest.StartProxy(t, block("vars back "+port+"\nmcp_cache", "reverse_proxy 127.0.0.1:{vars.back}"))
	if log := w.Proxy.Log(); !strings.Contains(log, "which server is asked depends on the request, so the feed cannot know it") {
		t.Errorf("the log at load says %s", log)
	}
	wantWarning(t, "(upstream: 127.0.0.1:{http.vars.back}, once)")
	if status, body := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil); status != http.StatusOK {
		t.Errorf("there is nothing to wait for, and the status is %d %s", status, body)
	}
	w.SetRevisions(scripted.LatestLegacy)
	for _, credential := range []string{"", "Bearer a"} {
		c := w.ClientAs(scripted.LatestLegacy, credential)
		caddytest.WantHit(t, c.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
	}
	if n := w.Host.CountFeed(scripted.ToolsList); n > 0 {
		t.Errorf("a feed asked %d times", n)
	}
}

// TestLoginAtAnInternalAddress has a refusal lead clients to an address of the server's own
// network (MARS#203): that is said, also of the door of several servers.
func TestLoginAtAnInternalAddress(t *testing.T) {
	w := caddytest.NewUpstreamBehind(t, func(*scripted.Server) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://mars.internal:8000/.well-known/oauth-protected-resource"`)
			w.WriteHeader(http.StatusUnauthorized)
		})
	})
	w.Host.Start()
	for _, config := range []string{"mcp_cache " + w.Host.URL, block("mcp_cache", "server a "+w.Host.URL+" {\nauthorization forward\n}")} {
		w.Proxy = caddytest.StartProxyCalled(t, "mcp.public.example", config)
		c := fixture.NewModern(t, w.Proxy.URL, "")
		header := http.Header{"Host": {"mcp.public.example"}, "Mcp-Method": {scripted.ToolsList}}
		if a := c.Post(fixture.Message("1", scripted.ToolsList, c.Params("")), header); a.Status != http.StatusUnauthorized {
			t.Errorf("a stranger got %s", a)
		}
		wantWarning(t, "configure the server with the public URL of this endpoint (resource_metadata: mars.internal:8000, ")
	}
}
