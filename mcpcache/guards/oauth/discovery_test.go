package oauth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/guardtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/outbound"
)

// newDiscovering provisions a guard that learns from the upstream where to go.
func newDiscovering(t *testing.T, options string) *OAuth2 {
	t.Helper()
	return guardtest.MustProvision[OAuth2](t, "oauth2 {\n"+secretClient+options+"\n}")
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

			r := guardtest.NewRequest(t)
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
			guard := guardtest.MustProvision[OAuth2](t, "oauth2 {\n"+secretClient+"issuer "+server.URL+"\n}")
			if _, err := guardtest.Present(t, guard, "Authorization"); err != nil {
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
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 {\n"+secretClient+"issuer "+server.URL+"\n}")
	if _, err := guardtest.Present(t, guard, "Authorization"); err != nil {
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
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 {\n client_id mutual\n issuer "+server.URL+
		"\n tls_client_auth "+certFile+" "+keyFile+"\n tls_trust_pool file "+server.CAFile+"\n}")
	if _, err := guardtest.Present(t, guard, "Authorization"); err != nil {
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
			broken: map[string]http.Handler{authtest.OAuthPath: authtest.Padded("{}", outbound.MaxAnswer+1), authtest.OpenIDPath: authtest.Abort()},
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
			if test.unauthorized != errors.Is(err, guards.ErrUnauthorized) {
				t.Errorf("%v: ErrUnauthorized is %v", err, !test.unauthorized)
			}
			if server.Hits(authtest.TokenPath) != 0 {
				t.Error("the client's secret was sent")
			}
		})
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
		err := guard.Renew(t.Context(), "", guards.Challenge{Status: 401, WWWAuthenticate: []string{header}})
		if !errors.Is(err, errNowhere) || !errors.Is(err, guards.ErrUnauthorized) || !guard.server.ready() {
			t.Errorf("%q: %v", options, err)
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
	eventually(t, "the guard may renew its token again", func() bool {
		_, err := feed.try(t.Context())
		return err != nil && strings.Contains(err.Error(), "names another authorization server")
	})
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
	d.learn(guards.Challenge{Endpoint: endpoint, WWWAuthenticate: []string{`Bearer resource_metadata="https://m", scope="x"`}})
	d.learn(guards.Challenge{Endpoint: endpoint, WWWAuthenticate: []string{`Bearer error="invalid_token"`}})
	if want := (hint{true, endpoint, "https://m", "x"}); d.hint != want || !d.ready() {
		t.Errorf("hint is %v, want %v", d.hint, want)
	}
	d.found = new(authServer)
	d.learn(guards.Challenge{Endpoint: endpoint, WWWAuthenticate: []string{`Bearer scope="y"`}})
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
	askAgain(&guard.Client)
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
	client, err := outbound.New(newContext(t), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
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
