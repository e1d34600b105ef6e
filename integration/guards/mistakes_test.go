package guards

import (
	"crypto/elliptic"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// mistake is something that is wrong with where a guard has its token from.
type mistake struct {
	// with makes the mistake and returns the guard and what mends it.
	with func(t *testing.T, m *mistaken) (guard string, mend func())
	// state and text are what the admin API shows, and the log.
	state, text string
}

// mistaken is what a mistake is made with: an authorization server with the
// feed's account, a key of that account's, and a folder.
type mistaken struct {
	auth *authtest.Server
	key  string // a good key file
	dir  string
}

func (m *mistaken) secret() string {
	return block("oauth2 "+m.auth.TokenURL(), "client_id "+feedAccount, "client_secret "+plantedClient, "scope "+listScope)
}

func (m *mistaken) discovering() string {
	return block("oauth2", "client_id "+feedAccount, "client_secret "+plantedClient)
}

// answering breaks the token endpoint.
func answering(with http.Handler) func(*testing.T, *mistaken) (string, func()) {
	return func(_ *testing.T, m *mistaken) (string, func()) {
		m.auth.Break(authtest.TokenPath, with)
		return m.secret(), func() { m.auth.Mend(authtest.TokenPath) }
	}
}

// describing has the authorization server's metadata say something else.
func describing(edit func(map[string]any)) func(*testing.T, *mistaken) (string, func()) {
	return func(_ *testing.T, m *mistaken) (string, func()) {
		m.auth.EditMetadata(edit)
		return m.discovering(), func() { m.auth.EditMetadata(nil) }
	}
}

// keyFile has a key file hold something else, or nothing be there.
func keyFile(content string) func(*testing.T, *mistaken) (string, func()) {
	return func(t *testing.T, m *mistaken) (string, func()) {
		path := filepath.Join(m.dir, "other.pem")
		if content != "" {
			put(t, path, content)
		}
		guard := block("oauth2 "+m.auth.TokenURL(), "client_id signer", "key "+path, "scope "+listScope)
		return guard, func() {
			good, err := os.ReadFile(m.key)
			if err != nil {
				t.Fatal(err)
			}
			put(t, path, string(good))
		}
	}
}

// tokenFileWith has a token file hold something else, or a folder be there.
func tokenFileWith(content string) func(*testing.T, *mistaken) (string, func()) {
	return func(t *testing.T, m *mistaken) (string, func()) {
		path := filepath.Join(m.dir, "token")
		if content == "" {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		} else {
			put(t, path, content)
		}
		return block("bearer", "file "+path), func() {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			put(t, path, m.auth.Issue(feedAccount, listScope))
		}
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	plantedClient  = "planted-client-secret-c41e"
	plantedToken   = "planted-token-0b7d"
	plantedSubject = "planted-subject-token-31d0"
	expiredAnswer  = `{"access_token":"` + plantedToken + `","token_type":"Bearer","expires_in":`
)

// skewed refuses the client and has a clock that is ahead.
var skewed = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat))
	authtest.JSON(http.StatusBadRequest, `{"error":"invalid_client"}`).ServeHTTP(w, r)
})

