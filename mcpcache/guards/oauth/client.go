// Package oauth has the guards "oauth2" and "exchange". They are two grants of one OAuth client,
// which asks an authorization server for tokens. The package knows nothing of what the tokens are
// for.
package oauth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/credential"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/outbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/signing"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/tokensource"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/placeholder"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redact"
)

// Client holds the settings that the guards `oauth2` and `exchange` share:
// where they ask for tokens, how they prove who they are, and what they ask
// for. Placeholders in URLs, names, paths, secrets and parameters are replaced
// when the configuration is loaded.
//
// A token is renewed in the background after 70 to 85 % of its life, if it was
// used, and at once when the upstream refuses it. There is never more than one
// request for a token at a time; after a failure the time until the next grows
// from a second to a minute, or to five minutes if the server refuses the
// client.
//
// Token and metadata endpoints must be https unless their host is a loopback
// one. Their answers are limited to 1 MiB, and redirects to another origin are
// not followed.
type Client struct {
	// The URL of the token endpoint.
	TokenEndpoint string `json:"token_endpoint,omitempty"`

	// The issuer identifier of the authorization server, whose metadata
	// (RFC 8414 or OpenID Connect Discovery) names the token endpoint. It
	// cannot be used together with `token_endpoint`.
	Issuer string `json:"issuer,omitempty"`

	// The client identifier.
	ClientID string `json:"client_id,omitempty"`

	// The client secret.
	ClientSecret string `json:"client_secret,omitempty"`

	// The absolute path of a file that holds nothing but the client secret,
	// of at most 65536 bytes. It is read again when it changes.
	ClientSecretFile string `json:"client_secret_file,omitempty"`

	// How the client proves who it is: `basic` or `post` (with a secret),
	// `private_key_jwt` (with a key), `tls` (with a client certificate in
	// `tls`) or `none`. Default: as the credentials are; a secret is sent by
	// `basic`, unless the server's metadata offers `post` only.
	ClientAuth string `json:"client_auth,omitempty"`

	// The absolute path of the private key of `private_key_jwt` (RFC 7523):
	// RSA, P-256 or Ed25519, as PEM or JWK, of at most 65536 bytes. It is
	// read again when it changes.
	Key string `json:"key,omitempty"`

	// The algorithm that the key must be for: `RS256`, `ES256` or `EdDSA`.
	// Default: that of the key.
	Alg string `json:"alg,omitempty"`

	// The id of the key, which also chooses one from a JWK set. Default: that
	// of the JWK, none with PEM.
	Kid string `json:"kid,omitempty"`

	// The audience of client assertions. Default: the configured issuer, or
	// the token endpoint that gets the assertion.
	AssertionAudience string `json:"assertion_audience,omitempty"`

	// The resource indicators (RFC 8707) that the token is asked for. The
	// word `off` alone asks for none. Default: the resource that the
	// upstream's metadata names, if the endpoint was discovered from the
	// upstream, none otherwise.
	Resource []string `json:"resource,omitempty"`

	// The scopes that the token is asked for. Default: what the upstream asks
	// for, if the endpoint was discovered from the upstream, none otherwise.
	Scope []string `json:"scope,omitempty"`

	// More parameters of the token request, such as the `audience` that some
	// servers want.
	Params map[string]string `json:"params,omitempty"`

	// The request header that carries the token. Caddy hides the value of
	// `Authorization` in its log, of another header it does not: filter
	// `request>headers>NAME` out of the log then. Default: `Authorization`
	Header string `json:"header,omitempty"`

	// The word before the token. The empty string means none.
	// Default: `Bearer`
	Prefix *string `json:"prefix,omitempty"`

	// The time limit of each request to a token or metadata endpoint.
	// Default: 10s
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// TLS settings for the token and metadata endpoints, as those of
	// `reverse_proxy`. The client certificate and its key, files of at most
	// 65536 bytes each, are read at each handshake.
	TLS *reverseproxy.TLSConfig `json:"tls,omitempty"`

	credential.Account
	place  credential.Header
	http   *outbound.Client
	server *discovery
	auth   *clientAuth
	source *tokensource.Source
	given  *lastTokens // what the upstream was given
}

// grant is what tells the guards apart that share Client.
type grant struct {
	name     string // of the guard
	form     func() (form url.Values, hidden []string, err error)
	other    string          // token type that is as good as Bearer
	required bool            // whether the client must authenticate
	discover bool            // whether the upstream may name the server
	versions []func() uint64 // of the files that form reads
	settings map[string]any  // that are part of the identity
	secrets  []string        // that are part of the identity
}

