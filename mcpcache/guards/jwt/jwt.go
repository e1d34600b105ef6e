// Package jwt is the guard "jwt". It signs its tokens itself, and asks no server for anything.
package jwt

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/credential"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/signing"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/tokensource"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/options"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/placeholder"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
)

func init() {
	caddy.RegisterModule(JWT{})
}

// defaultLifetime is that of self-signed tokens.
const defaultLifetime = 5 * time.Minute

// JWT presents tokens that it signs itself (RFC 7519), for upstreams that trust
// the key. A token has the claims `iat`, `exp` and a random `jti`, and those
// that are configured; `iat` lies ten seconds back, for upstreams whose clocks
// are a little behind. A token is renewed after 70 to 85 % of its life, when the
// key file changes, and when the upstream refuses it.
type JWT struct {
	// The absolute path of the private key: RSA (2048 bits or more), P-256
	// or Ed25519, as PEM or JWK, of at most 65536 bytes. It is read again
	// when it changes, and may be absent when Caddy starts. Placeholders are
	// replaced when the configuration is loaded. Required.
	Key string `json:"key,omitempty"`

	// The algorithm that the key must be for: `RS256`, `ES256` or `EdDSA`.
	// Default: that of the key.
	Alg string `json:"alg,omitempty"`

	// The id of the key in the tokens' header, which also chooses one from a
	// JWK set. Default: that of the JWK, none with PEM.
	Kid string `json:"kid,omitempty"`

	// The `typ` in the tokens' header; some upstreams want `at+jwt`
	// (RFC 9068). Default: `JWT`
	Type string `json:"type,omitempty"`

	// The claim `iss`.
	Issuer string `json:"issuer,omitempty"`

	// The claim `sub`.
	Subject string `json:"subject,omitempty"`

	// The claim `aud`: a string if there is one, an array if there are more.
	Audience []string `json:"audience,omitempty"`

	// How long a token is valid, from 5 seconds to a day. Default: 5m
	Lifetime caddy.Duration `json:"lifetime,omitempty"`

	// More claims, of any JSON type. Placeholders in strings are replaced
	// when the configuration is loaded.
	Claims map[string]json.RawMessage `json:"claims,omitempty"`

	// The request header that carries the token. Caddy hides the value of
	// `Authorization` in its log, of another header it does not: filter
	// `request>headers>NAME` out of the log then. Default: `Authorization`
	Header string `json:"header,omitempty"`

	// The word before the token. The empty string means none.
	// Default: `Bearer`
	Prefix *string `json:"prefix,omitempty"`

	credential.Account
	place  credential.Header
	life   time.Duration
	claims map[string]any // the same in all tokens
	key    *secretfile.File[*signing.Key]
	source *tokensource.Source
}

// CaddyModule returns the Caddy module information.
func (JWT) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  guards.Namespace + ".jwt",
		New: func() caddy.Module { return new(JWT) },
	}
}

// reservedClaims have options of their own or are set for each token.
var reservedClaims = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti"}

// Provision resolves placeholders. It does not read the key.
func (j *JWT) Provision(ctx caddy.Context) error {
	j.place = credential.NewHeader(j.Header, j.Prefix)
	j.life = time.Duration(j.Lifetime)
	if j.life == 0 {
		j.life = defaultLifetime
	}
	r := placeholder.Resolver{}
	path, kid := j.Key, j.Kid
	r.Path("key", &path)
	r.Text("kid", &kid)
	j.claims = j.resolveClaims(&r)
	if r.Err != nil {
		return r.Err
	}
	loader := signing.Loader{Alg: j.Alg, Kid: kid, Typ: j.Type}
	if loader.Typ == "" {
		loader.Typ = "JWT"
	}
	j.key = signing.NewFile(path, loader, ctx.Logger())
	j.source = tokensource.New(j.sign, ctx.Logger())
	j.source.Inputs, j.source.Strict = j.key.Version, true
	var err error
	j.Account, err = credential.NewAccount("jwt", map[string]any{
		"key": path, "kid": kid, "alg": j.Alg, "typ": loader.Typ, "claims": j.claims,
		"header": j.place.Name, "prefix": j.place.Prefix,
	})
	return err
}

// resolveClaims returns the claims that all tokens share.
func (j *JWT) resolveClaims(r *placeholder.Resolver) map[string]any {
	claims := make(map[string]any)
	for name, value := range j.Claims {
		claims[name] = decodeClaim(r, "claim "+name, value)
	}
	issuer, subject := j.Issuer, j.Subject
	r.Text("issuer", &issuer)
	r.Text("subject", &subject)
	if issuer != "" {
		claims["iss"] = issuer
	}
	if subject != "" {
		claims["sub"] = subject
	}
	switch audience := r.List("audience", j.Audience); len(audience) {
	case 0:
	case 1:
		claims["aud"] = audience[0]
	default:
		claims["aud"] = audience
	}
	return claims
}

// decodeClaim parses a configured claim, numbers as they are written.
func decodeClaim(r *placeholder.Resolver, option string, raw json.RawMessage) any {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		r.Keep(fmt.Errorf("%s: not valid JSON", option))
	}
	return resolveClaim(r, option, value)
}

