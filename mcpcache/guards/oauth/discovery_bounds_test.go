package oauth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/guardtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/outbound"
)

// An upstream cannot make Caddy ask its neighbours, however they are written,
// and wherever it is itself.
func TestDiscoveryPrivateAddresses(t *testing.T) {
	plain, secure := newSecretServer(t), authtest.NewTLS(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(secure.URL, "https://"), ":")
	for _, endpoint := range []string{
		"https://203.0.113.7/mcp", "http://127.0.0.1:1/mcp", "http://localhost:1/mcp", "https://10.0.0.5/mcp", "https://localhost/mcp", "",
	} {
		for _, metadata := range []string{
			plain.URL + authtest.OAuthPath,
			secure.URL + authtest.OAuthPath,
			"https://localhost:" + port + authtest.OAuthPath,
			"https://[::ffff:127.0.0.1]:" + port + "/",
			"https://0.0.0.0:" + port + "/",
			"https://10.0.0.1/",
			"https://169.254.169.254/latest",
			"https://[fe80::1]/",
			"https://[64:ff9b::7f00:1]:" + port + "/",
		} {
			guard := newDiscovering(t, "timeout 2s\n tls_insecure_skip_verify\n resource https://r.example.com")
			err := guard.Renew(t.Context(), "", guards.Challenge{
				Status: 401, Endpoint: endpoint,
				WWWAuthenticate: []string{`Bearer resource_metadata="` + metadata + `"`},
			})
			if !errors.Is(err, outbound.ErrOutOfReach) || !strings.Contains(err.Error(), "set issuer or token_endpoint") {
				t.Errorf("%s, named by %s: %v", metadata, endpoint, err)
			}
		}
	}
	for _, server := range []*authtest.Server{plain, secure} {
		if server.Hits(authtest.OAuthPath) != 0 {
			t.Error("a private address was asked")
		}
	}
}

// Caddy's own listeners are for nobody to name, not even for an upstream that
// is one of them.
func TestDiscoveryOfOwnListeners(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "localhost:0", ":0", "[::]:0", "tcp4/0.0.0.0:0"} {
		t.Run(listen, func(t *testing.T) {
			address, err := caddy.ParseNetworkAddress(strings.Replace(listen, ":0", ":"+freePort(t), 1))
			if err != nil {
				t.Fatal(err)
			}
			listener, err := address.Listen(t.Context(), 0, net.ListenConfig{})
			if err != nil {
				t.Skip("no such listener here:", err)
			}
			asked := make(chan string, 10)
			server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path })}
			go server.Serve(listener.(net.Listener))
			defer server.Close()
			for _, host := range []string{"127.0.0.1", "localhost"} {
				own := "http://" + net.JoinHostPort(host, fmt.Sprint(address.StartPort))
				guard := newDiscovering(t, "")
				err := guard.Renew(t.Context(), "", guards.Challenge{
					Status: 401, Endpoint: own + "/mcp", WWWAuthenticate: []string{`Bearer resource_metadata="` + own + `/stop"`},
				})
				if !errors.Is(err, outbound.ErrListening) || !strings.Contains(err.Error(), "set issuer or token_endpoint") {
					t.Errorf("%s: %v", own, err)
				}
			}
			if len(asked) != 0 {
				t.Errorf("Caddy was asked for %s", <-asked)
			}
		})
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// What the operator wrote may be anywhere, also where Caddy listens.
func TestConfiguredEndpointsHaveNoBounds(t *testing.T) {
	server := newSecretServer(t)
	for _, options := range []string{"issuer " + server.URL, "token_endpoint " + server.TokenURL()} {
		guard := guardtest.MustProvision[OAuth2](t, "oauth2 {\n"+secretClient+options+"\n}")
		guard.http.Listens = func(netip.AddrPort) bool { return true }
		if _, err := guardtest.Present(t, guard, "Authorization"); err != nil {
			t.Errorf("%s: %v", options, err)
		}
	}
}

// A refusal may repeat a token, or be as long as it likes: the error does not
// and is not.
func TestDiscoveryHidesAndCutsWhatRefusalsName(t *testing.T) {
	server := newSecretServer(t)
	_, endpoint := protect(t, server)
	for name, form := range map[string]func(string) string{
		"raw":     func(token string) string { return token },
		"percent": func(token string) string { return fmt.Sprintf("%%%x", token[0]) + token[1:] },
		"base64":  func(token string) string { return base64.StdEncoding.EncodeToString([]byte(token)) },
	} {
		for _, of := range []string{"https://10.0.0.1/", "http://127.0.0.1:1/", "https://x.", "http://x."} {
			for _, which := range []string{"token", "client secret"} {
				guard := newDiscovering(t, "")
				var logs logbook
				logs.redirect(&guard.Client)
				newFeed(t, guard, endpoint).wantServed(t)
				secret := map[string]string{"token": server.LastToken(), "client secret": guardtest.Planted}[which]
				named := of + form(secret) + strings.Repeat("x", 1<<20)
				err := guard.Renew(t.Context(), "Bearer "+server.LastToken(), guards.Challenge{
					Status: 401, Endpoint: endpoint, WWWAuthenticate: []string{`Bearer resource_metadata="` + named + `"`},
				})
				if err == nil || len(err.Error()) > 1000 {
					t.Fatalf("%s in %s: %.1000v", name, of, err)
				}
				for _, text := range []string{err.Error(), logs.String()} {
					for rest := strings.ToLower(form(secret)); len(rest) > 8; rest = rest[1:] {
						if strings.Contains(strings.ToLower(text), rest[:8]) {
							t.Fatalf("%s in %s: a part of the %s is shown: %s in %s", name, of, which, rest[:8], text)
						}
					}
				}
				if n := len(logs.String()); n > 2000 {
					t.Errorf("%s in %s: the log has %d bytes", name, of, n)
				}
			}
		}
	}
}
