package oauth

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/guardtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/outbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/tokensource"
)

// secretClient is the Caddyfile of a client with a secret.
const secretClient = " client_id feed\n client_secret " + guardtest.Planted + "\n"

// newSecretServer starts a server that knows the client of secretClient.
func newSecretServer(t *testing.T) *authtest.Server {
	server := authtest.New(t)
	server.AddClient("feed", authtest.Client{Secret: guardtest.Planted})
	return server
}

// Each way of client authentication, over a real socket.
func TestOAuth2ClientAuthentication(t *testing.T) {
	server := authtest.NewTLS(t)
	dir := t.TempDir()
	keyFile, secretFile := filepath.Join(dir, "key"), filepath.Join(dir, "secret")
	public := guardtest.WriteKey(t, keyFile)
	guardtest.WriteFile(t, secretFile, guardtest.Planted+"\n")
	odd := "a+b c%/:é"
	server.AddClient("feed", authtest.Client{Secret: guardtest.Planted})
	server.AddClient("od:d", authtest.Client{Secret: odd})
	server.AddClient("signer", authtest.Client{Key: public})
	server.AddClient("mutual", authtest.Client{TLS: true})
	certFile, certKey := authtest.ClientCertificate(t, "mutual")

	for name, test := range map[string]struct{ body, client, method string }{
		"basic":       {secretClient, "feed", "basic"},
		"escaped":     {" client_id od:d\n client_secret \"" + odd + "\"\n", "od:d", "basic"},
		"post":        {secretClient + " client_auth post\n", "feed", "post"},
		"secret file": {" client_id feed\n client_secret_file " + secretFile + "\n", "feed", "basic"},
		"key":         {" client_id signer\n key " + keyFile + "\n alg EdDSA\n", "signer", "private_key_jwt"},
		"audience":    {" client_id signer\n key " + keyFile + "\n assertion_audience " + server.URL + "\n", "signer", "private_key_jwt"},
		"mutual TLS":  {" client_id mutual\n tls_client_auth " + certFile + " " + certKey + "\n", "mutual", "tls"},
	} {
		t.Run(name, func(t *testing.T) {
			guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n"+test.body+
				" tls_trust_pool file "+server.CAFile+"\n resource https://r.example.com\n scope a b\n param extra more\n}")
			header, err := guardtest.Present(t, guard, "Authorization")
			if err != nil || header != "Bearer "+server.LastToken() {
				t.Fatalf("Authorization is %q, %v", header, err)
			}
			requests := server.Requests()
			last := requests[len(requests)-1]
			if last.Client != test.client || last.Method != test.method {
				t.Errorf("client %q by %s, want %q by %s", last.Client, last.Method, test.client, test.method)
			}
			for name, want := range map[string]string{
				"grant_type": "client_credentials", "resource": "https://r.example.com", "scope": "a b", "extra": "more",
			} {
				if got := last.Form.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

// An assertion is for the issuer that the operator has chosen, or else for the
// endpoint that gets it: nobody can use it elsewhere.
func TestOAuth2AssertionAudience(t *testing.T) {
	server := authtest.New(t)
	path := filepath.Join(t.TempDir(), "key")
	server.AddClient("signer", authtest.Client{Key: guardtest.WriteKey(t, path)})
	_, endpoint := protect(t, server)
	own := strings.TrimSuffix(endpoint, "/mcp")
	for options, want := range map[string]string{
		"issuer " + server.URL:                server.URL,
		"token_endpoint " + server.TokenURL(): server.TokenURL(),
		"":                                    own + authtest.TokenPath,
		"assertion_audience " + own:           own,
	} {
		guard := guardtest.MustProvision[OAuth2](t, "oauth2 {\n client_id signer\n key "+path+"\n resource "+endpoint+"\n"+options+"\n}")
		newFeed(t, guard, endpoint).wantServed(t)
		requests := server.Requests()
		parts := strings.Split(requests[len(requests)-1].Form.Get("client_assertion"), ".")
		claims, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil || !strings.Contains(string(claims), `"aud":"`+want+`"`) {
			t.Errorf("%q: %s, %v, want the audience %s", options, claims, err, want)
		}
	}
}

func TestOAuth2UntrustedServer(t *testing.T) {
	server := authtest.NewTLS(t)
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n"+secretClient+"}")
	if _, err := guardtest.Present(t, guard, "Authorization"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("unknown certificate authority: %v", err)
	}
	if len(server.Requests()) != 0 {
		t.Error("the secret went to an untrusted server")
	}
}

func TestOAuth2RotatedSecretFile(t *testing.T) {
	server := newSecretServer(t)
	path := filepath.Join(t.TempDir(), "secret")
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n client_id feed\n client_secret_file "+path+"\n}")
	if _, err := guardtest.Present(t, guard, "Authorization"); !errors.Is(err, guards.ErrUnauthorized) || !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("missing secret file: %v", err)
	}
	guardtest.WriteFile(t, path, "wrong")
	eventually(t, "the wrong secret is tried", func() bool {
		_, err := guardtest.Present(t, guard, "Authorization")
		return errors.As(err, new(*refusal))
	})
	guardtest.WriteFile(t, path, guardtest.Planted)
	eventually(t, "the right secret is tried", func() bool {
		_, err := guardtest.Present(t, guard, "Authorization")
		return err == nil
	})
}

// What a token endpoint can do wrong has a clear error, without secrets, and
// the guard recovers.
func TestOAuth2BadAnswers(t *testing.T) {
	other := authtest.New(t)
	good := `{"access_token":"abc","token_type":"Bearer","expires_in":60}`
	for name, test := range map[string]struct {
		with         http.Handler
		want         string
		unauthorized bool
	}{
		"HTML":            {authtest.HTML(), `answer is "text/html" and not JSON`, false},
		"down":            {authtest.Abort(), "EOF", false},
		"503":             {authtest.Status(503), "status 503", false},
		"404":             {authtest.Status(404), "status 404", false},
		"204":             {authtest.Status(204), "status 204", false},
		"half":            {authtest.JSON(200, good[:20]), "not valid JSON", false},
		"two":             {authtest.JSON(200, good+good), "not valid JSON", false},
		"number":          {authtest.JSON(200, `{"access_token":12345}`), "not valid JSON", false},
		"no token":        {authtest.JSON(200, `{"expires_in":60}`), "issued no token", true},
		"empty token":     {authtest.JSON(200, `{"access_token":""}`), "issued no token", true},
		"blank token":     {authtest.JSON(200, `{"access_token":" "}`), "token is empty", false},
		"line break":      {authtest.JSON(200, `{"access_token":"`+guardtest.Planted+`\n`+guardtest.Planted+`"}`), "cannot carry", false},
		"prefixed":        {authtest.JSON(200, `{"access_token":"Bearer `+guardtest.Planted+`"}`), "starts with the prefix", false},
		"DPoP":            {authtest.JSON(200, `{"access_token":"abc","token_type":"DPoP"}`), `token type "DPoP"`, true},
		"N_A":             {authtest.JSON(200, `{"access_token":"abc","token_type":"N_A"}`), `token type "N_A"`, true},
		"expired":         {authtest.JSON(200, `{"access_token":"abc","expires_in":0}`), "already expired", true},
		"negative":        {authtest.JSON(200, `{"access_token":"abc","expires_in":-5}`), "already expired", true},
		"life in words":   {authtest.JSON(200, `{"access_token":"abc","expires_in":"soon"}`), "expires_in is not a number", false},
		"life is NaN":     {authtest.JSON(200, `{"access_token":"abc","expires_in":"NaN"}`), "expires_in is not a number", false},
		"too large":       {authtest.Padded(good, outbound.MaxAnswer+1), "larger than", false},
		"other origin":    {authtest.Redirect(307, other.TokenURL()), "another origin", false},
		"POST to GET":     {authtest.Redirect(302, "/elsewhere"), "redirect is not followed", false},
		"loop":            {authtest.Redirect(308, authtest.TokenPath), "redirect is not followed", false},
		"refused":         {authtest.JSON(400, `{"error":"invalid_scope","error_description":"no such scope"}`), "refused with invalid_scope (no such scope)", true},
		"refused in 200":  {authtest.JSON(200, `{"error":"invalid_client"}`), "refused with invalid_client", true},
		"busy":            {authtest.JSON(400, `{"error":"slow_down"}`), "slow_down", false},
		"parrot":          {authtest.Parrot(), "refused with invalid_client (Basic [hidden]", true},
		"odd description": {authtest.JSON(400, `{"error":"x","error_description":"a\nb\u001b[1mé"}`), "(a?b?[1m?)", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := newSecretServer(t)
			server.Break(authtest.TokenPath, test.with)
			guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n"+secretClient+"}")
			var logs logbook
			logs.redirect(&guard.Client)
			_, err := guardtest.Present(t, guard, "Authorization")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			if test.unauthorized && !errors.Is(err, guards.ErrUnauthorized) {
				t.Errorf("%v is not ErrUnauthorized", err)
			}
			for _, text := range []string{err.Error(), logs.String()} {
				if strings.Contains(text, guardtest.Planted) || strings.Contains(text, "12345") {
					t.Errorf("a secret is shown: %s", text)
				}
			}
			if !strings.Contains(logs.String(), "cannot get a token") {
				t.Errorf("no warning: %s", logs.String())
			}
			server.Mend(authtest.TokenPath)
			askAgain(&guard.Client)
			if _, err := guardtest.Present(t, guard, "Authorization"); err != nil {
				t.Errorf("no recovery: %v", err)
			}
		})
	}
	if other.Hits(authtest.TokenPath) != 0 {
		t.Error("a redirect took the secret to another origin")
	}
}

