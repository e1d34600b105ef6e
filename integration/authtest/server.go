// Package authtest is an OAuth authorization server, and a resource that it protects, for tests
// over real sockets.
//
// The server knows the grants for client credentials and token exchange. It knows all ways of
// client authentication that the guards use, and both forms of discovery. It signs its tokens,
// counts requests, and misbehaves on demand: see [Server.Break] and [Server.EditMetadata].
package authtest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Paths of the server's endpoints.
const (
	TokenPath  = "/token"
	JWKSPath   = "/jwks"
	OAuthPath  = "/.well-known/oauth-authorization-server"
	OpenIDPath = "/.well-known/openid-configuration"
)

// Client is an account at the server. Each way of authentication that is set is
// accepted; one without any is public.
type Client struct {
	Secret string
	Key    any // public key of client assertions
	TLS    bool
}

// Request is a token request as the server saw it.
type Request struct {
	At     time.Time
	Form   url.Values
	Header http.Header
	Client string // empty: not authenticated
	Method string // of client authentication
}

// Server is an authorization server. Its methods may be called at any time. As
// a handler of another origin it says that it is there.
type Server struct {
	// URL is the issuer identifier, without a slash at its end.
	URL string
	// CAFile is a PEM file with the server's certificate, empty with http.
	CAFile string

	http *httptest.Server

	mu       sync.Mutex
	clients  map[string]Client
	subjects map[string]string // subject token to subject
	key      jose.JSONWebKey
	keys     []jose.JSONWebKey // public, those that are still trusted
	life     time.Duration
	expires  any // expires_in, overrides life
	edit     func(map[string]any)
	broken   map[string]http.Handler
	requests []Request
	hits     map[string]int
	tokens   map[string]Identity
	last     string
}

// New starts a server with http, which ends with the test.
func New(tb testing.TB) *Server {
	tb.Helper()
	return start(tb, (*httptest.Server).Start)
}

// NewTLS starts a server with https that asks for client certificates.
func NewTLS(tb testing.TB) *Server {
	tb.Helper()
	s := start(tb, func(h *httptest.Server) {
		h.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		h.StartTLS()
	})
	s.CAFile = filepath.Join(tb.TempDir(), "ca.pem")
	writePEM(tb, s.CAFile, "CERTIFICATE", s.http.Certificate().Raw)
	return s
}

func start(tb testing.TB, run func(*httptest.Server)) *Server {
	s := &Server{
		clients:  make(map[string]Client),
		subjects: make(map[string]string),
		broken:   make(map[string]http.Handler),
		hits:     make(map[string]int),
		tokens:   make(map[string]Identity),
		life:     time.Hour,
	}
	s.Rotate()
	s.http = httptest.NewUnstartedServer(s)
	s.http.Config.ErrorLog = quiet
	run(s.http)
	s.URL = s.http.URL
	tb.Cleanup(s.http.Close)
	return s
}

// TokenURL is the URL of the token endpoint.
func (s *Server) TokenURL() string { return s.URL + TokenPath }

// AddClient opens an account.
func (s *Server) AddClient(id string, client Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[id] = client
}

// AddSubject makes a subject token known for token exchange.
func (s *Server) AddSubject(subjectToken, subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subjects[subjectToken] = subject
}

// SetLife sets how long tokens live from now on. Default: an hour.
func (s *Server) SetLife(life time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life = life
}

// SetExpiresIn makes the server give this value of any JSON type as expires_in,
// whatever the life of the token; nil leaves it out.
func (s *Server) SetExpiresIn(value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value == nil {
		value = omitted{}
	}
	s.expires = value
}

type omitted struct{}

// Rotate makes the server sign with a new key. Old keys stay trusted.
func (s *Server) Rotate() {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: rand.Text(), Algorithm: string(jose.EdDSA), Use: "sig"}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
	s.keys = append(s.keys, key.Public())
}

// Distrust forgets all keys but the current one: tokens signed with them are
// refused from now on.
func (s *Server) Distrust() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = []jose.JSONWebKey{s.key.Public()}
}

// Revoke makes all tokens that were issued so far useless.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// EditMetadata changes the server's metadata before they are sent.
func (s *Server) EditMetadata(edit func(map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edit = edit
}

// Break answers requests to a path with another handler, such as [HTML], until
// [Server.Mend].
func (s *Server) Break(path string, with http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken[path] = with
}

// Mend ends what [Server.Break] began.
func (s *Server) Mend(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.broken, path)
}

// Requests returns the token requests that were not answered by a handler of
// [Server.Break].
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Hits tells how often a path was requested.
func (s *Server) Hits(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[path]
}

// LastToken returns the token that was issued last.
func (s *Server) LastToken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.hits[r.URL.Path]++
	broken, edit, keys := s.broken[r.URL.Path], s.edit, s.keys
	s.mu.Unlock()
	switch {
	case broken != nil:
		broken.ServeHTTP(w, r)
	case r.URL.Path == OAuthPath, r.URL.Path == OpenIDPath:
		base := baseOf(r)
		metadata := map[string]any{
			"issuer":         base,
			"token_endpoint": base + TokenPath,
			"jwks_uri":       base + JWKSPath,
		}
		if edit != nil {
			edit(metadata)
		}
		writeJSON(w, http.StatusOK, metadata)
	case r.URL.Path == JWKSPath:
		writeJSON(w, http.StatusOK, jose.JSONWebKeySet{Keys: keys})
	case r.URL.Path == TokenPath && r.Method == http.MethodPost:
		s.serveToken(w, r)
	default:
		http.NotFound(w, r)
	}
}

// baseOf returns the origin that a request was sent to.
func baseOf(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// ClientCertificate makes a client certificate, whose common name is a client's
// id, and returns the PEM files.
func ClientCertificate(tb testing.TB, id string) (certFile, keyFile string) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: id},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	certFile = filepath.Join(tb.TempDir(), "client.pem")
	keyFile = filepath.Join(tb.TempDir(), "client.key")
	writePEM(tb, certFile, "CERTIFICATE", cert)
	writePEM(tb, keyFile, "PRIVATE KEY", der)
	return certFile, keyFile
}

func writePEM(tb testing.TB, path, kind string, der []byte) {
	tb.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// writeError writes an error of RFC 6749 section 5.2.
func writeError(w http.ResponseWriter, status int, code, description string) {
	body := map[string]any{"error": code}
	if description != "" {
		body["error_description"] = description
	}
	writeJSON(w, status, body)
}
