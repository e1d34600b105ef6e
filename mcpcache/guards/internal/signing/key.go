// Package signing reads private keys, and signs JSON Web Tokens with them. It knows nothing of
// what a token says, nor of who needs it.
package signing

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
)

// minRSABits is the least size of an RSA key (RFC 7518 section 3.3).
const minRSABits = 2048

// Backdate is how long before now our tokens say they were issued, for servers
// whose clocks are a little behind.
const Backdate = 10 * time.Second

// algorithms are the signature algorithms of configured keys.
var algorithms = map[string]jose.SignatureAlgorithm{
	"RS256": jose.RS256,
	"ES256": jose.ES256,
	"EdDSA": jose.EdDSA,
}

var (
	errKeyKind      = errors.New("key must be RSA, P-256 or Ed25519")
	errKeyPublic    = errors.New("key is a public key")
	errKeyEncrypted = errors.New("key is encrypted")
	errKeyPEM       = errors.New("PEM block does not hold a private key")
	errKeyJWK       = errors.New("not a valid private JWK")
	errKeyFormat    = errors.New("neither PEM nor JWK")
	errKeyChoice    = errors.New("JWK set holds no such private key, or several (set kid)")
)

// Key is a private key with the way it signs.
type Key struct {
	signer jose.Signer
	alg    jose.SignatureAlgorithm
}

// Loader reads a signing key from a file's content.
type Loader struct {
	Alg string // from the configuration, or empty: as the key has it
	Kid string // from the configuration, or empty: as the JWK has it
	Typ string // of the tokens that it signs
}

// NewFile watches a key file.
func NewFile(path string, loader Loader, log *zap.Logger) *secretfile.File[*Key] {
	return &secretfile.File[*Key]{Path: path, What: "key file", Parse: loader.parse, Log: log}
}

// CheckAlgorithm tells what is wrong with a configured algorithm.
func CheckAlgorithm(alg string) error {
	if _, ok := algorithms[alg]; alg != "" && !ok {
		return fmt.Errorf("alg: unknown algorithm %q, want RS256, ES256 or EdDSA", alg)
	}
	return nil
}

// parse reads a private key in PEM (PKCS #8, PKCS #1, SEC 1) or as a JWK or a
// JWK set. Its errors repeat nothing of the content.
func (l Loader) parse(content []byte) (*Key, error) {
	key, kid, err := l.load(content)
	if err != nil {
		return nil, err
	}
	alg, err := algorithmOf(key)
	if err != nil {
		return nil, err
	}
	if l.Alg != "" && algorithms[l.Alg] != alg {
		return nil, fmt.Errorf("key is for %s and not for %s", alg, l.Alg)
	}
	if l.Kid != "" {
		kid = l.Kid
	}
	options := new(jose.SignerOptions).WithType(jose.ContentType(l.Typ))
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: alg,
		Key:       jose.JSONWebKey{Key: key, KeyID: kid},
	}, options)
	if err != nil {
		return nil, errKeyKind
	}
	return &Key{signer: signer, alg: alg}, nil
}

// load finds the private key and, in a JWK, its id.
func (l Loader) load(content []byte) (key any, kid string, err error) {
	content = bytes.TrimSpace(content)
	switch {
	case bytes.HasPrefix(content, []byte("{")):
		return l.loadJWK(content)
	case bytes.Contains(content, []byte("-----BEGIN ")):
		key, err = loadPEM(content)
		return key, "", err
	}
	return nil, "", errKeyFormat
}

// loadPEM returns the first private key; certificates and parameters may come
// before it.
func loadPEM(content []byte) (any, error) {
	problem := errKeyPEM
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case strings.Contains(block.Type, "ENCRYPTED"), strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
			return nil, errKeyEncrypted
		case strings.Contains(block.Type, "PUBLIC KEY"):
			problem = errKeyPublic
		case strings.Contains(block.Type, "PRIVATE KEY"):
			return parsePrivate(block.Bytes)
		}
	}
	return nil, problem
}

func parsePrivate(der []byte) (any, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	return nil, errKeyPEM
}

// loadJWK reads a JWK (RFC 7517), or the only private key of a set, or the one
// with the configured kid.
func (l Loader) loadJWK(content []byte) (key any, kid string, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, "", errKeyJWK
	}
	if set.Keys == nil {
		jwk, err := parseJWK(content)
		if err != nil {
			return nil, "", err
		}
		return jwk.Key, jwk.KeyID, nil
	}
	var chosen *jose.JSONWebKey
	for _, raw := range set.Keys {
		jwk, err := parseJWK(raw)
		if err != nil || l.Kid != "" && jwk.KeyID != l.Kid {
			continue // a set may hold keys of other kinds and public ones
		}
		if chosen != nil {
			return nil, "", errKeyChoice
		}
		chosen = jwk
	}
	if chosen == nil {
		return nil, "", errKeyChoice
	}
	return chosen.Key, chosen.KeyID, nil
}

func parseJWK(raw []byte) (*jose.JSONWebKey, error) {
	jwk := new(jose.JSONWebKey)
	if err := jwk.UnmarshalJSON(raw); err != nil || !jwk.Valid() {
		return nil, errKeyJWK
	}
	if jwk.IsPublic() {
		return nil, errKeyPublic
	}
	return jwk, nil
}

// algorithmOf returns the algorithm that a private key signs with.
func algorithmOf(key any) (jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if key.N.BitLen() < minRSABits {
			return "", fmt.Errorf("RSA key has %d bits, want %d or more", key.N.BitLen(), minRSABits)
		}
		return jose.RS256, nil
	case *ecdsa.PrivateKey:
		if key.Curve == elliptic.P256() {
			return jose.ES256, nil
		}
	case ed25519.PrivateKey:
		return jose.EdDSA, nil
	}
	return "", errKeyKind
}

// Sign returns the compact form of a JWT (RFC 7519) with the given claims.
func (k *Key) Sign(claims map[string]any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encoding claims: %w", err)
	}
	signed, err := k.signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("signing a token with %s: %w", k.alg, err)
	}
	return signed.CompactSerialize()
}
