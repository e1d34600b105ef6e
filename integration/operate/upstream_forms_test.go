package operate

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// hostThere is the Host that clients, and with the option the feed, name where
// the upstream sees it.
const hostThere = "mcp.localhost"

// TestUpstreamForms reaches the upstream in every way that the directive can
// say it, for clients and for the feed alike.
func TestUpstreamForms(t *testing.T) {
	for name, body := range map[string]func(*fixture.Host) string{
		"url": func(h *fixture.Host) string { return "mcp_cache " + h.URL },
		"localhost": func(h *fixture.Host) string {
			return "mcp_cache " + strings.Replace(h.URL, "127.0.0.1", "localhost", 1)
		},
		"nested": func(h *fixture.Host) string {
			return "mcp_cache {\nhost " + hostThere + "\nreverse_proxy " + h.Addr + "\n}"
		},
		"with block": func(h *fixture.Host) string {
			return "mcp_cache {\nhost " + hostThere + "\nreverse_proxy {\nto " + h.Addr + "\nlb_policy first\nlb_retries 1\n}\n}"
		},
		"headers and transport": func(h *fixture.Host) string {
			return "mcp_cache {\nhost " + hostThere + "\nreverse_proxy " + h.Addr + " {\nheader_up X-Test {http.request.method}\nheader_down X-Down yes\n" +
				"transport http {\ndial_timeout 2s\n}\n}\n}"
		},
		"handle_response": func(h *fixture.Host) string {
			return "mcp_cache {\nhost " + hostThere + "\nreverse_proxy " + h.Addr + " {\n@gone status 410\nhandle_response @gone {\nrespond gone 404\n}\n}\n}"
		},
		"health checks": func(h *fixture.Host) string {
			return "mcp_cache {\nhost " + hostThere + "\nreverse_proxy " + h.Addr + " {\nhealth_uri /mcp\nhealth_status 4xx\nhealth_interval 1s\n}\n}"
		},
		"matcher":   func(h *fixture.Host) string { return "mcp_cache /mcp* " + h.URL },
		"in routes": func(h *fixture.Host) string { return "route {\nmcp_cache " + h.URL + "\n}" },
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.Host.Start()
			w.Proxy = caddytest.StartProxy(t, body(w.Host))
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				c := fixture.NewWith(t, w.Proxy.URL, revision, "", http.Header{"Host": {hostThere}})
				caddytest.WantHit(t, c.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
				if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.Part("result", "content") == nil {
					t.Errorf("a call gave %s", a)
				}
			})
			if name == "headers and transport" {
				for _, r := range w.Host.Requests(func(r *fixture.Request) bool { return r.Header.Get("X-Test") != r.HTTPMethod }) {
					t.Errorf("X-Test of a request (feed: %v) is %q", r.Feed, r.Header.Get("X-Test"))
				}
			}
		})
	}
}

// TestReplicas has two replicas of one server, of which one dies.
func TestReplicas(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	replica := fixture.NewHost(t, w.Server)
	w.Proxy = caddytest.StartProxy(t, "mcp_cache "+w.Host.URL+" "+replica.URL+" {\nreverse_proxy {\nlb_policy first\nlb_retries 1\nfail_duration 1m\n}\n}")
	c := w.Warm(scripted.Modern)
	caddytest.AwaitReady(t, "mcp_cache")
	one, other := w.Host.URL, replica.URL
	_, status := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/", nil)
	caddytest.WantSchema(t, status)
	if !strings.Contains(string(status), `"upstream":"`+one+`","upstreams":["`+one+`","`+other+`"]`) {
		t.Errorf("the status is %s", status)
	}
	if text, _ := caddytest.Command(t, 0, "status"); !strings.HasPrefix(text, "mcp_cache is ready, in front of "+one+", "+other+"\n") {
		t.Errorf("status is\n%s", text)
	}
	w.Host.Kill()
	// The first call may still be lost on a resting connection to the dead one.
	fixture.Await(t, "a call to the replica", func() bool {
		return c.Call("tools/call", c.Params(`"name":"item-0000"`)).Part("result", "content") != nil
	})
	w.Mark(scripted.ToolsList, "v2")
	fixture.Await(t, "the feed at the other replica", func() bool { return w.Streams(scripted.Feeds) > 0 })
	w.Changed(scripted.Feeds, scripted.ToolsList)
	c.AwaitList(scripted.ToolsList, "the changed list", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v2") })
}

// TestEndpoint serves an upstream at another path than the usual one; requests
// to other paths pass untouched.
func TestEndpoint(t *testing.T) {
	mux := http.NewServeMux()
	upstream := caddytest.NewUpstream(t)
	mux.Handle("/api/v1/mcp", upstream.Server)
	mux.HandleFunc("/other", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := fixture.NewHost(t, mux)
	for name, body := range map[string]string{
		"url":    "mcp_cache http://" + h.Addr + "/api/v1/mcp",
		"option": "mcp_cache {\nendpoint /api/v1/mcp\nreverse_proxy " + h.Addr + " {\nheader_up Host {upstream_hostport}\n}\n}",
	} {
		t.Run(name, func(t *testing.T) {
			p := caddytest.StartProxy(t, body)
			c := fixture.NewModern(t, "http://"+p.Addr+"/api/v1/mcp", "")
			caddytest.WantHit(t, c.Settle(scripted.ToolsList), scripted.ToolsList, "v1")
			other := fixture.NewModern(t, "http://"+p.Addr+"/other", "")
			if a := other.List(scripted.ToolsList); a.Status != http.StatusTeapot {
				t.Errorf("another path gave %s", a)
			}
		})
	}
}
