package signing

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/guardtest"
)

func jwkOf(t *testing.T, key any, kid string) string {
	t.Helper()
	encoded, err := json.Marshal(jose.JSONWebKey{Key: key, KeyID: kid})
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

func TestKeyFormats(t *testing.T) {
	keys := guardtest.Keys(t)
	sec1, err := x509.MarshalECPrivateKey(keys[jose.ES256].(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := x509.MarshalPKCS1PrivateKey(keys[jose.RS256].(*rsa.PrivateKey))
	type test struct {
		content, kid string
		loader       Loader
	}
	tests := map[jose.SignatureAlgorithm][]test{
		jose.RS256: {{content: guardtest.PEM("RSA PRIVATE KEY", pkcs1)}},
		jose.ES256: {{content: guardtest.PEM("EC PARAMETERS", []byte{6, 1}) + guardtest.PEM("EC PRIVATE KEY", sec1)}},
	}
	for alg, key := range keys {
		other := jwkOf(t, keys[jose.EdDSA].Public(), "public")
		set := `{"keys":[` + other + `,{"kty":"future"},` + jwkOf(t, key, "a") + `]}`
		two := `{"keys":[` + jwkOf(t, key, "a") + `,` + jwkOf(t, key, "b") + `]}`
		tests[alg] = append(tests[alg],
			test{content: "\n" + guardtest.PKCS8(t, key), loader: Loader{Alg: string(alg)}},
			test{content: guardtest.PKCS8(t, key), kid: "mine", loader: Loader{Kid: "mine"}},
			test{content: " " + jwkOf(t, key, "own"), kid: "own"},
			test{content: jwkOf(t, key, "own"), kid: "mine", loader: Loader{Kid: "mine"}},
			test{content: set, kid: "a"},
			test{content: two, kid: "b", loader: Loader{Kid: "b"}},
		)
	}
	for alg, list := range tests {
		for i, test := range list {
			test.loader.Typ = "JWT"
			key, err := test.loader.parse([]byte(test.content))
			if err != nil {
				t.Errorf("%s %d: %v", alg, i, err)
				continue
			}
			raw, err := key.Sign(map[string]any{"sub": "x"})
			if err != nil {
				t.Errorf("%s %d: %v", alg, i, err)
				continue
			}
			signed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{alg})
			if err != nil {
				t.Errorf("%s %d: %v", alg, i, err)
				continue
			}
			if payload, err := signed.Verify(keys[alg].Public()); err != nil || string(payload) != `{"sub":"x"}` {
				t.Errorf("%s %d: payload %s, %v", alg, i, payload, err)
			}
			header := signed.Signatures[0].Header
			if header.KeyID != test.kid || header.ExtraHeaders["typ"] != "JWT" {
				t.Errorf("%s %d: kid %q, header %v", alg, i, header.KeyID, header.ExtraHeaders)
			}
		}
	}
}

func TestKeyMistakes(t *testing.T) {
	keys := guardtest.Keys(t)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(keys[jose.ES256].Public())
	if err != nil {
		t.Fatal(err)
	}
	good := guardtest.PKCS8(t, keys[jose.EdDSA])
	for name, test := range map[string]struct {
		content, alg, kid, want string
	}{
		"text":           {content: guardtest.Planted, want: "neither PEM nor JWK"},
		"certificate":    {content: guardtest.PEM("CERTIFICATE", []byte(guardtest.Planted)), want: "does not hold a private key"},
		"public":         {content: guardtest.PEM("PUBLIC KEY", public), want: "is a public key"},
		"encrypted":      {content: guardtest.PEM("ENCRYPTED PRIVATE KEY", []byte(guardtest.Planted)), want: "is encrypted"},
		"old encryption": {content: "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n", want: "is encrypted"},
		"garbage":        {content: guardtest.PEM("PRIVATE KEY", []byte(guardtest.Planted)), want: "does not hold a private key"},
		"cut":            {content: good[:len(good)-40], want: "does not hold a private key"},
		"small RSA":      {content: guardtest.PKCS8(t, small), want: "has 1024 bits"},
		"P-384":          {content: guardtest.PKCS8(t, p384), want: "must be RSA, P-256 or Ed25519"},
		"other alg":      {content: good, alg: "RS256", want: "key is for EdDSA and not for RS256"},
		"public JWK":     {content: jwkOf(t, keys[jose.ES256].Public(), "a"), want: "is a public key"},
		"symmetric JWK":  {content: `{"kty":"oct","k":"` + guardtest.Planted + `"}`, want: "not a valid private JWK"},
		"bad JWK":        {content: `{"kty":"OKP","d":"` + guardtest.Planted + `"}`, want: "not a valid private JWK"},
		"bad JSON":       {content: `{"kty":"` + guardtest.Planted, want: "not a valid private JWK"},
		"empty set":      {content: `{"keys":[]}`, want: "holds no such private key"},
		"two keys":       {content: `{"keys":[` + jwkOf(t, keys[jose.EdDSA], "a") + `,` + jwkOf(t, keys[jose.ES256], "b") + `]}`, want: "set kid"},
		"other kid":      {content: `{"keys":[` + jwkOf(t, keys[jose.EdDSA], "a") + `]}`, kid: "b", want: "holds no such private key"},
	} {
		_, err := Loader{Alg: test.alg, Kid: test.kid, Typ: "JWT"}.parse([]byte(test.content))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), guardtest.Planted) {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
}

func FuzzKeyLoader(f *testing.F) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(guardtest.PEM("PRIVATE KEY", der)))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519"}]}`))
	f.Add([]byte(`{"kty":"EC","crv":"P-256","x":"","y":"","d":""}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		loaded, err := Loader{Typ: "JWT"}.parse(content)
		if err != nil {
			return
		}
		if _, err := loaded.Sign(nil); err != nil {
			t.Errorf("a key that loads cannot sign: %v", err)
		}
	})
}
