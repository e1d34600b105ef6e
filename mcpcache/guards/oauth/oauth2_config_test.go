package oauth

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/guardtest"
)

func TestOAuth2Caddyfile(t *testing.T) {
	input := `oauth2 https://as.example.com/token {
		client_id feed
		client_secret {env.SECRET}
		client_auth post
		resource https://a.example.com https://b.example.com
		scope one two
		param audience x
		param tenant y
		header X-Token
		prefix off
		timeout 3s
		tls_client_auth /c.pem /k.pem
		tls_server_name as.internal
		tls_trust_pool file {
			pem_file /ca.pem
		}
		tls_timeout 2s
		tls_insecure_skip_verify
	}`
	want := `{"token_endpoint":"https://as.example.com/token","client_id":"feed","client_secret":"{env.SECRET}",` +
		`"client_auth":"post","resource":["https://a.example.com","https://b.example.com"],"scope":["one","two"],` +
		`"params":{"audience":"x","tenant":"y"},"header":"X-Token","prefix":"","timeout":3000000000,` +
		`"tls":{"ca":{"pem_files":["/ca.pem"],"provider":"file"},"client_certificate_file":"/c.pem",` +
		`"client_certificate_key_file":"/k.pem","insecure_skip_verify":true,"handshake_timeout":2000000000,"server_name":"as.internal"}}`
	guard, err := guardtest.Parse[OAuth2](input)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(guard); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, input := range []string{
		"oauth2 {\n client_id a\n client_secret b\n}",
		"oauth2 {\n issuer https://a\n client_id a\n client_secret_file /b\n client_auth basic\n}",
		"oauth2 {\n token_endpoint https://a\n client_id a\n key /k\n alg ES256\n kid k\n assertion_audience x\n}",
		"oauth2 {\n client_id a\n tls_client_auth name.example.com\n resource off\n}",
	} {
		if _, err := guardtest.Parse[OAuth2](input); err != nil {
			t.Errorf("%q: %v", input, err)
		}
	}
}

func TestOAuth2CaddyfileMistakes(t *testing.T) {
	for body, want := range map[string]string{
		"client_id a":     "one of client_secret",
		"client_secret b": "client_id is required",
		"client_id a\n client_secret b\n client_secret_file /c": "cannot be used together",
		"client_id a\n client_secret b\n key /k":                "cannot be used together",
		"client_id a\n client_secret b\n client_auth tls":       "needed with client_auth basic and post",
		"client_id a\n client_secret b\n client_auth bsaic":     `unknown method "bsaic"`,
		"client_id a\n client_secret b\n kid k":                 "need a key",
		"client_id a\n key /k\n client_auth post":               "client_secret or client_secret_file is needed",
		"client_id a\n key /k\n alg HS256":                      `unknown algorithm "HS256"`,
		"client_id a\n client_auth private_key_jwt":             "key is needed",
		"client_id a\n client_auth tls":                         "needs a client certificate",
		"client_id a\n client_auth none":                        "is required",
		secretClient + "issuer https://i":                       "cannot be used together",
		secretClient + "token_endpoint https://i":               "token_endpoint already specified",
		secretClient + "param scope x":                          `param: "scope" cannot be set here`,
		secretClient + "param a":                                "param takes a name and a value",
		secretClient + "param a 1\n param a 2":                  `param "a" already specified`,
		secretClient + "scope":                                  "scope takes one argument or more",
		secretClient + "scope a \"\"":                           "scope must not be empty",
		secretClient + "scope a\n scope b":                      "scope already specified",
		secretClient + "resource off https://a":                 "off stands alone",
		secretClient + "timeout 0s":                             "want a duration of more than 0",
		secretClient + "timeout soon":                           "want a duration of more than 0",
		secretClient + "tls_server_name":                        "wrong argument count",
		secretClient + "tls_server_name a b":                    "b",
		secretClient + "tls_except_ports 1":                     "unrecognized subdirective",
		secretClient + "tls_renegotiation often":                "wrong argument count",
		secretClient + "read_buffer 1":                          "unrecognized subdirective",
		secretClient + "subject_token x":                        "unrecognized subdirective",
	} {
		_, err := guardtest.Parse[OAuth2]("oauth2 https://as.example.com/token {\n" + body + "\n}")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", body, err, want)
		}
		if err != nil && strings.Contains(err.Error(), guardtest.Planted) {
			t.Errorf("%q: the error shows the secret: %v", body, err)
		}
	}
}

