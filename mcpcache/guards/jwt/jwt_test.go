package jwt

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/guardtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/signing"
)

// claimsOf verifies a token and returns its claims.
func claimsOf(t *testing.T, header string, key any) map[string]any {
	t.Helper()
	raw, ok := strings.CutPrefix(header, "Bearer ")
	if !ok {
		t.Fatalf("header is %q", header)
	}
	signed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := signed.Verify(key)
	if err != nil {
		t.Fatal(err)
	}
	claims := make(map[string]any)
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestJWTCaddyfile(t *testing.T) {
	input := `jwt /run/key.pem {
		alg ES256
		kid one
		type at+jwt
		issuer https://me.example.com
		subject feed
		audience a b
		lifetime 90s
		claim role admin
		claim groups x y
		header X-Token
		prefix off
	}`
	want := `{"key":"/run/key.pem","alg":"ES256","kid":"one","type":"at+jwt","issuer":"https://me.example.com",` +
		`"subject":"feed","audience":["a","b"],"lifetime":90000000000,"claims":{"groups":["x","y"],"role":"admin"},` +
		`"header":"X-Token","prefix":""}`
	guard, err := guardtest.Parse[JWT](input)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(guard); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestJWTMistakes(t *testing.T) {
	for input, want := range map[string]string{
		"jwt":                                 "key is required",
		"jwt /a /b":                           "takes one argument",
		"jwt /a {\n key /b\n}":                "key already specified",
		"jwt /a {\n alg HS256\n}":             `unknown algorithm "HS256"`,
		"jwt /a {\n lifetime 4s\n}":           "is not between 5s",
		"jwt /a {\n lifetime 25h\n}":          "is not between 5s",
		"jwt /a {\n lifetime x\n}":            "want a duration",
		"jwt /a {\n claim exp 1\n}":           `claim: "exp" cannot be set here`,
		"jwt /a {\n claim x\n}":               "wrong argument count",
		"jwt /a {\n claim x 1\n claim x 2\n}": `claim "x" already specified`,
		"jwt /a {\n secret x\n}":              "unrecognized subdirective",
		"jwt /a {\n header Host\n}":           "cannot carry a credential",
	} {
		if _, err := guardtest.Parse[JWT](input); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", input, err, want)
		}
	}
	for name, guard := range map[string]*JWT{
		"key: path must be absolute":    {Key: "key.pem"},
		"claim x: a placeholder":        {Key: "/k", Claims: map[string]json.RawMessage{"x": []byte(`{"y":["{nope}"]}`)}},
		"claim x: not valid JSON":       {Key: "/k", Claims: map[string]json.RawMessage{"x": []byte(`{`)}},
		"subject: placeholder {env.NO}": {Key: "/k", Subject: "{env.NO}"},
	} {
		if err := guardtest.Provision(t, guard); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q", err, name)
		}
	}
}

func TestJWTSigns(t *testing.T) {
	t.Setenv("GUARD_TENANT", "blue")
	for alg, key := range guardtest.Keys(t) {
		path := filepath.Join(t.TempDir(), "key")
		guardtest.WriteFile(t, path, guardtest.PKCS8(t, key))
		guard := new(JWT)
		config := `{"key":"` + path + `","issuer":"me","subject":"feed","audience":["one"],
			"claims":{"tenant":"{env.GUARD_TENANT}","id":12345678901234567890,"admin":true,"in":["{env.GUARD_TENANT}"]}}`
		if err := json.Unmarshal([]byte(config), guard); err != nil {
			t.Fatal(err)
		}
		if err := guardtest.Provision(t, guard); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		header, err := guardtest.Present(t, guard, "Authorization")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(payloadOf(header), `"id":12345678901234567890`) {
			t.Errorf("%s: a large number was changed: %s", alg, payloadOf(header))
		}
		claims := claimsOf(t, header, key.Public())
		issuedAt, expires := int64(claims["iat"].(float64)), int64(claims["exp"].(float64))
		if issuedAt > before.Unix() || issuedAt < before.Add(-signing.Backdate).Unix() {
			t.Errorf("%s: iat is %d at %d", alg, issuedAt, before.Unix())
		}
		if life := time.Unix(expires, 0).Sub(before); life < defaultLifetime-2*time.Second || life > defaultLifetime+time.Minute {
			t.Errorf("%s: exp is in %v", alg, life)
		}
		for name, want := range map[string]any{"iss": "me", "sub": "feed", "aud": "one", "tenant": "blue", "admin": true} {
			if claims[name] != want {
				t.Errorf("%s: %s is %v, want %v", alg, name, claims[name], want)
			}
		}
		if fmt.Sprint(claims["in"]) != "[blue]" || claims["jti"] == "" {
			t.Errorf("%s: claims are %v", alg, claims)
		}
		if again, _ := guardtest.Present(t, guard, "Authorization"); again != header {
			t.Errorf("%s: signed twice", alg)
		}
	}
}

