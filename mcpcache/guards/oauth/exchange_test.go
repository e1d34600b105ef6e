package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/guardtest"
)

func TestExchangeCaddyfile(t *testing.T) {
	input := `exchange {
		issuer https://as.example.com
		subject_token {env.TOKEN}
		subject_token_type id_token
		actor_token_file /run/actor
		actor_token_type urn:example:actor
		requested_token_type access_token
		audience one two
		client_id feed
		scope x
	}`
	want := `{"issuer":"https://as.example.com","client_id":"feed","scope":["x"],"subject_token":"{env.TOKEN}",` +
		`"subject_token_type":"id_token","actor_token_file":"/run/actor","actor_token_type":"urn:example:actor",` +
		`"requested_token_type":"access_token","audience":["one","two"]}`
	guard, err := guardtest.Parse[Exchange](input)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(guard); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestExchangeMistakes(t *testing.T) {
	const subject = " subject_token " + guardtest.Planted + "\n"
	for body, want := range map[string]string{
		"issuer https://a": "one of subject_token",
		subject:            "one of token_endpoint and issuer",
		subject + "subject_token_file /b\n issuer https://a":               "one of subject_token",
		subject + "subject_token b":                                        "subject_token already specified",
		subject + "issuer https://a\n actor_token_type x":                  "needs an actor token",
		subject + "issuer https://a\n actor_token a\n actor_token_file /b": "cannot be used together",
		subject + "issuer https://a\n audience x\n param audience y":       "audience already specified",
		subject + "issuer https://a\n client_secret x":                     "client_id is required",
		subject + "issuer https://a\n param subject_token y":               "cannot be set here",
		subject + "isuer https://a":                                        "unrecognized subdirective",
	} {
		_, err := guardtest.Parse[Exchange]("exchange {\n" + body + "\n}")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), guardtest.Planted) {
			t.Errorf("%q: error %v, want %q", body, err, want)
		}
	}
	for body, want := range map[string]string{
		"subject_token {env.GUARD_NOWHERE}":              "subject_token: placeholder {env.GUARD_NOWHERE}",
		"subject_token \"" + guardtest.Planted + "\na\"": "subject_token: token holds characters",
		"subject_token_file rel":                         "subject_token_file: path must be absolute",
	} {
		guard, err := guardtest.Parse[Exchange]("exchange https://as {\n" + body + "\n}")
		if err != nil {
			t.Errorf("%q: %v", body, err)
			continue
		}
		if err := guardtest.Provision(t, guard); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), guardtest.Planted) {
			t.Errorf("%q: error %v, want %q", body, err, want)
		}
	}
}

func TestExchange(t *testing.T) {
	t.Setenv("GUARD_SUBJECT", guardtest.Planted)
	server := authtest.New(t)
	server.AddSubject(guardtest.Planted, "workload")
	server.AddClient("feed", authtest.Client{Secret: "client-secret"})
	resource, endpoint := protect(t, server)
	guard := guardtest.MustProvision[Exchange](t, "exchange "+server.TokenURL()+` {
		subject_token {env.GUARD_SUBJECT}
		actor_token actor-token
		requested_token_type access_token
		audience one two
		resource `+endpoint+`
		client_id feed
		client_secret client-secret
	}`)
	newFeed(t, guard, endpoint).wantServed(t)
	if resource.Refused() != 0 {
		t.Error("the exchanged token was refused")
	}
	request := server.Requests()[0]
	if request.Method != "basic" || request.Client != "feed" {
		t.Errorf("client %q by %s", request.Client, request.Method)
	}
	for name, want := range map[string]string{
		"grant_type":           "[urn:ietf:params:oauth:grant-type:token-exchange]",
		"subject_token":        "[" + guardtest.Planted + "]",
		"subject_token_type":   "[urn:ietf:params:oauth:token-type:jwt]",
		"actor_token":          "[actor-token]",
		"actor_token_type":     "[urn:ietf:params:oauth:token-type:jwt]",
		"requested_token_type": "[urn:ietf:params:oauth:token-type:access_token]",
		"audience":             "[one two]",
		"resource":             "[" + endpoint + "]",
	} {
		if got := fmt.Sprint(request.Form[name]); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestExchangeFollowsItsFile(t *testing.T) {
	server := authtest.New(t)
	server.AddSubject("second", "workload")
	server.AddSubject("third", "workload")
	path := filepath.Join(t.TempDir(), "subject")
	guard := guardtest.MustProvision[Exchange](t, "exchange "+server.TokenURL()+" {\n subject_token_file "+path+"\n}")
	if _, err := guardtest.Present(t, guard, "Authorization"); !errors.Is(err, guards.ErrUnauthorized) || !strings.Contains(err.Error(), "reading subject token file") {
		t.Fatalf("missing file: %v", err)
	}
	guardtest.WriteFile(t, path, guardtest.Planted)
	var refused error
	eventually(t, "the first token is refused", func() bool {
		_, refused = guardtest.Present(t, guard, "Authorization")
		return errors.As(refused, new(*refusal))
	})
	if strings.Contains(refused.Error(), guardtest.Planted) {
		t.Errorf("the error shows the token: %v", refused)
	}
	guardtest.WriteFile(t, path, "second\n")
	eventually(t, "the second token is exchanged", func() bool {
		_, err := guardtest.Present(t, guard, "Authorization")
		return err == nil
	})
	guardtest.WriteFile(t, path, "third\n")
	if err := guard.Renew(t.Context(), "Bearer "+server.LastToken(), guards.Challenge{Status: 401}); err != nil {
		t.Fatal(err)
	}
	requests := server.Requests()
	if last := requests[len(requests)-1].Form.Get("subject_token"); last != "third" {
		t.Errorf("renewed with %q", last)
	}
}

// Nothing secret gets into errors or logs at any level, whatever the server
// says.
func TestExchangeShowsNoSecret(t *testing.T) {
	server := authtest.New(t)
	server.Break(authtest.TokenPath, authtest.Parrot())
	dir := t.TempDir()
	guardtest.WriteKey(t, filepath.Join(dir, "key"))
	for _, auth := range []string{"client_secret client-secret", "client_secret client-secret\n client_auth post", "key " + filepath.Join(dir, "key")} {
		guard := guardtest.MustProvision[Exchange](t, "exchange "+server.TokenURL()+" {\n subject_token "+guardtest.Planted+
			"\n actor_token actor-"+guardtest.Planted+"\n param password param-secret\n client_id feed\n "+auth+"\n}")
		var logs logbook
		logs.redirect(&guard.Client)
		_, err := guardtest.Present(t, guard, "Authorization")
		if err == nil {
			t.Fatal("the parrot gave a token")
		}
		shown := fmt.Sprint(err, logs.String(), guard, guard.Identity(), fmt.Sprintf("%#v %+v", *guard, guard.Client))
		for _, secret := range []string{guardtest.Planted, "client-secret", "param-secret", "eyJ"} {
			if strings.Contains(shown, secret) {
				t.Errorf("%s: %q is shown: %s", auth, secret, shown)
			}
		}
	}
}

func TestExchangeOtherTokenTypes(t *testing.T) {
	server := authtest.New(t)
	server.Break(authtest.TokenPath, authtest.JSON(http.StatusOK, `{"access_token":"abc","token_type":"N_A","expires_in":60}`))
	guard := guardtest.MustProvision[Exchange](t, "exchange "+server.TokenURL()+" {\n subject_token x\n}")
	guardtest.WantHeader(t, guard, "Authorization", "Bearer abc")
}
