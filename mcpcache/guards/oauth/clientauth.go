package oauth

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/signing"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
)

// The ways in which a client proves itself at the token endpoint.
const (
	authBasic      = "basic"           // RFC 6749 section 2.3.1
	authPost       = "post"            // the same section
	authPrivateKey = "private_key_jwt" // RFC 7523 section 2.2
	authTLS        = "tls"             // RFC 8705 section 2
	authNone       = "none"            // a public client, or no client
)

var authMethods = []string{authBasic, authPost, authPrivateKey, authTLS, authNone}

const (
	// assertionLife is short because an assertion is used at once. Some
	// servers refuse more than a minute.
	assertionLife = time.Minute

	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// clientAuth proves the client's identity on a token request.
type clientAuth struct {
	method   string // empty: basic, or post if the server says that it takes nothing else
	id       string
	secret   func() (string, error)
	key      *secretfile.File[*signing.Key]
	version  func() uint64 // of the file with the secret or key, nil: there is none
	audience string        // of assertions, empty: as assertion says
}

// apply adds the client's credentials to a token request, and returns what of
// it must not be shown.
func (a *clientAuth) apply(form url.Values, header http.Header, server *authServer) (sensitive []string, err error) {
	switch method := a.choose(server); method {
	case authBasic, authPost:
		secret, err := a.secret()
		if err != nil {
			return nil, err
		}
		if method == authPost {
			form.Set("client_id", a.id)
			form.Set("client_secret", secret)
			return []string{secret}, nil
		}
		pair := url.QueryEscape(a.id) + ":" + url.QueryEscape(secret)
		encoded := base64.StdEncoding.EncodeToString([]byte(pair))
		header.Set("Authorization", "Basic "+encoded)
		return []string{secret, encoded}, nil
	case authPrivateKey:
		assertion, err := a.assertion(server)
		if err != nil {
			return nil, err
		}
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", assertion)
		form.Set("client_id", a.id)
		return []string{assertion}, nil
	}
	if a.id != "" {
		form.Set("client_id", a.id)
	}
	return nil, nil
}

// secrets are those that are the same for each request. One that cannot be read
// has not been shown to anybody.
func (a *clientAuth) secrets() []string {
	if a.secret == nil {
		return nil
	}
	secret, err := a.secret()
	if err != nil {
		return nil
	}
	return []string{secret}
}

// choose returns the configured method, or the one of the two secret methods
// that the server takes.
func (a *clientAuth) choose(server *authServer) string {
	if a.method != "" {
		return a.method
	}
	if slices.Contains(server.methods, "client_secret_post") && !slices.Contains(server.methods, "client_secret_basic") {
		return authPost
	}
	return authBasic
}

// assertion signs a JWT that says who the client is. Its audience is the issuer
// where the operator has chosen it, or else the endpoint that gets it: a server
// cannot use it at another server then.
func (a *clientAuth) assertion(server *authServer) (string, error) {
	key, err := a.key.Reload()
	if err != nil {
		return "", err
	}
	audience := a.audience
	switch {
	case audience != "":
	case server.issuer != "" && !server.named:
		audience = server.issuer
	default:
		audience = server.token.String()
	}
	now := time.Now()
	return key.Sign(map[string]any{
		"iss": a.id,
		"sub": a.id,
		"aud": audience,
		"jti": rand.Text(),
		"iat": now.Add(-signing.Backdate).Unix(),
		"exp": now.Add(assertionLife).Unix(),
	})
}

// clientSettings are the parts of the configuration that authenticate a client.
type clientSettings struct {
	method          string
	id              bool
	secrets         int // how many sources of the secret there are
	key             bool
	tls             bool // whether there is a client certificate
	required        bool // whether a client must authenticate
	keyOptionsGiven bool
}

// resolve returns the configured method, or the method that follows from the credentials. It returns an
// error if they do not fit together.
func (s clientSettings) resolve() (string, error) {
	if s.method != "" && !slices.Contains(authMethods, s.method) {
		return "", fmt.Errorf("client_auth: unknown method %q, want one of %v", s.method, authMethods)
	}
	method := s.method
	switch {
	case s.secrets > 1:
		return "", errors.New("client_secret and client_secret_file cannot be used together")
	case s.secrets == 1 && s.key:
		return "", errors.New("a client secret and a key cannot be used together")
	case s.keyOptionsGiven && !s.key:
		return "", errors.New("alg, kid and assertion_audience need a key")
	case method == "" && s.key:
		method = authPrivateKey
	case method == "" && s.secrets == 0 && s.tls:
		method = authTLS
	case method == "" && s.secrets == 0:
		method = authNone
	}
	usesSecret := method == "" || method == authBasic || method == authPost
	switch {
	case usesSecret != (s.secrets == 1):
		return "", errors.New("client_secret or client_secret_file is needed with client_auth basic and post, and with no other")
	case (method == authPrivateKey) != s.key:
		return "", errors.New("key is needed with client_auth private_key_jwt, and with no other")
	case method == authTLS && !s.tls:
		return "", errors.New("client_auth tls needs a client certificate (tls_client_auth)")
	case method == authNone && s.required:
		return "", errors.New("one of client_secret, client_secret_file, key and tls_client_auth is required")
	case !s.id && (method != authNone || s.required):
		return "", errors.New("client_id is required")
	}
	return method, nil
}

// clientSettings returns what the configuration says about authentication.
func (c *Client) clientSettings(g grant) clientSettings {
	s := clientSettings{
		method:          c.ClientAuth,
		id:              c.ClientID != "",
		key:             c.Key != "",
		tls:             c.TLS != nil && (c.TLS.ClientCertificateFile != "" || c.TLS.ClientCertificateAutomate != ""),
		required:        g.required,
		keyOptionsGiven: c.Alg != "" || c.Kid != "" || c.AssertionAudience != "",
	}
	for _, source := range []string{c.ClientSecret, c.ClientSecretFile} {
		if source != "" {
			s.secrets++
		}
	}
	return s
}

// newClientAuth makes the part that authenticates the client.
func newClientAuth(log *zap.Logger, g grant, s *Client) (*clientAuth, error) {
	method, err := s.clientSettings(g).resolve()
	if err != nil {
		return nil, err
	}
	auth := &clientAuth{method: method, id: s.ClientID, audience: s.AssertionAudience}
	switch {
	case s.ClientSecret != "":
		secret := strings.TrimSpace(s.ClientSecret)
		auth.secret = func() (string, error) { return secret, nil }
	case s.ClientSecretFile != "":
		file := &secretfile.File[string]{Path: s.ClientSecretFile, What: "client secret file", Parse: trimmed, Log: log}
		auth.secret, auth.version = file.Reload, file.Version
	case s.Key != "":
		auth.key = signing.NewFile(s.Key, signing.Loader{Alg: s.Alg, Kid: s.Kid, Typ: "JWT"}, log)
		auth.version = auth.key.Version
	}
	return auth, nil
}

func trimmed(content []byte) (string, error) { return strings.TrimSpace(string(content)), nil }