func TestOAuth2GoodAnswers(t *testing.T) {
	for name, with := range map[string]http.Handler{
		"largest":        authtest.Padded(`{"access_token":"abc","token_type":"bearer"}`, outbound.MaxAnswer),
		"no type":        authtest.JSON(200, `{"access_token":"abc","expires_in":null}`),
		"life as string": authtest.JSON(200, `{"access_token":"abc","expires_in":"60"}`),
		"ten years":      authtest.JSON(200, `{"access_token":"abc","expires_in":315360000}`),
		"for ever":       authtest.JSON(200, `{"access_token":"abc","expires_in":1e300}`),
	} {
		t.Run(name, func(t *testing.T) {
			server := newSecretServer(t)
			server.Break(authtest.TokenPath, with)
			guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n"+secretClient+"}")
			guardtest.WantHeader(t, guard, "Authorization", "Bearer abc")
		})
	}
	t.Run("redirect within the origin", func(t *testing.T) {
		server := newSecretServer(t)
		guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.URL+"/old {\n"+secretClient+"}")
		server.Break("/old", authtest.Redirect(307, authtest.TokenPath))
		if _, err := guardtest.Present(t, guard, "Authorization"); err != nil {
			t.Error(err)
		}
	})
}

func TestOAuth2TimeLimit(t *testing.T) {
	server := newSecretServer(t)
	server.Break(authtest.TokenPath, authtest.Hang())
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n"+secretClient+" timeout 50ms\n}")
	if _, err := guardtest.Present(t, guard, "Authorization"); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hanging endpoint: %v", err)
	}
}