// reservedParams are set by the guards themselves.
var reservedParams = []string{
	"grant_type", "client_id", "client_secret", "client_assertion",
	"client_assertion_type", "resource", "scope", "subject_token",
	"subject_token_type", "actor_token", "actor_token_type",
	"requested_token_type",
}

// check tells what is wrong with the settings as they are written.
func (c *Client) check(g grant) error {
	if c.TokenEndpoint != "" && c.Issuer != "" {
		return errors.New("token_endpoint and issuer cannot be used together")
	}
	if c.TokenEndpoint == "" && c.Issuer == "" && !g.discover {
		return errors.New("one of token_endpoint and issuer is required")
	}
	if len(c.Resource) > 1 && slices.Contains(c.Resource, "off") {
		return errors.New("resource: off stands alone")
	}
	for name := range c.Params {
		if name == "" || slices.Contains(reservedParams, name) {
			return fmt.Errorf("param: %q cannot be set here", name)
		}
	}
	if c.Timeout < 0 {
		return errors.New("timeout: must be more than 0")
	}
	if err := signing.CheckAlgorithm(c.Alg); err != nil {
		return err
	}
	if _, err := c.clientSettings(g).resolve(); err != nil {
		return err
	}
	return credential.CheckHeader(c.Header, c.Prefix)
}

// provision prepares the client. It reads no file and asks no server.
func (c *Client) provision(ctx caddy.Context, g grant) error {
	r := placeholder.Resolver{}
	resolved := *c
	r.Text("token_endpoint", &resolved.TokenEndpoint)
	r.Text("issuer", &resolved.Issuer)
	r.Text("client_id", &resolved.ClientID)
	r.Text("client_secret", &resolved.ClientSecret)
	r.Text("kid", &resolved.Kid)
	r.Text("assertion_audience", &resolved.AssertionAudience)
	r.Path("client_secret_file", &resolved.ClientSecretFile)
	r.Path("key", &resolved.Key)
	resolved.Resource = r.List("resource", c.Resource)
	resolved.Scope = r.List("scope", c.Scope)
	resolved.Params = r.Params("param", c.Params)
	if r.Err != nil {
		return r.Err
	}
	return c.assemble(ctx, ctx.Logger(), g, &resolved)
}

// assemble makes the working parts from the resolved settings.
func (c *Client) assemble(ctx caddy.Context, log *zap.Logger, g grant, s *Client) (err error) {
	c.place, c.given = credential.NewHeader(c.Header, c.Prefix), new(lastTokens)
	if c.http, err = outbound.New(ctx, c.TLS, time.Duration(c.Timeout)); err != nil {
		return err
	}
	if c.auth, err = newClientAuth(log, g, s); err != nil {
		return err
	}
	if c.server, err = newDiscovery(ctx, c.http, s, c.auth.method == authTLS); err != nil {
		return err
	}
	if c.Account, err = s.identify(g, c.place, c.auth.method); err != nil {
		return err
	}
	if c.server.upstreamDecides() {
		for _, option := range s.unbound() {
			log.Warn("the upstream decides which authorization server gets what this stands for; set issuer or token_endpoint to bind it",
				zap.String("option", option))
		}
	}
	fixed := s.fixedForm()
	c.source = tokensource.New(func(ctx context.Context) (tokensource.Token, error) {
		return c.fetch(ctx, g, s, fixed)
	}, log)
	c.source.Inputs = func() (sum uint64) {
		for _, version := range slices.Concat(g.versions, []func() uint64{c.auth.version}) {
			if version != nil {
				sum += version()
			}
		}
		return sum
	}
	return nil
}

// unbound are the options with which a server gets something that is good at
// another server, too. An assertion is good at its audience.
func (c *Client) unbound() (options []string) {
	for option, value := range map[string]string{
		"client_secret": c.ClientSecret, "client_secret_file": c.ClientSecretFile, "assertion_audience": c.AssertionAudience,
	} {
		if value != "" {
			options = append(options, option)
		}
	}
	return options
}

