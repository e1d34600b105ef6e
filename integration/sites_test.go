package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

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
			w := newUpstream(t)
			w.host.Start()
			w.proxy = startProxy(t, "route {\nforward_auth "+gateway.Listener.Addr().String()+" {\nuri /auth\ncopy_headers X-Authentik-Jwt\n}\n"+
				block("mcp_cache "+w.host.URL, options...)+"\n}")
			awaitReady(t, "mcp_cache")
			eachEra(t, func(t *testing.T, revision string) {
				w := w.on(t)
				c := w.client(revision)
				want := func(a *fixture.Answer) bool { return strings.HasSuffix(a.CacheStatus().Raw, "detail=header") }
				if revision == scripted.Modern && options != nil {
					want = func(a *fixture.Answer) bool { return isHit(a, scripted.ToolsList, "v1") }
				}
				c.AwaitList(scripted.ToolsList, "what it is", want)
			})
			if all := warnings(t, "mcp_cache"); len(all) != 1 || !strings.Contains(all[0], "have it deleted in front, or not copied there (header: X-Authentik-Jwt, ") {
				t.Errorf("warnings: %q", all)
			}
			if n := strings.Count(w.proxy.log(), "lists are not answered from the cache"); n != 1 {
				t.Errorf("the log says so %d times", n)
			}
		})
	}
}

// TestSiteOfTwoNames has a server that sees the Hosts of clients: those of another name than the
// feed's are told why they get no hits, and get them once it is named.
func TestSiteOfTwoNames(t *testing.T) {
	w := newUpstream(t)
	w.SetRevisions(scripted.LatestLegacy) // whose lists are not called public
	w.host.Start()
	config := func(hosts string) string {
		return block("mcp_cache", "origins https://one.example https://two.example", "host "+hosts, "reverse_proxy "+w.host.Addr)
	}
	w.proxy = startProxy(t, config("one.example"))
	for host, want := range map[string]string{"one.example": "; hit; ", "two.example": "; fwd=bypass; detail=host"} {
		c := fixture.NewWith(t, w.proxy.URL, scripted.LatestLegacy, "", http.Header{"Host": {host}})
		c.AwaitList(scripted.ToolsList, want, func(a *fixture.Answer) bool { return strings.Contains(a.CacheStatus().Raw, want) })
	}
	w.proxy.reload(config("one.example two.example"))
	c := fixture.NewWith(t, w.proxy.URL, scripted.LatestLegacy, "", http.Header{"Host": {"two.example"}})
	wantHit(t, c.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
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
			w := newUpstreamBehind(t, balanced)
			w.SetRevisions(scripted.LatestLegacy)
			w.start(append(strings.Split(options, "\n"), "eras legacy")...)
			awaitReady(t, "mcp_cache")
			c, asked := w.client(scripted.LatestLegacy), 0
			fixture.Await(t, "lists with "+want, func() bool {
				asked++
				c.Header = http.Header{"Cookie": {fmt.Sprint("AWSALB=client-", asked)}}
				a := c.List(scripted.ToolsList)
				return a.Status == http.StatusOK && strings.Contains(a.CacheStatus().Raw, want)
			})
			if options == "" {
				wantWarning(t, "as Cookie:NAME (header: Cookie, ")
			}
			refresh(t)
			fixture.Await(t, "a refresh", func() bool { return w.host.CountFeed(scripted.ToolsList) > 1 })
			if n := w.host.CountFeed("initialize"); n != 1 {
				t.Errorf("the feed opened %d sessions", n)
			}
			awaitState(t, "ready")
			if stdout, stderr := check(t, 0, w.host.URL); !strings.Contains(stdout, "tools") {
				t.Errorf("check says %s%s", stdout, stderr)
			}
		})
	}
}

// wantWarning fails unless the status has a warning with that text.
func wantWarning(t testing.TB, text string) {
	t.Helper()
	if all := warnings(t, "mcp_cache"); !slices.ContainsFunc(all, func(w string) bool { return strings.Contains(w, text) }) {
		t.Errorf("warnings are %q, want one with %q", all, text)
	}
}