// payloadOf returns the JSON of a token.
func payloadOf(header string) string {
	_, raw, _ := strings.Cut(header, " ")
	signed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA})
	if err != nil {
		return err.Error()
	}
	return string(signed.UnsafePayloadWithoutVerification())
}

func TestJWTFollowsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "key")
		guard := guardtest.MustProvision[JWT](t, "jwt "+path+" {\n audience a b\n}")
		if _, err := guardtest.Present(t, guard, "Authorization"); !errors.Is(err, guards.ErrUnauthorized) || !strings.Contains(err.Error(), "reading key file") {
			t.Fatalf("missing key: %v", err)
		}
		first := guardtest.WriteKey(t, path)
		time.Sleep(time.Second) // until the file is looked at again
		header, err := guardtest.Present(t, guard, "Authorization")
		if err != nil {
			t.Fatal(err)
		}
		if aud := claimsOf(t, header, first)["aud"]; fmt.Sprint(aud) != "[a b]" {
			t.Errorf("aud is %v", aud)
		}

		second := guardtest.WriteKey(t, path)
		time.Sleep(time.Second) // until the file is looked at again
		header, err = guardtest.Present(t, guard, "Authorization")
		if err != nil {
			t.Fatal(err)
		}
		claimsOf(t, header, second)

		guardtest.WriteFile(t, path, guardtest.Planted)
		time.Sleep(time.Second) // until the file is looked at again
		if kept, err := guardtest.Present(t, guard, "Authorization"); err != nil || kept != header {
			t.Errorf("with a broken key file: %v", err)
		}
	})
}

func TestJWTRenew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	guardtest.WriteKey(t, path)
	guard := guardtest.MustProvision[JWT](t, "jwt "+path)
	header, err := guardtest.Present(t, guard, "Authorization")
	if err != nil {
		t.Fatal(err)
	}
	public := guardtest.WriteKey(t, path)
	if err := guard.Renew(t.Context(), header, guards.Challenge{Status: 401}); err != nil {
		t.Fatal(err)
	}
	renewed, err := guardtest.Present(t, guard, "Authorization")
	if err != nil || renewed == header {
		t.Fatalf("renewal changed nothing: %v", err)
	}
	claimsOf(t, renewed, public)
	if err := guard.Renew(t.Context(), renewed, guards.Challenge{Status: 401}); !errors.Is(err, guards.ErrUnauthorized) {
		t.Errorf("refused at once again: %v", err)
	}
	if err := guard.Renew(t.Context(), renewed, guards.Challenge{Status: 403}); !errors.Is(err, guards.ErrUnauthorized) {
		t.Errorf("forbidden: %v", err)
	}
}

func TestJWTIdentity(t *testing.T) {
	ids := make(map[string]bool)
	for _, input := range []string{"jwt /a", "jwt /b", "jwt /a {\n subject x\n}", "jwt /a {\n claim x y\n}", "jwt /a {\n audience x\n}"} {
		ids[guardtest.MustProvision[JWT](t, input).Identity()] = true
	}
	if len(ids) != 5 {
		t.Errorf("%d identities for 5 accounts", len(ids))
	}
	if guardtest.MustProvision[JWT](t, "jwt /a").Identity() != guardtest.MustProvision[JWT](t, "jwt /a {\n lifetime 1m\n}").Identity() {
		t.Error("the lifetime changes the identity")
	}
}

func TestCleanupBeforeProvision(t *testing.T) {
	if err := new(JWT).Cleanup(); err != nil {
		t.Error(err)
	}
}
