package mcpcache

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstreamconfig"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

// What may change while a program goes on keeps its lists; of other upstreams everything counts.
func TestLimitsOfAProgramKeepItsLists(t *testing.T) {
	key := func(transport string) string {
		u := newUpstream(&Handler{ServerOptions: ServerOptions{UpstreamRaw: json.RawMessage(`{"handler":"reverse_proxy","transport":` + transport + `}`)}})
		var err error
		if u.settings, err = u.newSettings(); err != nil {
			t.Fatal(err)
		}
		key, err := u.key(upstreamconfig.Read(u.UpstreamRaw), nil).Of()
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	program := func(option string) string { return fmt.Sprintf(`{"protocol":"stdio","command":"npx"%s}`, option) }
	for _, option := range []string{"idle", "max", "memory", "start_timeout", "stop_grace"} {
		if key(program(`,"`+option+`":7`)) != key(program("")) {
			t.Errorf("another %s is another server", option)
		}
	}
	if key(program(`,"lazy":false`)) != key(program("")) {
		t.Error("lazy makes it another server")
	}
	for _, other := range []string{program(`,"args":["x"]`), program(`,"share":true`), program(`,"env":{"idle":"1"}`)} {
		if key(other) == key(program("")) {
			t.Errorf("%s is the same server", other)
		}
	}
	if key(`{"protocol":"http","max":1}`) == key(`{"protocol":"http"}`) {
		t.Error("an option of another transport does not count")
	}
}

// TestFeedIsNamedInPartition has callers told apart by their program: one that names none does not get what the
// server shows the feed, which names itself.
func TestFeedIsNamedInPartition(t *testing.T) {
	l := mustProvision(t, config("programs", "partition", `["{http.request.header.User-Agent}"]`))
	defer l.cancel()
	of := func(agent string) bool {
		r := requestOf(t, "tools/list")
		r.Header.Del("X-Client")
		if agent != "" {
			r.Header.Set("User-Agent", agent)
		}
		replacer := caddy.NewReplacer()
		caddyhttp.PrepareRequest(r, replacer, nil, new(caddyhttp.Server))
		return l.one.backend.Identity.Of(r, replacer).AsksLikeFeed()
	}
	if of("") || of("other/1") || !of(version.Agent()) {
		t.Errorf("without a name, with another and with the feed's, they ask like the feed: %t, %t, %t", of(""), of("other/1"), of(version.Agent()))
	}
}

// TestFeedHost gives the feed a Host of its own only if the clients' Hosts reach the server.
func TestFeedHost(t *testing.T) {
	const (
		address = "127.0.0.1:3001"
		passes  = `{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:3001"}]}`
	)
	for name, c := range map[string]struct{ upstream, want string }{
		"passed on":       {passes, address},
		"set":             {strings.TrimSuffix(passes, "}") + `,"headers":{"request":{"set":{"Host":["mcp.example.com"]}}}}`, ""},
		"another handler": {`{"handler":"mcp_cache_stand","name":"feedhost","upstreams":[{"dial":"127.0.0.1:3001"}]}`, address},
		"no address":      {`{"handler":"mcp_cache_stand","name":"feedhost"}`, "localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := mustProvision(t, config("feedhost", "upstream", c.upstream))
				got := l.one.feedHost
				l.cancel()
				if got != c.want {
					t.Errorf("the feed's Host is %q, want %q", got, c.want)
				}
				named, err := provision(t, config("feedhost", "upstream", c.upstream, "host", `"MCP.example.com:8443"`))
				switch {
				case c.want == "" && (err == nil || !strings.Contains(err.Error(), "host: ")):
					t.Errorf("an option that does nothing gives the error %v", err)
				case c.want != "" && err != nil:
					t.Error(err)
				case c.want != "" && named.one.feedHost != "mcp.example.com:8443":
					t.Errorf("the named Host became %q", named.one.feedHost)
				}
				if err == nil {
					named.cancel()
				}
			})
		})
	}
}

// Every request of the feed has the Host that the operator has named.
func TestFeedSendsItsHost(t *testing.T) {
	for host, want := range map[string]string{"null": "localhost", `"mcp.example.com"`: "mcp.example.com"} {
		synctest.Test(t, func(t *testing.T) {
			hosts := make(chan string, 100)
			stands.Store("hosts", stand(func(_ http.ResponseWriter, r *http.Request) error {
				select {
				case hosts <- r.Host:
				default:
				}
				return caddyhttp.Error(http.StatusBadGateway, nil)
			}))
			defer stands.Delete("hosts")
			l := mustProvision(t, config("hosts", "host", host))
			l.start()
			synctest.Wait()
			l.cancel()
			close(hosts)
			n := 0
			for got := range hosts {
				if n++; got != want {
					t.Errorf("the feed's Host is %q, want %q", got, want)
				}
			}
			if n < 2 {
				t.Errorf("the feeds sent %d requests", n)
			}
		})
	}
}

// TestServerAddresses hands the addresses of the server to its backend, which compares
// redirects with them.
func TestServerAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustProvision(t, config("addresses", "upstream", `{"handler":"reverse_proxy","upstreams":[{"dial":"10.0.0.5:3001"}]}`))
		defer l.cancel()
		if got, want := l.one.backend.Slash().Addresses, []string{"10.0.0.5:3001"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
