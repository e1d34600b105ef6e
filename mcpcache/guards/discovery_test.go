package guards

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
)

// newDiscovering provisions a guard that learns from the upstream where to go.
func newDiscovering(t *testing.T, options string) *OAuth2 {
	t.Helper()
	return mustProvision[OAuth2](t, "oauth2 {\n"+secretClient+options+"\n}")
}

func TestDiscoveryFromTheUpstream(t *testing.T) {
	server := newSecretServer(t)
	for name, set := range map[string]func(*authtest.Resource){
		"by the challenge":  func(*authtest.Resource) {},
		"at the well-known": func(r *authtest.Resource) { r.Silent = true },
		"at the root":       func(r *authtest.Resource) { r.Silent, r.Endpoint = true, "/" },
	} {
		t.Run(name, func(t *testing.T) {
			resource, endpoint := protect(t, server)
			set(resource)
			endpoint = strings.Replace(endpoint, "/mcp", resource.Endpoint, 1)
			guard := newDiscovering(t, "")
			feed := newFeed(t, guard, endpoint)

			r := newRequest(t)
			r.Header.Set("Authorization", "Bearer client")
			if err := guard.Authorize(t.Context(), r); err != nil || r.Header.Get("Authorization") != "" {
				t.Fatalf("before any refusal: %q, %v", r.Header.Get("Authorization"), err)
			}
			for range 3 {
				feed.wantServed(t)
			}
			if resource.Refused() != 1 || resource.MetadataRequests() != 1 {
				t.Errorf("%d refusals, %d requests for metadata, want 1 and 1", resource.Refused(), resource.MetadataRequests())
			}
			requests := server.Requests()
			form := requests[len(requests)-1].Form
			if form.Get("resource") != endpoint || form.Get("scope") != "mcp:list mcp:call" {
				t.Errorf("asked for resource %q, scope %q", form.Get("resource"), form.Get("scope"))
			}
		})
	}
}

func TestDiscoveryScope(t *testing.T) {
	for options, want := range map[string][2]string{
		"":                                 {"mcp:admin", "the endpoint"},
		"scope mine":                       {"mine", "the endpoint"},
		"scope mcp:admin x\n resource off": {"mcp:admin x", ""},
	} {
		server := newSecretServer(t)
		resource, endpoint := protect(t, server)
		resource.Scope, resource.AnyAudience = "mcp:admin", true
		status, err := newFeed(t, newDiscovering(t, options), endpoint).try(t.Context())
		if wrong := want[0] == "mine"; wrong != (status == http.StatusForbidden) || !wrong && err != nil {
			t.Errorf("%q: %d, %v", options, status, err)
		}
		form := server.Requests()[0].Form
		if want[1] != "" {
			want[1] = endpoint
		}
		if form.Get("scope") != want[0] || form.Get("resource") != want[1] {
			t.Errorf("%q: asked for scope %q, resource %q", options, form.Get("scope"), form.Get("resource"))
		}
	}
}