var mistakes = map[string]mistake{
	"missing key file":    {keyFile(""), "needs_authorization", "reading key file: stat"},
	"wrong PEM":           {keyFile("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "needs_authorization", "PEM block does not hold a private key"},
	"no PEM":              {keyFile("planted-key-9f20"), "needs_authorization", "neither PEM nor JWK"},
	"unknown algorithm":   {otherCurve, "needs_authorization", "key must be RSA, P-256 or Ed25519"},
	"unreadable file":     {tokenFileWith(""), "needs_authorization", "is not a regular file"},
	"empty token file":    {tokenFileWith("\n"), "needs_authorization", "is empty"},
	"two lines":           {tokenFileWith(plantedToken + "\n" + plantedToken), "needs_authorization", "header cannot carry"},
	"empty token":         {answering(authtest.JSON(200, `{"access_token":"","token_type":"Bearer"}`)), "needs_authorization", "token endpoint issued no token"},
	"expired at birth":    {answering(authtest.JSON(200, expiredAnswer+`-60}`)), "needs_authorization", "the new token has already expired"},
	"expires_in of 0":     {answering(authtest.JSON(200, expiredAnswer+`0}`)), "needs_authorization", "the new token has already expired"},
	"clock skew":          {answering(skewed), "needs_authorization", "the server's clock differs by "},
	"HTML":                {answering(authtest.HTML()), "down", `answer is "text/html" and not JSON`},
	"login wall":          {answering(authtest.Redirect(http.StatusFound, "https://login.example.com/")), "down", "redirect to another origin is not followed"},
	"refused client":      {answering(authtest.Parrot()), "needs_authorization", "token endpoint refused with invalid_client"},
	"other issuer":        {describing(func(m map[string]any) { m["issuer"] = "https://other.example.com" }), "needs_authorization", "metadata is for another issuer"},
	"address of a cloud":  {describing(func(m map[string]any) { m["token_endpoint"] = "https://169.254.169.254/token" }), "needs_authorization", "set issuer or token_endpoint in the guard"},
	"a neighbour":         {describing(func(m map[string]any) { m["token_endpoint"] = "http://127.0.0.1:1/token" }), "needs_authorization", "set issuer or token_endpoint in the guard"},
	"plain token address": {describing(func(m map[string]any) { m["token_endpoint"] = "http://as.example.com/token" }), "down", "is not https"},
}

// otherCurve writes a key for an algorithm that no guard has (ES384).
func otherCurve(t *testing.T, m *mistaken) (string, func()) {
	guard, mend := keyFile("")(t, m)
	writeKeyOf(t, filepath.Join(m.dir, "other.pem"), elliptic.P384())
	return guard, mend
}

// mendedInShort are mended in short runs, too: one of each kind.
var mendedInShort = []string{"missing key file", "empty token file", "HTML", "other issuer"}

// TestGuardMistakes makes every mistake on the way to a token: the state and
// the log say what is wrong, clients go on, and once it is mended all is well
// without a reload.
func TestGuardMistakes(t *testing.T) {
	for name, m := range mistakes {
		t.Run(name, func(t *testing.T) {
			auth := authtest.New(t)
			key, public := newKeyFile(t)
			auth.AddClient(feedAccount, authtest.Client{Secret: plantedClient})
			auth.AddClient("signer", authtest.Client{Key: public})
			p := newProtected(t, "go-sdk", auth.URL, auth.Verify, time.Hour)
			guard, mend := m.with(t, &mistaken{auth: auth, key: key, dir: t.TempDir()})
			site := startGuarded(t, p, auth, guard)
			caddytest.AwaitFailure(t, m.state, m.text)
			fixture.Await(t, "the log to say "+m.text, func() bool {
				return strings.Contains(strings.ReplaceAll(site.proxy.Log(), `\"`, `"`), m.text)
			})
			for _, revision := range caddytest.Revisions {
				if a := site.client(revision).List(scripted.ToolsList); !isWhole(a) {
					t.Errorf("a client's list gave %s", a)
				}
			}
			if caddytest.Long() || slices.Contains(mendedInShort, name) {
				mend()
				caddytest.AwaitStateFor(t, time.Minute, "ready")
			}
			wantNoSecrets(t, "the log", site.proxy.Log())
		})
	}
}

// TestTokenOfTenYears gets a token that claims a very long life: it is used,
// and the log says that it is not trusted for that long.
func TestTokenOfTenYears(t *testing.T) {
	s := setupSecret(t, "basic")
	s.auth.SetExpiresIn(10 * 365 * 24 * 3600)
	p := newProtected(t, "go-sdk", s.issuer, s.verify, time.Hour)
	site := startGuarded(t, p, s.auth, s.guard)
	caddytest.AwaitState(t, "ready")
	if !strings.Contains(site.proxy.Log(), "token claims a very long life, renewing it earlier") {
		t.Error("the log does not say so")
	}
}

// TestPublicUpstreamPointsInside has an upstream whose name is no local one,
// and which answers a 401 with metadata of this host: they are not asked.
func TestPublicUpstreamPointsInside(t *testing.T) {
	s := setupDiscovery(t)
	p := newProtected(t, "mcp-go", s.issuer, s.verify, time.Hour)
	resolver := fixture.NewResolver(t)
	_, port, err := net.SplitHostPort(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	site := caddytest.StartProxy(t, caddytest.Directive("http://mcp.invalid:"+port+"/mcp", "guard "+s.guard,
		"reverse_proxy {\nheader_up Host "+p.Addr+"\ntransport http {\nresolvers "+resolver.Addr+"\n}\n}"))
	const advice = "set issuer or token_endpoint in the guard"
	caddytest.AwaitFailure(t, "needs_authorization", advice)
	fixture.Await(t, "the log to say so", func() bool { return strings.Contains(site.Log(), advice) })
	asked := p.Requests(func(r *fixture.Request) bool { return strings.HasPrefix(r.URL, authtest.ResourcePath) })
	if len(asked) != 0 || s.auth.Hits(authtest.OAuthPath) != 0 || s.auth.Hits(authtest.TokenPath) != 0 {
		t.Error("a private address was asked")
	}
}

// TestUpstreamOutOfSight has an upstream whose address is not in the
// configuration. It counts as public, though the test has it on this host.
func TestUpstreamOutOfSight(t *testing.T) {
	s := setupDiscovery(t)
	p := newProtected(t, "go-sdk", s.issuer, s.verify, time.Hour)
	t.Setenv("MCP_CACHE_TEST_DIAL", p.Addr)
	for resource, want := range map[string]string{
		"": "the configuration does not tell where the upstream is", "resource " + p.URL: "no more than its own origin",
	} {
		t.Run(want, func(t *testing.T) {
			caddytest.StartProxy(t, caddytest.Directive("", "guard "+strings.TrimSuffix(s.guard, "}")+resource+"\n}",
				"reverse_proxy {env.MCP_CACHE_TEST_DIAL} {\nheader_up Host "+p.Addr+"\n}"))
			caddytest.AwaitFailure(t, "needs_authorization", want)
			caddytest.AwaitFailure(t, "needs_authorization", "set issuer or token_endpoint in the guard")
			asked := p.Requests(func(r *fixture.Request) bool { return strings.HasPrefix(r.URL, "/.well-known/") })
			if len(asked) != 0 || s.auth.Hits(authtest.TokenPath) != 0 {
				t.Error("a private address was asked")
			}
		})
	}
}