// 200 requests meet a 401 together: one token request.
func TestOAuth2OneRenewalForAll(t *testing.T) {
	server := newSecretServer(t)
	resource, endpoint := protect(t, server)
	resource.AnyAudience = true
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n"+secretClient+"}")
	feed := newFeed(t, guard, endpoint)
	feed.wantServed(t)
	server.Rotate()
	server.Distrust()

	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			if status, err := feed.try(t.Context()); err != nil || status != http.StatusOK {
				t.Errorf("request got %d, %v", status, err)
			}
		})
	}
	group.Wait()
	if n := len(server.Requests()); n != 2 {
		t.Errorf("%d token requests, want one before and one after the refusal", n)
	}
}

func TestOAuth2InsufficientScope(t *testing.T) {
	server := newSecretServer(t)
	resource, endpoint := protect(t, server)
	resource.AnyAudience, resource.Scope = true, "admin"
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n"+secretClient+" scope user\n}")
	feed := newFeed(t, guard, endpoint)
	for range 5 {
		if err := feed.wantFailure(t, "scope is insufficient"); !errors.Is(err, guards.ErrUnauthorized) {
			t.Error(err)
		}
	}
	if n := len(server.Requests()); n != 1 {
		t.Errorf("%d token requests for one missing scope", n)
	}
}