func TestDiscoveryFromTheIssuer(t *testing.T) {
	server := newSecretServer(t)
	for name, broken := range map[string][]string{
		"OAuth":  {authtest.OpenIDPath},
		"OpenID": {authtest.OAuthPath},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range broken {
				server.Break(path, authtest.HTML())
				defer server.Mend(path)
			}
			guard := mustProvision[OAuth2](t, "oauth2 {\n"+secretClient+"issuer "+server.URL+"\n}")
			if _, err := present(t, guard, "Authorization"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDiscoveryPrefersPostIfThatIsAll(t *testing.T) {
	server := newSecretServer(t)
	server.EditMetadata(func(m map[string]any) {
		m["token_endpoint_auth_methods_supported"] = []string{"private_key_jwt", "client_secret_post"}
	})
	guard := mustProvision[OAuth2](t, "oauth2 {\n"+secretClient+"issuer "+server.URL+"\n}")
	if _, err := present(t, guard, "Authorization"); err != nil {
		t.Fatal(err)
	}
	if method := server.Requests()[0].Method; method != "post" {
		t.Errorf("authenticated by %s", method)
	}
}

func TestDiscoveryUsesTheMutualTLSAlias(t *testing.T) {
	server := authtest.NewTLS(t)
	server.AddClient("mutual", authtest.Client{TLS: true})
	server.EditMetadata(func(m map[string]any) {
		m["token_endpoint"] = server.URL + "/plain"
		m["mtls_endpoint_aliases"] = map[string]any{"token_endpoint": server.TokenURL()}
	})
	certFile, keyFile := authtest.ClientCertificate(t, "mutual")
	guard := mustProvision[OAuth2](t, "oauth2 {\n client_id mutual\n issuer "+server.URL+
		"\n tls_client_auth "+certFile+" "+keyFile+"\n tls_trust_pool file "+server.CAFile+"\n}")
	if _, err := present(t, guard, "Authorization"); err != nil {
		t.Error(err)
	}
}

// Metadata that are wrong have a clear error, and no credential goes anywhere.
func TestDiscoveryBadMetadata(t *testing.T) {
	for name, test := range map[string]struct {
		resource     func(map[string]any)
		server       func(map[string]any)
		broken       map[string]http.Handler
		want         string
		unauthorized bool
	}{
		"other resource": {
			resource: func(m map[string]any) { m["resource"] = "https://evil.example.com/mcp" },
			want:     "protected resource metadata is for another resource", unauthorized: true,
		},
		"other path": {
			resource: func(m map[string]any) { m["resource"] = strings.TrimSuffix(m["resource"].(string), "p") },
			want:     "protected resource metadata is for another resource", unauthorized: true,
		},
		"no resource": {
			resource: func(m map[string]any) { delete(m, "resource") },
			want:     "protected resource metadata is for another resource", unauthorized: true,
		},
		"no server": {
			resource: func(m map[string]any) { delete(m, "authorization_servers") },
			want:     "names no authorization server", unauthorized: true,
		},
		"server over http": {
			resource: func(m map[string]any) { m["authorization_servers"] = []string{"http://as.example.com"} },
			want:     "is not https",
		},
		"huge scope": {
			resource: func(m map[string]any) { m["scopes_supported"] = []string{strings.Repeat("x", maxScope+1)} },
			want:     "scope of more than",
		},
		"other issuer": {
			server: func(m map[string]any) { m["issuer"] = "https://evil.example.com" },
			want:   "authorization server metadata is for another issuer", unauthorized: true,
		},
		"issuer with a slash": {
			server: func(m map[string]any) { m["issuer"] = m["issuer"].(string) + "/" },
			want:   "authorization server metadata is for another issuer", unauthorized: true,
		},
		"no token endpoint": {
			server: func(m map[string]any) { delete(m, "token_endpoint") },
			want:   "token endpoint in the authorization server metadata: not an absolute https URL",
		},
		"token endpoint of a neighbour": {
			server: func(m map[string]any) { m["token_endpoint"] = "http://127.0.0.1:1/token" },
			want:   "set issuer or token_endpoint in the guard", unauthorized: true,
		},
		"issuer of a neighbour": {
			resource: func(m map[string]any) { m["authorization_servers"] = []string{"http://localhost:1"} },
			want:     "set issuer or token_endpoint in the guard", unauthorized: true,
		},
		"link-local token endpoint": {
			server: func(m map[string]any) { m["token_endpoint"] = "https://169.254.169.254/token" },
			want:   "set issuer or token_endpoint in the guard", unauthorized: true,
		},
		"HTML": {
			broken: map[string]http.Handler{authtest.OAuthPath: authtest.HTML(), authtest.OpenIDPath: authtest.Status(404)},
			want:   "not JSON",
		},
		"gone": {
			broken: map[string]http.Handler{authtest.OAuthPath: authtest.Status(404), authtest.OpenIDPath: authtest.Status(404)},
			want:   "status 404",
		},
		"too large": {
			broken: map[string]http.Handler{authtest.OAuthPath: authtest.Padded("{}", maxDocument+1), authtest.OpenIDPath: authtest.Abort()},
			want:   "larger than",
		},
		"moved elsewhere": {
			broken: map[string]http.Handler{
				authtest.OAuthPath: authtest.Redirect(302, "https://evil.example.com/"), authtest.OpenIDPath: authtest.Abort(),
			},
			want: "another origin",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newSecretServer(t)
			server.EditMetadata(test.server)
			for path, with := range test.broken {
				server.Break(path, with)
			}
			resource, endpoint := protect(t, server)
			resource.EditMetadata(test.resource)
			guard := newDiscovering(t, "")
			err := newFeed(t, guard, endpoint).wantFailure(t, test.want)
			if test.unauthorized != errors.Is(err, ErrUnauthorized) {
				t.Errorf("%v: ErrUnauthorized is %v", err, !test.unauthorized)
			}
			if server.Hits(authtest.TokenPath) != 0 {
				t.Error("the client's secret was sent")
			}
		})
	}
}

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
			err := guard.Renew(t.Context(), "", Challenge{
				Status: 401, Endpoint: endpoint,
				WWWAuthenticate: []string{`Bearer resource_metadata="` + metadata + `"`},
			})
			if !errors.Is(err, errOutOfReach) || !strings.Contains(err.Error(), "set issuer or token_endpoint") {
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

// What the configuration does not tell, discovery cannot go by.
func TestDiscoveryOfAnUnknownUpstream(t *testing.T) {
	for options, header := range map[string]string{
		"":                                 `Bearer resource_metadata="https://203.0.113.7/metadata"`,
		"resource https://r.example.com\n": `Bearer scope="x"`,
	} {
		guard := newDiscovering(t, options)
		if guard.server.ready() {
			t.Error("ready before any refusal")
		}
		err := guard.Renew(t.Context(), "", Challenge{Status: 401, WWWAuthenticate: []string{header}})
		if !errors.Is(err, errNowhere) || !errors.Is(err, ErrUnauthorized) || !guard.server.ready() {
			t.Errorf("%q: %v", options, err)
		}
	}
}

// A name that stood for the upstream may stand for this host when it is asked
// for metadata. (The resolver of the test knows localhost alone.)
func TestDiscoveryAfterRebinding(t *testing.T) {
	secure := authtest.NewTLS(t)
	address := strings.TrimPrefix(secure.URL, "https://")
	for options, verified := range map[string]bool{"": true, "tls_insecure_skip_verify": false} {
		guard := newDiscovering(t, options+"\n timeout 2s")
		limits := &bounds{own: &url.URL{Scheme: "https", Host: "mcp.example.com"}, verified: guard.http.verifies()}
		_, limit, err := limits.parse(t.Context(), "https://mcp.example.com/metadata")
		if err != nil || limits.verified != verified {
			t.Fatal(err, limits.verified)
		}
		for target, want := range map[string]error{
			address: errOutOfReach, "[::1]:443": errOutOfReach, "169.254.169.254:443": errOutOfReach, "203.0.113.7:443": nil,
			"10.0.0.1:443": map[bool]error{false: errOutOfReach}[verified],
		} {
			if err := guard.http.control(limit)(t.Context(), "tcp", target, nil); err != want {
				t.Errorf("%q: connecting to %s: %v, want %v", options, target, err, want)
			}
		}
		u := &url.URL{Scheme: "https", Host: address, Path: authtest.OAuthPath}
		if err := guard.http.getJSON(t.Context(), u, limit, new(serverMetadata)); !errors.Is(err, errOutOfReach) {
			t.Errorf("asking what the name stands for now: %v", err)
		}
	}
	if secure.Hits(authtest.OAuthPath) != 0 {
		t.Error("this host was asked")
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
				err := guard.Renew(t.Context(), "", Challenge{
					Status: 401, Endpoint: own + "/mcp", WWWAuthenticate: []string{`Bearer resource_metadata="` + own + `/stop"`},
				})
				if !errors.Is(err, errListening) || !strings.Contains(err.Error(), "set issuer or token_endpoint") {
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
		guard := mustProvision[OAuth2](t, "oauth2 {\n"+secretClient+options+"\n}")
		guard.http.listens = func(netip.AddrPort) bool { return true }
		if _, err := present(t, guard, "Authorization"); err != nil {
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
			guard := newDiscovering(t, "")
			var logs logbook
			logs.redirect(&guard.OAuthClient)
			newFeed(t, guard, endpoint).wantServed(t)
			for _, secret := range []string{server.LastToken(), planted} {
				guard.source.mu.Lock()
				guard.source.renewAt = time.Time{}
				guard.source.mu.Unlock()
				guard.source.hurry()
				named := of + form(secret) + strings.Repeat("x", 1<<20)
				err := guard.Renew(t.Context(), "Bearer "+server.LastToken(), Challenge{
					Status: 401, Endpoint: endpoint, WWWAuthenticate: []string{`Bearer resource_metadata="` + named + `"`},
				})
				if err == nil || len(err.Error()) > 1000 {
					t.Fatalf("%s in %s: %.1000v", name, of, err)
				}
				for _, text := range []string{err.Error(), logs.String()} {
					for rest := strings.ToLower(form(secret)); len(rest) > 8; rest = rest[1:] {
						if strings.Contains(strings.ToLower(text), rest[:8]) {
							t.Fatalf("%s in %s: a part of a secret is shown: %s in %s", name, of, rest[:8], text)
						}
					}
				}
			}
			if n := len(logs.String()); n > 4000 {
				t.Errorf("%s in %s: the log has %d bytes", name, of, n)
			}
		}
	}
}

// Once a server has issued a token, the upstream cannot send the client's
// credentials to another.
func TestDiscoveryPinsTheServer(t *testing.T) {
	server, other := newSecretServer(t), newSecretServer(t)
	resource, endpoint := protect(t, server)
	own := strings.TrimSuffix(endpoint, "/mcp")
	guard := newDiscovering(t, "")
	feed := newFeed(t, guard, endpoint)
	feed.wantServed(t)

	resource.EditMetadata(func(m map[string]any) { m["authorization_servers"] = []string{other.URL, own} })
	server.Revoke()
	guard.server.forget()
	feed.wantServed(t)

	resource.EditMetadata(func(m map[string]any) { m["authorization_servers"] = []string{other.URL} })
	server.Revoke()
	guard.server.forget()
	guard.source.mu.Lock()
	guard.source.renewAt = guard.source.refused
	guard.source.mu.Unlock()
	feed.wantFailure(t, "names another authorization server")
	if other.Hits(authtest.TokenPath) != 0 {
		t.Error("the client's secret was sent to another server")
	}
}

// A later refusal that says less does not make the guard forget the way.
func TestDiscoveryKeepsWhatItKnows(t *testing.T) {
	d := new(discovery)
	if d.ready() {
		t.Error("ready before any refusal")
	}
	const endpoint = "https://a.example.com/mcp"
	d.learn(Challenge{Endpoint: endpoint, WWWAuthenticate: []string{`Bearer resource_metadata="https://m", scope="x"`}})
	d.learn(Challenge{Endpoint: endpoint, WWWAuthenticate: []string{`Bearer error="invalid_token"`}})
	if want := (hint{true, endpoint, "https://m", "x"}); d.hint != want || !d.ready() {
		t.Errorf("hint is %v, want %v", d.hint, want)
	}
	d.found = new(authServer)
	d.learn(Challenge{Endpoint: endpoint, WWWAuthenticate: []string{`Bearer scope="y"`}})
	if want := (hint{true, endpoint, "https://m", "y"}); d.hint != want || d.found != nil {
		t.Errorf("hint is %v, found %v", d.hint, d.found)
	}
}

// After a failure the metadata are read again: the endpoint may have moved.
func TestDiscoveryFollowsAMove(t *testing.T) {
	server := newSecretServer(t)
	server.EditMetadata(func(m map[string]any) { m["token_endpoint"] = m["issuer"].(string) + "/gone" })
	_, endpoint := protect(t, server)
	guard := newDiscovering(t, "")
	feed := newFeed(t, guard, endpoint)
	feed.wantFailure(t, "status 404")
	server.EditMetadata(nil)
	guard.source.hurry()
	feed.wantServed(t)
}

func TestDiscoveryResourceMatch(t *testing.T) {
	for _, test := range []struct {
		resource, endpoint string
		configured         []string
		want               bool
	}{
		{"https://a.example.com/mcp", "https://a.example.com/mcp", nil, true},
		{"https://a.example.com/mcp/", "https://a.example.com/mcp", nil, true},
		{"https://A.example.com:443/mcp", "https://a.example.com/mcp", nil, true},
		{"https://a.example.com", "https://a.example.com/mcp", nil, true},
		{"https://a.example.com/", "https://a.example.com/one/mcp?x=y", nil, true},
		{"https://a.example.com/one", "https://a.example.com/one/mcp", nil, true},
		{"https://a.example.com/on", "https://a.example.com/one/mcp", nil, false},
		{"https://a.example.com/mcp/more", "https://a.example.com/mcp", nil, false},
		{"http://a.example.com/mcp", "https://a.example.com/mcp", nil, false},
		{"https://a.example.com:444/mcp", "https://a.example.com/mcp", nil, false},
		{"https://b.example.com/mcp", "https://a.example.com/mcp", nil, false},
		{"https://a.example.com/mcp#x", "https://a.example.com/mcp", nil, false},
		{"https://a.example.com/mcp?x=y", "https://a.example.com/mcp", nil, false},
		{"", "https://a.example.com/mcp", nil, false},
		{"https://public.example.com/mcp", "http://10.0.0.5/mcp", []string{"https://public.example.com/mcp"}, true},
		{"http://10.0.0.5/mcp", "http://10.0.0.5/mcp", []string{"https://public.example.com/mcp"}, false},
	} {
		endpoint, err := url.Parse(test.endpoint)
		if err != nil {
			t.Fatal(err)
		}
		d := &discovery{resource: test.configured}
		if got := d.isUpstream(test.resource, endpoint); got != test.want {
			t.Errorf("%q for %q with %v: %v", test.resource, test.endpoint, test.configured, got)
		}
	}
}

func TestDiscoveryIssuerWithAPath(t *testing.T) {
	var asked []string
	base := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if r.URL.Path != "/tenant/.well-known/openid-configuration" {
			http.NotFound(w, r)
			return
		}
		authtest.JSON(200, `{"issuer":"`+base+`/tenant","token_endpoint":"`+base+`/t"}`).ServeHTTP(w, r)
	}))
	defer server.Close()
	base = server.URL
	client, err := newEndpointClient(newContext(t), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer client.close()
	d := &discovery{http: client, issuer: base + "/tenant"}
	found, err := d.locate(t.Context())
	if err != nil || found.token.String() != base+"/t" {
		t.Fatalf("found %v, %v", found, err)
	}
	want := "/.well-known/oauth-authorization-server/tenant /.well-known/openid-configuration/tenant /tenant/.well-known/openid-configuration"
	if got := strings.Join(asked, " "); got != want {
		t.Errorf("asked for %s", got)
	}
}
