package oauth

import (
	"maps"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/options"
)

// unmarshal reads the guard's line and block: the shared options and those of
// one guard.
func (c *Client) unmarshal(d *caddyfile.Dispenser, more map[string]options.Setter) error {
	setters := map[string]options.Setter{
		"token_endpoint":     options.String(&c.TokenEndpoint),
		"issuer":             options.String(&c.Issuer),
		"client_id":          options.String(&c.ClientID),
		"client_secret":      options.String(&c.ClientSecret),
		"client_secret_file": options.String(&c.ClientSecretFile),
		"client_auth":        options.String(&c.ClientAuth),
		"key":                options.String(&c.Key),
		"alg":                options.String(&c.Alg),
		"kid":                options.String(&c.Kid),
		"assertion_audience": options.String(&c.AssertionAudience),
		"resource":           options.List(&c.Resource),
		"scope":              options.List(&c.Scope),
		"param":              options.Param(&c.Params),
		"header":             options.String(&c.Header),
		"prefix":             options.Prefix(&c.Prefix),
		"timeout":            options.Duration(&c.Timeout),
	}
	for _, name := range tlsOptions {
		setters[name] = tlsOption(&c.TLS)
	}
	maps.Copy(setters, more)
	return options.Guard(d, &c.TokenEndpoint, setters, "param")
}

// tlsOptions are those TLS options of reverse_proxy's http transport that make
// sense for token and metadata endpoints.
var tlsOptions = []string{
	"tls_client_auth", "tls_curves", "tls_insecure_skip_verify",
	"tls_renegotiation", "tls_server_name", "tls_timeout", "tls_trust_pool",
}

// tlsOption lets the http transport read one of its options, so that they mean
// the same here as there.
func tlsOption(dst **reverseproxy.TLSConfig) options.Setter {
	return func(d *caddyfile.Dispenser) error {
		segment := d.NextSegment()
		first, last := segment[0], segment[len(segment)-1]
		open, shut := first, last
		open.Text = "{"
		shut.Text, shut.Line = "}", last.Line+strings.Count(last.Text, "\n")+1
		tokens := append([]caddyfile.Token{first, open}, segment...)
		transport := &reverseproxy.HTTPTransport{TLS: *dst}
		if err := transport.UnmarshalCaddyfile(caddyfile.NewDispenser(append(tokens, shut))); err != nil {
			return err
		}
		*dst = transport.TLS
		return nil
	}
}