// Tokens that live a second, under load, over real sockets.
func TestOAuth2Renewal(t *testing.T) {
	server := newSecretServer(t)
	server.SetLife(2 * time.Second)
	resource, endpoint := protect(t, server)
	resource.AnyAudience = true
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n"+secretClient+"}")
	feed := newFeed(t, guard, endpoint)
	eventually(t, "three renewals", func() bool {
		feed.wantServed(t)
		return len(server.Requests()) > 3
	})
	if n := resource.Refused(); n != 0 {
		t.Errorf("%d requests were refused", n)
	}
	used := resource.Served()
	if used < 4 {
		t.Errorf("%d requests for four tokens", used)
	}
}

// A clock that differs is named as a possible reason.
func TestOAuth2ClockSkew(t *testing.T) {
	server := newSecretServer(t)
	server.Break(authtest.TokenPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(5*time.Minute).UTC().Format(http.TimeFormat))
		authtest.JSON(400, `{"error":"invalid_client"}`).ServeHTTP(w, r)
	}))
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n"+secretClient+"}")
	if _, err := guardtest.Present(t, guard, "Authorization"); err == nil || !strings.Contains(err.Error(), "the server's clock differs by 5m") && !strings.Contains(err.Error(), "differs by 4m59s") {
		t.Errorf("skewed clock: %v", err)
	}
}

func TestOAuth2BadKeys(t *testing.T) {
	server := newSecretServer(t)
	path := filepath.Join(t.TempDir(), "key")
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n client_id signer\n key "+path+"\n}")
	if _, err := guardtest.Present(t, guard, "Authorization"); !errors.Is(err, guards.ErrUnauthorized) || !strings.Contains(err.Error(), "reading key file") {
		t.Errorf("missing key: %v", err)
	}
	server.AddClient("signer", authtest.Client{Key: guardtest.WriteKey(t, path)})
	eventually(t, "the key is found", func() bool {
		_, err := guardtest.Present(t, guard, "Authorization")
		return err == nil
	})
}

func TestOAuth2Cleanup(t *testing.T) {
	if err := new(OAuth2).Cleanup(); err != nil {
		t.Error("never provisioned:", err)
	}
	server := newSecretServer(t)
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n"+secretClient+"}")
	wantHeaderSet := func() {
		t.Helper()
		if _, err := guardtest.Present(t, guard, "Authorization"); err != nil {
			t.Error(err)
		}
	}
	wantHeaderSet()
	for range 2 {
		if err := guard.Cleanup(); err != nil {
			t.Error(err)
		}
	}
	wantHeaderSet() // a request in flight
	if err := guard.Renew(t.Context(), "Bearer "+server.LastToken(), guards.Challenge{Status: 401}); !errors.Is(err, tokensource.ErrClosed) {
		t.Errorf("renewal after the end: %v", err)
	}
}

func TestOAuth2CleanupWhileWaiting(t *testing.T) {
	server := newSecretServer(t)
	server.Break(authtest.TokenPath, authtest.Hang())
	guard := guardtest.MustProvision[OAuth2](t, "oauth2 "+server.TokenURL()+" {\n"+secretClient+"}")
	failed := make(chan error)
	go func() {
		_, err := guardtest.Present(t, guard, "Authorization")
		failed <- err
	}()
	eventually(t, "the token request", func() bool { return server.Hits(authtest.TokenPath) == 1 })
	if err := guard.Cleanup(); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("waiting request: %v", err)
	}
}
