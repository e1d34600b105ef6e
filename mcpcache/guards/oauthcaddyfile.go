package guards

import (
	"maps"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// unmarshal reads the guard's line and block: the shared options and those of
// one guard.
func (c *OAuthClient) unmarshal(d *caddyfile.Dispenser, more map[string]setter) error {
	d.Next() // consume guard name
	if d.CountRemainingArgs() > 0 {
		if err := stringOption(&c.TokenEndpoint)(d); err != nil {
			return err
		}
	}
	options := map[string]setter{
		"token_endpoint":     stringOption(&c.TokenEndpoint),
		"issuer":             stringOption(&c.Issuer),
		"client_id":          stringOption(&c.ClientID),
		"client_secret":      stringOption(&c.ClientSecret),
		"client_secret_file": stringOption(&c.ClientSecretFile),
		"client_auth":        stringOption(&c.ClientAuth),
		"key":                stringOption(&c.Key),
		"alg":                stringOption(&c.Alg),
		"kid":                stringOption(&c.Kid),
		"assertion_audience": stringOption(&c.AssertionAudience),
		"resource":           listOption(&c.Resource),
		"scope":              listOption(&c.Scope),
		"param":              paramOption(&c.Params),
		"header":             stringOption(&c.Header),
		"prefix":             prefixOption(&c.Prefix),
		"timeout":            durationOption(&c.Timeout),
	}
	for _, name := range tlsOptions {
		options[name] = tlsOption(&c.TLS)
	}
	maps.Copy(options, more)
	return parseOptions(d, options, "param")
}
