package oauth

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/credential"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/options"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/placeholder"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secretfile"
)

func init() {
	caddy.RegisterModule(Exchange{})
}

const (
	exchangeGrant   = "urn:ietf:params:oauth:grant-type:token-exchange"
	tokenTypePrefix = "urn:ietf:params:oauth:token-type:" //nolint:gosec // a name, not a token
)

// Exchange gives a token that Caddy has, such as that of its workload, to an
// authorization server and gets one for the upstream (OAuth 2.0 Token Exchange,
// RFC 8693). Give `token_endpoint` or `issuer`; a client needs no credentials if
// the server asks for none.
//
// Token types are URIs. The names of RFC 8693 section 3 need no prefix:
// `access_token`, `refresh_token`, `id_token`, `saml1`, `saml2` and `jwt`.
type Exchange struct {
	Client

	// The token to exchange, usually a placeholder such as
	// `{env.WORKLOAD_TOKEN}`, which is replaced when the configuration is
	// loaded. One of `subject_token` and `subject_token_file` is required.
	SubjectToken string `json:"subject_token,omitempty"`

	// The absolute path of a file that holds nothing but the token to
	// exchange, of at most 65536 bytes. It is read each time a token is
	// needed, and after a failure as soon as it changes.
	SubjectTokenFile string `json:"subject_token_file,omitempty"`

	// The type of the token to exchange. Default: `jwt`
	SubjectTokenType string `json:"subject_token_type,omitempty"`

	// A token of the party that acts for the subject.
	ActorToken string `json:"actor_token,omitempty"`

	// The absolute path of a file that holds nothing but the actor's token,
	// treated as `subject_token_file`.
	ActorTokenFile string `json:"actor_token_file,omitempty"`

	// The type of the actor's token. Default: `jwt`
	ActorTokenType string `json:"actor_token_type,omitempty"`

	// The type of token to ask for. Default: what the server gives.
	RequestedTokenType string `json:"requested_token_type,omitempty"`

	// The names of the services that the token is to be used at.
	Audience []string `json:"audience,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (Exchange) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  guards.Namespace + ".exchange",
		New: func() caddy.Module { return new(Exchange) },
	}
}

// Provision resolves placeholders. It asks no server and reads no file but
// those that placeholders and the TLS settings name.
func (e *Exchange) Provision(ctx caddy.Context) error {
	r := placeholder.Resolver{}
	subject := exchangeToken{role: "subject", text: e.SubjectToken, path: e.SubjectTokenFile, kind: e.SubjectTokenType}
	actor := exchangeToken{role: "actor", text: e.ActorToken, path: e.ActorTokenFile, kind: e.ActorTokenType}
	subject.provision(&r, ctx.Logger())
	actor.provision(&r, ctx.Logger())
	audience := r.List("audience", e.Audience)
	if r.Err != nil {
		return r.Err
	}
	wanted := tokenType(e.RequestedTokenType, "")
	return e.provision(ctx, grant{
		name:  "exchange",
		other: "N_A",
		settings: map[string]any{
			"subject": []string{subject.path, subject.kind},
			"actor":   []string{actor.path, actor.kind},
			"wanted":  wanted, "audience": audience,
		},
		secrets:  []string{subject.text, actor.text},
		versions: []func() uint64{subject.version, actor.version},
		form: func() (url.Values, []string, error) {
			form := url.Values{"grant_type": {exchangeGrant}}
			hidden, err := subject.add(form)
			if err != nil {
				return nil, nil, err
			}
			more, err := actor.add(form)
			if err != nil {
				return nil, nil, err
			}
			if wanted != "" {
				form.Set("requested_token_type", wanted)
			}
			if len(audience) > 0 {
				form["audience"] = audience
			}
			return form, append(hidden, more...), nil
		},
	})
}

// Validate checks that the settings fit together.
func (e *Exchange) Validate() error {
	switch {
	case (e.SubjectToken == "") == (e.SubjectTokenFile == ""):
		return errors.New("one of subject_token and subject_token_file is required")
	case e.ActorToken != "" && e.ActorTokenFile != "":
		return errors.New("actor_token and actor_token_file cannot be used together")
	case e.ActorTokenType != "" && e.ActorToken == "" && e.ActorTokenFile == "":
		return errors.New("actor_token_type needs an actor token")
	}
	if _, ok := e.Params["audience"]; ok && len(e.Audience) > 0 {
		return errors.New("audience already specified as a param")
	}
	return e.check(grant{})
}

// exchangeToken is a token that is given to the authorization server.
type exchangeToken struct {
	role string // subject or actor
	text string // literal
	path string // or its file
	kind string // URI of its type
	file *secretfile.File[string]
}

// provision resolves the settings of a token.
func (t *exchangeToken) provision(r *placeholder.Resolver, log *zap.Logger) {
	t.kind = tokenType(t.kind, "jwt")
	option := t.role + "_token"
	if t.text != "" {
		r.Text(option, &t.text)
		token, err := credential.CleanToken(t.text)
		if err != nil {
			r.Keep(fmt.Errorf("%s: %w", option, err))
		}
		t.text = token
	}
	if t.path != "" {
		r.Path(option+"_file", &t.path)
		t.file = &secretfile.File[string]{
			Path: t.path, What: t.role + " token file", Log: log,
			Parse: func(content []byte) (string, error) { return credential.CleanToken(string(content)) },
		}
	}
}

// version is that of the token's file.
func (t *exchangeToken) version() uint64 {
	if t.file == nil {
		return 0
	}
	return t.file.Version()
}

// add puts the token into a request, if there is one, and returns what must not
// be shown.
func (t *exchangeToken) add(form url.Values) (hidden []string, err error) {
	token := t.text
	if t.file != nil {
		if token, err = t.file.Reload(); err != nil {
			return nil, err
		}
	}
	if token == "" {
		return nil, nil
	}
	form.Set(t.role+"_token", token)
	form.Set(t.role+"_token_type", t.kind)
	return []string{token}, nil
}

// tokenType completes the short name of a token type.
func tokenType(name, fallback string) string {
	if name == "" {
		name = fallback
	}
	if name == "" || strings.Contains(name, ":") {
		return name
	}
	return tokenTypePrefix + name
}

// UnmarshalCaddyfile sets up the guard from Caddyfile tokens. Syntax:
//
//	exchange [<token_endpoint>] {
//		# where: one of these is required
//		token_endpoint       <url>
//		issuer               <url>
//
//		# which token: one of the first two is required
//		subject_token        <token>           # usually a placeholder
//		subject_token_file   <path>            # absolute; read again when it changes
//		subject_token_type   <type>            # default: jwt
//		actor_token          <token>
//		actor_token_file     <path>
//		actor_token_type     <type>            # default: jwt
//		requested_token_type <type>
//		audience             <name...>
//
//		# who, what and how: the options of oauth2
//		client_id, client_secret, client_secret_file, key, alg, kid,
//		assertion_audience, client_auth (also none), resource, scope, param,
//		header, prefix, timeout, tls_...
//	}
func (e *Exchange) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := e.unmarshal(d, map[string]options.Setter{
		"subject_token":        options.String(&e.SubjectToken),
		"subject_token_file":   options.String(&e.SubjectTokenFile),
		"subject_token_type":   options.String(&e.SubjectTokenType),
		"actor_token":          options.String(&e.ActorToken),
		"actor_token_file":     options.String(&e.ActorTokenFile),
		"actor_token_type":     options.String(&e.ActorTokenType),
		"requested_token_type": options.String(&e.RequestedTokenType),
		"audience":             options.List(&e.Audience),
	}); err != nil {
		return err
	}
	return options.Checked(d, e.Validate())
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Exchange)(nil)
	_ caddy.Validator       = (*Exchange)(nil)
	_ caddy.CleanerUpper    = (*Exchange)(nil)
	_ caddyfile.Unmarshaler = (*Exchange)(nil)
	_ guards.Guard          = (*Exchange)(nil)
	_ guards.Renewer        = (*Exchange)(nil)
)
