package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
					want = func(a *fixture.Answer) bool { return isHit(a, toolsList, "v1") }
				}
				c.AwaitList(toolsList, "what it is", want)
			})
			var status struct{ Warnings []string }
			readAdmin(t, "/mcp_cache/mcp_cache", &status)
			if len(status.Warnings) != 1 || !strings.Contains(status.Warnings[0], "have it deleted in front, or not copied there (header: X-Authentik-Jwt, ") {
				t.Errorf("warnings: %q", status.Warnings)
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
		c := w.client(scripted.LatestLegacy)
		c.Header = http.Header{"Host": {host}}
		c.AwaitList(toolsList, want, func(a *fixture.Answer) bool { return strings.Contains(a.CacheStatus().Raw, want) })
	}
	w.proxy.reload(config("one.example two.example"))
	c := w.client(scripted.LatestLegacy)
	c.Header = http.Header{"Host": {"two.example"}}
	wantHit(t, c.Settle(toolsList), toolsList, "v1")
}
