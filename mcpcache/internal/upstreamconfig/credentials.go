package upstreamconfig

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
)

// Credentials returns the credentials that a reverse_proxy adds to each request (header_up).
// Placeholders of the process, such as {env.TOKEN}, are replaced. Placeholders of a request stay.
func (c Config) Credentials() http.Header {
	var proxy struct {
		Headers struct {
			Request struct {
				Add http.Header `json:"add"`
				Set http.Header `json:"set"`
			} `json:"request"`
		} `json:"headers"`
	}
	if json.Unmarshal(c.raw, &proxy) != nil {
		return nil
	}
	added, replacer := make(http.Header), caddy.NewReplacer()
	for _, fields := range []http.Header{proxy.Headers.Request.Add, proxy.Headers.Request.Set} {
		for name, values := range fields {
			for _, value := range values {
				if identity.IsCredential(name) {
					added.Add(name, replacer.ReplaceKnown(value, ""))
				}
			}
		}
	}
	return added
}

// AnyShared reports whether all requests have one of those credentials in common. A credential
// with a placeholder of the request is the request's own.
func AnyShared(credentials http.Header) bool {
	for _, values := range credentials {
		if slices.ContainsFunc(values, func(value string) bool { return value != "" && !strings.Contains(value, "{http.") }) {
			return true
		}
	}
	return false
}
