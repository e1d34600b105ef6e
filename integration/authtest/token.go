package authtest

import (
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Identity is whom a token stands for, and what for.
type Identity struct {
	Subject  string
	Scope    []string
	Audience []string
	Expires  time.Time
}

// Verifier checks a token as the server of a resource does. Its error is or
// wraps [ErrExpired] or [ErrInvalid].
type Verifier func(raw string) (Identity, error)

var (
	// ErrExpired is the error of [Server.Verify] for a token after its end.
	ErrExpired = errors.New("token has expired")
	// ErrInvalid is that for a token that the server has not issued, or has
	// revoked, or that is signed with a key that is not trusted any more.
	ErrInvalid = errors.New("token is invalid")
)

const (
	exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// serveToken answers a token request.
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request", "no form")
		return
	}
	id, method, ok := s.authenticate(r)
	seen := Request{At: time.Now(), Form: maps.Clone(r.PostForm), Header: r.Header.Clone(), Method: method}
	if ok {
		seen.Client = id
	}
	s.mu.Lock()
	s.requests = append(s.requests, seen)
	s.mu.Unlock()
	if !ok {
		writeError(w, http.StatusUnauthorized, "invalid_client", "client authentication failed")
		return
	}
	answer := make(map[string]any)
	switch grant := r.PostForm.Get("grant_type"); grant {
	case "client_credentials":
		if id == "" {
			writeError(w, http.StatusUnauthorized, "invalid_client", "")
			return
		}
	case exchangeGrant:
		s.mu.Lock()
		subject, known := s.subjects[r.PostForm.Get("subject_token")]
		s.mu.Unlock()
		if !known || r.PostForm.Get("subject_token_type") == "" {
			writeError(w, http.StatusBadRequest, "invalid_grant", "unknown subject token")
			return
		}
		id = subject
		answer["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
	default:
		writeError(w, http.StatusBadRequest, "unsupported_grant_type", grant)
		return
	}
	answer["access_token"] = s.Issue(id, r.PostForm.Get("scope"), slices.Concat(r.PostForm["resource"], r.PostForm["audience"])...)
	answer["token_type"] = "Bearer"
	if expires := s.expiresIn(); expires != (omitted{}) {
		answer["expires_in"] = expires
	}
	writeJSON(w, http.StatusOK, answer)
}

// expiresIn is what answers say of the life of a token.
func (s *Server) expiresIn() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expires != nil {
		return s.expires
	}
	return s.life.Seconds()
}

// Issue returns a new token, as one that a client has got before by another
// grant.
func (s *Server) Issue(subject, scope string, audience ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: s.key},
		new(jose.SignerOptions).WithType("at+jwt"))
	if err != nil {
		panic(err)
	}
	id := rand.Text()
	claims := map[string]any{
		"iss": s.URL, "sub": subject, "scope": scope,
		"jti": id, "iat": now.Unix(), "exp": now.Add(s.life).Unix() + 1,
	}
	if len(audience) > 0 {
		claims["aud"] = audience
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	// The exact end is kept here, as the claim has whole seconds only.
	s.tokens[id] = Identity{
		Subject: subject, Scope: strings.Fields(scope), Audience: audience, Expires: now.Add(s.life),
	}
	s.last = raw
	return raw
}

// Verify checks a token that the server has issued.
func (s *Server) Verify(raw string) (Identity, error) {
	parsed, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return Identity{}, ErrInvalid
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var claims jwt.Claims
	if err := parsed.Claims(jose.JSONWebKeySet{Keys: s.keys}, &claims); err != nil {
		return Identity{}, ErrInvalid
	}
	known, ok := s.tokens[claims.ID]
	if !ok {
		return Identity{}, ErrInvalid
	}
	if !time.Now().Before(known.Expires) {
		return known, ErrExpired
	}
	return known, nil
}

// authenticate finds out which client asks and how it proves that.
func (s *Server) authenticate(r *http.Request) (id, method string, ok bool) {
	if user, password, found := r.BasicAuth(); found {
		id, err1 := url.QueryUnescape(user)
		secret, err2 := url.QueryUnescape(password)
		client := s.client(id)
		return id, "basic", err1 == nil && err2 == nil && client.Secret != "" && client.Secret == secret
	}
	id = r.PostForm.Get("client_id")
	client := s.client(id)
	if secret := r.PostForm.Get("client_secret"); secret != "" {
		return id, "post", client.Secret == secret
	}
	if assertion := r.PostForm.Get("client_assertion"); assertion != "" {
		ok := r.PostForm.Get("client_assertion_type") == assertionType && s.checkAssertion(assertion, baseOf(r), id, client.Key)
		return id, "private_key_jwt", ok
	}
	if client.TLS {
		return id, "tls", r.TLS != nil && len(r.TLS.PeerCertificates) > 0 &&
			r.TLS.PeerCertificates[0].Subject.CommonName == id
	}
	return id, "none", client.Secret == "" && client.Key == nil
}

func (s *Server) client(id string) Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[id]
}

// Signed returns a verifier of tokens that their bearer has signed itself, for
// an audience, with the private key of the public key.
func Signed(public any, audience string) Verifier {
	algorithms := []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}
	return func(raw string) (Identity, error) {
		parsed, err := jwt.ParseSigned(raw, algorithms)
		if err != nil {
			return Identity{}, ErrInvalid
		}
		var claims jwt.Claims
		var more struct {
			Scope string `json:"scope"`
		}
		if err := parsed.Claims(public, &claims, &more); err != nil || claims.Expiry == nil || !claims.Audience.Contains(audience) {
			return Identity{}, ErrInvalid
		}
		id := Identity{
			Subject: claims.Subject, Scope: strings.Fields(more.Scope),
			Audience: claims.Audience, Expires: claims.Expiry.Time(),
		}
		if !time.Now().Before(id.Expires) {
			return id, ErrExpired
		}
		return id, nil
	}
}

// checkAssertion verifies a client assertion (RFC 7523 section 3).
func (s *Server) checkAssertion(raw, base, id string, key any) bool {
	parsed, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA})
	if err != nil || key == nil {
		return false
	}
	var claims jwt.Claims
	if err := parsed.Claims(key, &claims); err != nil || claims.ID == "" || claims.Expiry == nil {
		return false
	}
	for _, audience := range []string{base, base + TokenPath} {
		expected := jwt.Expected{Issuer: id, Subject: id, AnyAudience: jwt.Audience{audience}, Time: time.Now()}
		if claims.ValidateWithLeeway(expected, 0) == nil {
			return true
		}
	}
	return false
}
