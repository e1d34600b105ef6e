package outbound

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
)

// A name that stood for the upstream may stand for this host when it is asked
// for metadata. (The resolver of the test knows localhost alone.)
func TestRebinding(t *testing.T) {
	secure := authtest.NewTLS(t)
	address := strings.TrimPrefix(secure.URL, "https://")
	for _, verified := range []bool{true, false} {
		ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
		defer cancel()
		client, err := New(ctx, &reverseproxy.TLSConfig{InsecureSkipVerify: !verified}, 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		limits := &Bounds{Own: &url.URL{Scheme: "https", Host: "mcp.example.com"}, Verified: client.Verifies()}
		_, limit, err := limits.Parse(t.Context(), "https://mcp.example.com/metadata")
		if err != nil || limits.Verified != verified {
			t.Fatal(err, limits.Verified)
		}
		for target, want := range map[string]error{
			address: ErrOutOfReach, "[::1]:443": ErrOutOfReach, "169.254.169.254:443": ErrOutOfReach, "203.0.113.7:443": nil,
			"10.0.0.1:443": map[bool]error{false: ErrOutOfReach}[verified],
		} {
			if err := client.control(limit)(t.Context(), "tcp", target, nil); err != want {
				t.Errorf("verified %v: connecting to %s: %v, want %v", verified, target, err, want)
			}
		}
		u := &url.URL{Scheme: "https", Host: address, Path: authtest.OAuthPath}
		if err := client.GetJSON(t.Context(), u, limit, new(map[string]any)); !errors.Is(err, ErrOutOfReach) {
			t.Errorf("asking what the name stands for now: %v", err)
		}
	}
	if secure.Hits(authtest.OAuthPath) != 0 {
		t.Error("this host was asked")
	}
}