// warnings returns those in the status of a cache, which need not be ready.
func warnings(t testing.TB, name string) []string {
	t.Helper()
	_, body := askAdmin(t, http.MethodGet, "/mcp_cache/"+name, nil)
	var status struct{ Warnings []string }
	if err := json.Unmarshal(body, &status); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return status.Warnings
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
			w := newUpstreamBehind(t, c.front)
			w.SetRevisions(scripted.LatestLegacy)
			w.host.Start()
			w.proxy = startProxy(t, block("request_header Authorization \"Bearer front\"\nmcp_cache "+w.host.URL, "eras legacy"))
			awaitFailure(t, c.state, c.failure)
			w.proxy.reload(block("mcp_cache "+w.host.URL, "eras legacy", c.option, "reverse_proxy {\n"+c.advised+"\n}"))
			awaitState(t, "ready")
		})
	}
}

// TestEndpointElsewhere has clients use another path than the endpoint's: that is said.
func TestEndpointElsewhere(t *testing.T) {
	w := newUpstreamBehind(t, func(s *scripted.Server) http.Handler { return http.StripPrefix("/v1", s) })
	w.SetRevisions(scripted.LatestLegacy)
	w.host.Start()
	w.proxy = startProxy(t, block("mcp_cache http://"+w.host.Addr, "eras legacy"))
	c := fixture.New(t, "http://"+w.proxy.Addr+"/v1/mcp", scripted.LatestLegacy, "")
	if a := c.List(scripted.ToolsList); a.Status != http.StatusOK {
		t.Errorf("a list got %s", a)
	}
	awaitFailure(t, "unsupported", "answered 404 at /mcp")
	wantWarning(t, "arrive at another path than the endpoint (/mcp), and are passed on without a look into the cache; "+
		"if that is the endpoint, name it in the upstream URL or in the option endpoint (path: /v1/mcp, ")
}

// TestServerThatTheRequestPicks is said at load to have no feed, and has lists for each caller.
func TestServerThatTheRequestPicks(t *testing.T) {
	w := newUpstream(t)
	w.host.Start()
	_, port, _ := strings.Cut(w.host.Addr, ":")
	w.proxy = startProxy(t, block("vars back "+port+"\nmcp_cache", "reverse_proxy 127.0.0.1:{vars.back}"))
	if log := w.proxy.log(); !strings.Contains(log, "which server is asked depends on the request, so the feed cannot know it") {
		t.Errorf("the log at load says %s", log)
	}
	wantWarning(t, "(upstream: 127.0.0.1:{http.vars.back}, once)")
	if status, body := askAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil); status != http.StatusOK {
		t.Errorf("there is nothing to wait for, and the status is %d %s", status, body)
	}
	w.SetRevisions(scripted.LatestLegacy)
	for _, credential := range []string{"", "Bearer a"} {
		c := w.clientAs(scripted.LatestLegacy, credential)
		wantHit(t, c.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
	}
	if n := w.host.CountFeed(scripted.ToolsList); n > 0 {
		t.Errorf("a feed asked %d times", n)
	}
}

// TestLoginAtAnInternalAddress has a refusal lead clients to an address of the server's own
// network (MARS#203): that is said, also of the door of several servers.
func TestLoginAtAnInternalAddress(t *testing.T) {
	w := newUpstreamBehind(t, func(*scripted.Server) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://mars.internal:8000/.well-known/oauth-protected-resource"`)
			w.WriteHeader(http.StatusUnauthorized)
		})
	})
	w.host.Start()
	for _, config := range []string{"mcp_cache " + w.host.URL, block("mcp_cache", "server a "+w.host.URL+" {\nauthorization forward\n}")} {
		w.proxy = startProxyCalled(t, "mcp.public.example", config)
		c := fixture.NewModern(t, w.proxy.URL, "")
		header := http.Header{"Host": {"mcp.public.example"}, "Mcp-Method": {scripted.ToolsList}}
		if a := c.Post(fixture.Message("1", scripted.ToolsList, c.Params("")), header); a.Status != http.StatusUnauthorized {
			t.Errorf("a stranger got %s", a)
		}
		wantWarning(t, "configure the server with the public URL of this endpoint (resource_metadata: mars.internal:8000, ")
	}
}