// identify derives the identity from the resolved settings.
func (c *Client) identify(g grant, place credential.Header, method string) (credential.Account, error) {
	settings := map[string]any{
		"token_endpoint": c.TokenEndpoint, "issuer": c.Issuer,
		"client_id": c.ClientID, "client_auth": method,
		"client_secret_file": c.ClientSecretFile, "key": c.Key,
		"resource": c.Resource, "scope": c.Scope,
		"header": place.Name, "prefix": place.Prefix,
	}
	if c.TLS != nil {
		settings["client_certificate"] = c.TLS.ClientCertificateFile + c.TLS.ClientCertificateAutomate
	}
	maps.Copy(settings, g.settings)
	secrets := slices.Clone(g.secrets)
	if c.ClientSecret != "" {
		secrets = append(secrets, c.ClientSecret)
	}
	params := make([]string, 0, len(c.Params))
	for _, name := range slices.Sorted(maps.Keys(c.Params)) {
		params = append(params, name)
		secrets = append(secrets, c.Params[name]) // servers invent many parameters
	}
	settings["params"] = params
	return credential.NewAccount(g.name, settings, secrets...)
}

// fixedForm is the part of the token request that is the same each time.
func (c *Client) fixedForm() url.Values {
	form := make(url.Values)
	for name, value := range c.Params {
		form.Set(name, value)
	}
	if len(c.Scope) > 0 {
		form.Set("scope", strings.Join(c.Scope, " "))
	}
	if len(c.Resource) > 0 && c.Resource[0] != "off" {
		form["resource"] = c.Resource
	}
	return form
}

// longParams are the values of parameters that may be secrets. Others are too
// short to be searched for.
func (c *Client) longParams() (values []string) {
	for _, value := range c.Params {
		if len(value) >= 4 {
			values = append(values, value)
		}
	}
	return values
}

// fetch gets a token from the authorization server. Nothing of what the upstream
// and that server were given in secret is in the error, even if they repeat it.
func (c *Client) fetch(ctx context.Context, g grant, s *Client, fixed url.Values) (tokensource.Token, error) {
	form, hidden, err := g.form()
	if err != nil {
		return tokensource.Token{}, fmt.Errorf("%w: %w", guards.ErrUnauthorized, err)
	}
	maps.Copy(form, fixed)
	hidden = slices.Concat(hidden, s.longParams(), c.auth.secrets(), c.given.all())
	secrets := redact.New(hidden...)
	token, err := c.requestToken(outbound.Hiding(ctx, secrets), form, hidden, g, s)
	if err != nil {
		return tokensource.Token{}, secrets.Error(err)
	}
	c.given.add(token.Value)
	return token, nil
}

// requestToken finds the authorization server and asks it.
func (c *Client) requestToken(ctx context.Context, form url.Values, hidden []string, g grant, s *Client) (tokensource.Token, error) {
	server, err := c.server.locate(ctx)
	if err != nil {
		return tokensource.Token{}, err
	}
	if server.scope != "" && len(s.Scope) == 0 {
		form.Set("scope", server.scope)
	}
	if server.resource != "" && len(s.Resource) == 0 {
		form.Set("resource", server.resource)
	}
	request := tokenRequest{http: c.http, auth: c.auth, server: server, form: form, other: g.other, hidden: hidden}
	token, err := request.send(ctx)
	if err == nil {
		err = c.place.Check(token.Value)
	}
	if err != nil {
		c.server.forget()
		return tokensource.Token{}, err
	}
	c.server.pin(server)
	return token, nil
}

// Authorize implements [guards.Guard]. Until the upstream has refused a request and
// so told where its authorization server is, a guard that knows neither a token
// endpoint nor an issuer leaves the request without a credential.
func (c *Client) Authorize(ctx context.Context, r *http.Request) error {
	if !c.server.ready() {
		r.Header.Del(c.place.Name)
		return nil
	}
	token, err := c.source.Get(ctx)
	if err != nil {
		return err
	}
	c.place.Set(r, token)
	return nil
}

// Renew implements [guards.Renewer]. It does nothing about a 403: a new token would
// have the same scope.
func (c *Client) Renew(ctx context.Context, used string, challenge guards.Challenge) error {
	if challenge.Status == http.StatusForbidden {
		return credential.ErrForbidden
	}
	if c.server.upstreamDecides() {
		c.server.learn(challenge)
	}
	c.given.add(c.place.Token(used)) // perhaps of a guard before a reload
	return c.source.Renew(ctx, func(token string) bool { return c.place.Value(token) == used })
}

// Credential implements [guards.Renewer].
func (c *Client) Credential(r *http.Request) string { return c.place.Get(r) }

// Cleanup ends what runs in the background.
func (c *Client) Cleanup() error {
	if c.source != nil {
		c.source.Close()
	}
	if c.http != nil {
		c.http.Close()
	}
	return nil
}
