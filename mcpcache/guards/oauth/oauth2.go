package oauth

import (
	"net/url"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/options"
)

func init() {
	caddy.RegisterModule(OAuth2{})
}

// OAuth2 asks an authorization server for tokens with the client credentials
// grant (RFC 6749 section 4.4), in the name of an account of its own.
//
// With neither `token_endpoint` nor `issuer`, the authorization server is found
// as the MCP specification says: the upstream's first 401 leads to its protected
// resource metadata (RFC 9728), which must be about the upstream's endpoint and
// names the server. The upstream then decides where the client's credentials go,
// so that `issuer` or `token_endpoint` is better with a client secret or an
// `assertion_audience`. What it names must be at its own origin, or a public
// https endpoint, and nowhere that Caddy itself listens; such URLs are never
// asked through a forward proxy. Its origin is that of the first upstream of
// `reverse_proxy`: with dynamic upstreams, a placeholder in the address or another
// handler there is none. Once a server has issued a token another is
// not accepted until the configuration is loaded again. An upstream that
// serves callers without credentials never refuses and so is never given any.
type OAuth2 struct {
	Client
}

// CaddyModule returns the Caddy module information.
func (OAuth2) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  guards.Namespace + ".oauth2",
		New: func() caddy.Module { return new(OAuth2) },
	}
}

// clientCredentials is the grant of OAuth2.
var clientCredentials = grant{
	name: "oauth2",
	form: func() (url.Values, []string, error) {
		return url.Values{"grant_type": {"client_credentials"}}, nil, nil
	},
	required: true,
	discover: true,
}

// Provision resolves placeholders. It asks no server and reads no file but
// those that placeholders and the TLS settings name.
func (o *OAuth2) Provision(ctx caddy.Context) error {
	return o.provision(ctx, clientCredentials)
}

// Validate checks that the settings fit together.
func (o *OAuth2) Validate() error { return o.check(clientCredentials) }

// UnmarshalCaddyfile sets up the guard from Caddyfile tokens. Syntax:
//
//	oauth2 [<token_endpoint>] {
//		# where: one of these, or what the upstream's 401 leads to
//		token_endpoint     <url>
//		issuer             <url>
//
//		# who
//		client_id          <id>                # required
//		client_secret      <secret>            # literal or placeholder
//		client_secret_file <path>              # absolute; read again when it changes
//		key                <path>              # for private_key_jwt: PEM or JWK
//		alg                RS256|ES256|EdDSA   # default: that of the key
//		kid                <id>                # default: that of the JWK
//		assertion_audience <audience>          # default: issuer if configured, else token endpoint
//		client_auth        basic|post|private_key_jwt|tls
//
//		# what
//		resource           <uri...>|off        # RFC 8707
//		scope              <scope...>
//		param              <name> <value>      # may be repeated
//
//		# how
//		header             <name>              # default: Authorization
//		prefix             <word>|off          # default: Bearer
//		timeout            <duration>          # of each request. Default: 10s
//		tls_client_auth    <automate_name> | <cert_file> <key_file>
//		tls_trust_pool     <module> { ... }
//		tls_server_name    <sni>
//		tls_timeout        <duration>
//		tls_curves         <curves...>
//		tls_renegotiation  never|once|freely
//		tls_insecure_skip_verify
//	}
func (o *OAuth2) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := o.unmarshal(d, nil); err != nil {
		return err
	}
	return options.Checked(d, o.Validate())
}

// Interface guards
var (
	_ caddy.Provisioner     = (*OAuth2)(nil)
	_ caddy.Validator       = (*OAuth2)(nil)
	_ caddy.CleanerUpper    = (*OAuth2)(nil)
	_ caddyfile.Unmarshaler = (*OAuth2)(nil)
	_ guards.Guard          = (*OAuth2)(nil)
	_ guards.Renewer        = (*OAuth2)(nil)
)
