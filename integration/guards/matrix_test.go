package guards

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// guardedSetup is a guard with all that it needs.
type guardedSetup struct {
	guard   string
	auth    *authtest.Server // of clients, and of the feed if it asks for tokens
	issuer  string           // what the server's metadata name
	verify  authtest.Verifier
	method  string   // of client authentication, "" if no token is asked for
	hidden  []string // lines of key files
	correct func(t *testing.T, s *guardedSite)
}

// guardedSetups are the guards in all the ways to get a token.
var guardedSetups = map[string]func(t *testing.T) guardedSetup{
	"bearer file":              setupBearer,
	"bearer placeholder":       setupPlaceholder,
	"oauth2 basic":             func(t *testing.T) guardedSetup { return setupSecret(t, "basic") },
	"oauth2 post":              func(t *testing.T) guardedSetup { return setupSecret(t, "post") },
	"oauth2 private_key_jwt":   setupPrivateKey,
	"oauth2 mutual TLS":        setupMutualTLS,
	"oauth2 issuer":            setupIssuer,
	"oauth2 discovery":         setupDiscovery,
	"exchange":                 setupExchange,
	"jwt":                      setupJWT,
	"bearer in another header": setupOtherHeader,
}

func newSetup(t *testing.T) guardedSetup {
	auth := authtest.New(t)
	return guardedSetup{auth: auth, issuer: auth.URL, verify: auth.Verify}
}

func setupBearer(t *testing.T) guardedSetup {
	s := newSetup(t)
	file := newTokenFile(t, s.auth.Issue(feedAccount, listScope))
	s.guard = block("bearer", "file "+file.path)
	s.correct = func(*testing.T, *guardedSite) { file.rotate(s.auth.Issue(feedAccount, listScope)) }
	return s
}

// setupPlaceholder has an opaque token in the environment.
func setupPlaceholder(t *testing.T) guardedSetup {
	s := newSetup(t)
	t.Setenv("MCP_CACHE_TEST_TOKEN", plantedToken)
	s.guard = "bearer {env.MCP_CACHE_TEST_TOKEN}"
	s.verify = func(raw string) (authtest.Identity, error) {
		if raw == plantedToken {
			return authtest.Identity{Subject: feedAccount, Scope: []string{listScope}, Expires: time.Now().Add(time.Hour)}, nil
		}
		return s.auth.Verify(raw)
	}
	return s
}

func setupOtherHeader(t *testing.T) guardedSetup {
	s := newSetup(t)
	s.guard = block("bearer "+s.auth.Issue(feedAccount, listScope), "header X-Api-Key", "prefix off")
	return s
}

func setupSecret(t *testing.T, method string) guardedSetup {
	s := newSetup(t)
	s.auth.AddClient(feedAccount, authtest.Client{Secret: plantedClient})
	s.guard, s.method = block("oauth2 "+s.auth.TokenURL(), "client_id "+feedAccount,
		"client_secret "+plantedClient, "client_auth "+method, "scope "+listScope), method
	return s
}

func setupPrivateKey(t *testing.T) guardedSetup {
	s := newSetup(t)
	path, public := newKeyFile(t)
	s.hidden = keyLines(t, path)
	s.auth.AddClient(feedAccount, authtest.Client{Key: public})
	s.guard, s.method = block("oauth2 "+s.auth.TokenURL(), "client_id "+feedAccount, "key "+path, "scope "+listScope), "private_key_jwt"
	return s
}

func setupMutualTLS(t *testing.T) guardedSetup {
	auth := authtest.NewTLS(t)
	auth.AddClient(feedAccount, authtest.Client{TLS: true})
	cert, key := authtest.ClientCertificate(t, feedAccount)
	return guardedSetup{
		auth: auth, issuer: auth.URL, verify: auth.Verify, method: "tls", hidden: keyLines(t, key),
		guard: block("oauth2", "issuer "+auth.URL, "client_id "+feedAccount, "scope "+listScope,
			"tls_client_auth "+cert+" "+key, "tls_trust_pool file "+auth.CAFile),
	}
}

func setupIssuer(t *testing.T) guardedSetup {
	s := setupSecret(t, "basic")
	s.guard = block("oauth2", "issuer "+s.auth.URL, "client_id "+feedAccount, "client_secret "+plantedClient, "scope "+listScope)
	return s
}