// resolveClaim returns a claim with the placeholders of its strings replaced.
func resolveClaim(r *placeholder.Resolver, option string, value any) any {
	switch value := value.(type) {
	case string:
		r.Text(option, &value)
		return value
	case []any:
		resolved := make([]any, len(value))
		for i, item := range value {
			resolved[i] = resolveClaim(r, option, item)
		}
		return resolved
	case map[string]any:
		resolved := make(map[string]any, len(value))
		for name, item := range value {
			resolved[name] = resolveClaim(r, option, item)
		}
		return resolved
	}
	return value
}

// Validate checks that the settings fit together.
func (j *JWT) Validate() error {
	if j.Key == "" {
		return errors.New("key is required")
	}
	if err := signing.CheckAlgorithm(j.Alg); err != nil {
		return err
	}
	life := time.Duration(j.Lifetime)
	if life != 0 && (life < 5*time.Second || life > tokensource.LongestLife) {
		return fmt.Errorf("lifetime: %v is not between 5s and %v", life, tokensource.LongestLife)
	}
	for name := range j.Claims {
		if name == "" || slices.Contains(reservedClaims, name) {
			return fmt.Errorf("claim: %q cannot be set here", name)
		}
	}
	return credential.CheckHeader(j.Header, j.Prefix)
}

// sign makes a new token.
func (j *JWT) sign(context.Context) (tokensource.Token, error) {
	key, err := j.key.Reload()
	if err != nil {
		return tokensource.Token{}, fmt.Errorf("%w: %w", guards.ErrUnauthorized, err)
	}
	now := time.Now()
	claims := maps.Clone(j.claims)
	claims["jti"] = rand.Text()
	claims["iat"] = now.Add(-signing.Backdate).Unix()
	claims["exp"] = now.Add(j.life).Unix()
	token, err := key.Sign(claims)
	if err != nil {
		return tokensource.Token{}, err
	}
	return tokensource.Token{Value: token, Expires: now.Add(j.life)}, nil
}

// Authorize implements [guards.Guard].
func (j *JWT) Authorize(ctx context.Context, r *http.Request) error {
	token, err := j.source.Get(ctx)
	if err != nil {
		return err
	}
	j.place.Set(r, token)
	return nil
}

// Renew implements [guards.Renewer]. It reads the key again and signs a new token, in
// case the old one was refused because of its age or key.
func (j *JWT) Renew(ctx context.Context, used string, challenge guards.Challenge) error {
	if challenge.Status == http.StatusForbidden {
		return credential.ErrForbidden
	}
	return j.source.Renew(ctx, func(token string) bool { return j.place.Value(token) == used })
}

// Credential implements [guards.Renewer].
func (j *JWT) Credential(r *http.Request) string { return j.place.Get(r) }

// Cleanup ends what runs in the background.
func (j *JWT) Cleanup() error {
	if j.source != nil {
		j.source.Close()
	}
	return nil
}

// UnmarshalCaddyfile sets up the guard from Caddyfile tokens. Syntax:
//
//	jwt [<key>] {
//		key      <path>              # required, absolute: PEM or JWK; read again when it changes
//		alg      RS256|ES256|EdDSA   # default: that of the key
//		kid      <id>                # default: that of the JWK
//		type     <typ>               # default: JWT
//		issuer   <iss>
//		subject  <sub>
//		audience <aud...>
//		lifetime <duration>          # from 5s to 24h. Default: 5m
//		claim    <name> <value...>   # a string, or an array of strings; may be repeated
//		header   <name>              # default: Authorization
//		prefix   <word>|off          # default: Bearer
//	}
func (j *JWT) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := options.Guard(d, &j.Key, map[string]options.Setter{
		"key":      options.String(&j.Key),
		"alg":      options.String(&j.Alg),
		"kid":      options.String(&j.Kid),
		"type":     options.String(&j.Type),
		"issuer":   options.String(&j.Issuer),
		"subject":  options.String(&j.Subject),
		"audience": options.List(&j.Audience),
		"lifetime": options.Duration(&j.Lifetime),
		"claim":    j.parseClaim,
		"header":   options.String(&j.Header),
		"prefix":   options.Prefix(&j.Prefix),
	}, "claim"); err != nil {
		return err
	}
	return options.Checked(d, j.Validate())
}

// parseClaim reads a claim's name and its values.
func (j *JWT) parseClaim(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.ArgErr()
	}
	name, values := args[0], args[1:]
	if _, ok := j.Claims[name]; ok {
		return d.Errf("claim %q already specified", name)
	}
	var value any = values
	if len(values) == 1 {
		value = values[0]
	}
	if j.Claims == nil {
		j.Claims = make(map[string]json.RawMessage)
	}
	j.Claims[name] = caddyconfig.JSON(value, nil)
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*JWT)(nil)
	_ caddy.Validator       = (*JWT)(nil)
	_ caddy.CleanerUpper    = (*JWT)(nil)
	_ caddyfile.Unmarshaler = (*JWT)(nil)
	_ guards.Guard          = (*JWT)(nil)
	_ guards.Renewer        = (*JWT)(nil)
)