func TestOAuth2ProvisionMistakes(t *testing.T) {
	for body, want := range map[string]string{
		"token_endpoint http://as.example.com/token":            "token_endpoint: http://as.example.com:80 is not https",
		"token_endpoint https://u:" + guardtest.Planted + "@as": "token_endpoint: a URL with a user",
		"token_endpoint as.example.com":                         "token_endpoint: not an absolute https URL",
		"token_endpoint {env.GUARD_NOWHERE}":                    "token_endpoint: placeholder {env.GUARD_NOWHERE}",
		"issuer ftp://as.example.com":                           "issuer: not an absolute https URL",
		"issuer https://as#x":                                   "issuer: a URL with a fragment",
		"param x {env.GUARD_NOWHERE}":                           "param x: placeholder",
		"scope {nope}":                                          "scope: a placeholder",
		"tls_trust_pool file /nowhere/ca.pem":                   "tls:",
	} {
		guard, err := guardtest.Parse[OAuth2]("oauth2 {\n" + secretClient + body + "\n}")
		if err != nil {
			t.Errorf("%q: %v", body, err)
			continue
		}
		err = guardtest.Provision(t, guard)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), guardtest.Planted) {
			t.Errorf("%q: error %v, want %q", body, err, want)
		}
	}
	guard, err := guardtest.Parse[OAuth2]("oauth2 https://as {\n client_id a\n client_secret_file rel\n}")
	if err != nil {
		t.Fatal(err)
	}
	if err := guardtest.Provision(t, guard); err == nil || !strings.Contains(err.Error(), "client_secret_file: path must be absolute") {
		t.Errorf("relative path: %v", err)
	}
}

func TestOAuth2Identity(t *testing.T) {
	t.Setenv("GUARD_SECRET", guardtest.Planted)
	base := "oauth2 https://as.example.com/token {\n" + secretClient
	same := [][]string{
		{base + "}", base + " header authorization\n}", base + " timeout 3s\n}",
			"oauth2 {\n token_endpoint https://as.example.com/token\n client_id feed\n client_secret {env.GUARD_SECRET}\n}"},
		{base + " scope a\n}"},
		{base + " resource https://a\n}"},
		{base + " param a b\n}"},
		{base + " param a c\n}"},
		{base + " client_auth post\n}"},
		{"oauth2 https://as.example.com/token {\n client_id feed\n client_secret other\n}"},
		{"oauth2 https://as.example.com/token {\n client_id other\n client_secret " + guardtest.Planted + "\n}"},
		{"oauth2 {\n" + secretClient + "}"},
		{"oauth2 {\n" + secretClient + "issuer https://as.example.com\n}"},
	}
	seen := make(map[string]int)
	for i, inputs := range same {
		for _, input := range inputs {
			guard := guardtest.MustProvision[OAuth2](t, input)
			if first, ok := seen[guard.Identity()]; ok && first != i {
				t.Errorf("%q has the identity of another account", input)
			}
			seen[guard.Identity()] = i
			for _, text := range []string{guard.Identity(), fmt.Sprint(guard), fmt.Sprintf("%#v %+v", *guard, guard)} {
				if strings.Contains(text, guardtest.Planted) {
					t.Errorf("a secret is shown: %s", text)
				}
			}
		}
	}
	if len(seen) != len(same) {
		t.Errorf("%d identities for %d accounts", len(seen), len(same))
	}
}

// The operator is told of what any server could use that the upstream names.
func TestOAuth2Unbound(t *testing.T) {
	for options, want := range map[string]string{
		"client_secret x":               "client_secret",
		"client_secret_file /x":         "client_secret_file",
		"key /k\n assertion_audience x": "assertion_audience",
		"key /k":                        "",
		"tls_client_auth /c /k":         "",
	} {
		for server, decides := range map[string]bool{"": true, "issuer https://a": false, "token_endpoint https://a/t": false} {
			guard, err := guardtest.Parse[OAuth2]("oauth2 {\n client_id a\n" + options + "\n" + server + "\n}")
			if err != nil {
				t.Fatal(err)
			}
			ctx := newContext(t)
			core, logs := observer.New(zap.WarnLevel)
			if err := guard.assemble(ctx, zap.New(core), clientCredentials, &guard.Client); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, line := range logs.All() {
				got = append(got, fmt.Sprint(line.ContextMap()["option"]))
			}
			if text := strings.Join(got, " "); text != want && decides || text != "" && !decides {
				t.Errorf("%q with %q: warned of %q, want %q", options, server, text, want)
			}
			guard.Cleanup()
		}
	}
}