// setupDiscovery tells the guard neither server, nor scope, nor resource: the
// protected server's refusal leads to all of them.
func setupDiscovery(t *testing.T) guardedSetup {
	s := setupSecret(t, "basic")
	s.guard = block("oauth2", "client_id "+feedAccount, "client_secret "+plantedClient)
	s.correct = func(t *testing.T, site *guardedSite) {
		form := s.auth.Requests()[0].Form
		if form.Get("resource") != site.URL || form.Get("scope") != listScope {
			t.Errorf("the token was asked for with %v", form)
		}
	}
	return s
}

func setupExchange(t *testing.T) guardedSetup {
	s := newSetup(t)
	s.auth.AddSubject(plantedSubject, feedAccount)
	file := newTokenFile(t, plantedSubject)
	s.guard, s.method = block("exchange "+s.auth.TokenURL(), "subject_token_file "+file.path, "scope "+listScope), "none"
	return s
}

func setupJWT(t *testing.T) guardedSetup {
	s := newSetup(t)
	path, public := newKeyFile(t)
	s.hidden = keyLines(t, path)
	signed := authtest.Signed(public, "https://mcp.example.com")
	s.guard = block("jwt "+path, "subject "+feedAccount, "audience https://mcp.example.com", "claim scope "+listScope)
	s.verify = func(raw string) (authtest.Identity, error) {
		if id, err := signed(raw); err == nil {
			return id, nil
		}
		return s.auth.Verify(raw)
	}
	return s
}

// newKeyFile writes a private key of P-256.
func newKeyFile(t *testing.T) (path string, public any) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "key.pem")
	return path, writeKey(t, path)
}

// keyLines are the lines of a PEM file that must show up nowhere.
func keyLines(t *testing.T, path string) (lines []string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "-----") {
			lines = append(lines, line)
		}
	}
	return lines
}

func writeKey(t *testing.T, path string) (public any) {
	t.Helper()
	return writeKeyOf(t, path, elliptic.P256())
}

func writeKeyOf(t *testing.T, path string, curve elliptic.Curve) (public any) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	content := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return key.Public()
}

// TestGuards runs every guard in front of protected servers of both SDKs, with
// clients of both eras who have their own tokens: lists are hits, calls work,
// and each request comes in its sender's name.
func TestGuards(t *testing.T) {
	for sdk := range protectedServers {
		for name, setup := range guardedSetups {
			t.Run(sdk+"/"+name, func(t *testing.T) {
				s := setup(t)
				p := newProtected(t, sdk, s.issuer, s.verify, time.Hour)
				if name == "bearer in another header" {
					moveCredential(p)
				}
				site := startGuarded(t, p, s.auth, s.guard)
				caddytest.AwaitState(t, "ready")
				for _, revision := range caddytest.Revisions {
					c := site.client(revision)
					if a := c.Settle(scripted.ToolsList); !isWhole(a) {
						t.Errorf("the list is %s", a)
					}
					if a := c.Call("tools/call", c.Params(`"name":"tool-0"`)); a.Part("result", "content") == nil {
						t.Errorf("a call gave %s", a)
					}
				}
				stranger := fixture.NewModern(t, site.proxy.URL, "Bearer stranger")
				if a := stranger.List(scripted.ToolsList); a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") == "" {
					t.Errorf("a stranger got %s", a)
				}
				p.wantOwnAccounts(t)
				wantTokenRequests(t, s)
				if s.correct != nil {
					s.correct(t, site)
				}
			})
		}
	}
}

// wantTokenRequests fails unless the token was asked for once, as configured.
func wantTokenRequests(t *testing.T, s guardedSetup) {
	t.Helper()
	requests := s.auth.Requests()
	if s.method == "" {
		if len(requests) != 0 {
			t.Errorf("%d token requests", len(requests))
		}
		return
	}
	if len(requests) != 1 {
		t.Fatalf("%d token requests, want one", len(requests))
	}
	if r := requests[0]; r.Method != s.method {
		t.Errorf("the client proved itself by %q, want %q", r.Method, s.method)
	}
}

// moveCredential has a protected server take the feed's token from X-Api-Key.
func moveCredential(p *protected) {
	next := p.handler()
	p.setHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("X-Api-Key"); key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		next.ServeHTTP(w, r)
	}))
}
