// Package guardtest has what the tests of several guards need: a guard read from
// a Caddyfile and provisioned, what it presents, and files with secrets.
package guardtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
)

// Planted is a secret that no error and no log may show.
const Planted = "s3cr3t-planted-value"

// Parse unmarshals a guard from its Caddyfile tokens.
func Parse[T any, P interface {
	*T
	caddyfile.Unmarshaler
}](input string) (P, error) {
	guard := P(new(T))
	return guard, guard.UnmarshalCaddyfile(caddyfile.NewTestDispenser(input))
}

// Provision provisions a guard as Caddy does, and cleans up after the test.
func Provision(t *testing.T, guard any) error {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	if c, ok := guard.(caddy.CleanerUpper); ok {
		t.Cleanup(func() {
			if err := c.Cleanup(); err != nil {
				t.Error("cleaning up:", err)
			}
		})
	}
	if err := guard.(caddy.Provisioner).Provision(ctx); err != nil {
		return err
	}
	if v, ok := guard.(caddy.Validator); ok {
		return v.Validate()
	}
	return nil
}

// MustProvision parses and provisions a guard.
func MustProvision[T any, P interface {
	*T
	caddyfile.Unmarshaler
}](t *testing.T, input string) P {
	t.Helper()
	guard, err := Parse[T, P](input)
	if err != nil {
		t.Fatal(err)
	}
	if err := Provision(t, guard); err != nil {
		t.Fatal(err)
	}
	return guard
}

// NewRequest returns a request of a feed.
func NewRequest(t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://mcp.example.com/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Present returns the value of a header that a guard sets.
func Present(t *testing.T, guard guards.Guard, header string) (string, error) {
	t.Helper()
	r := NewRequest(t)
	err := guard.Authorize(t.Context(), r)
	return r.Header.Get(header), err
}

// WantHeader fails the test unless a guard sets a header to that.
func WantHeader(t *testing.T, guard guards.Guard, header, want string) {
	t.Helper()
	if got, err := Present(t, guard, header); err != nil || got != want {
		t.Fatalf("%s is %q, %v; want %q", header, got, err, want)
	}
}

// WriteFile writes a file that nobody else can read.
func WriteFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// WriteKey writes a new Ed25519 key in PEM and returns its public half.
func WriteKey(t *testing.T, path string) ed25519.PublicKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	WriteFile(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return public
}
