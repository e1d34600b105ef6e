package exchange

import (
	"net/http"
	"net/url"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/site"
)

// giveAddress puts the client's address of the server in the place of the server's own in
// the header of an answer: in Location (RFC 9110 section 10.2.2) and in the challenge of
// a refusal. elsewhere says that the request was for another path than the endpoint's.
func (x *exchange) giveAddress(status int, h http.Header, elsewhere bool) {
	hosts, addresses := []string{x.r.Host, site.Of(x.r).Host}, x.backend.Slash().Addresses
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		for i, value := range h["Www-Authenticate"] {
			told, inside := site.ChallengeFor(x.r, value, addresses, hosts...)
			h["Www-Authenticate"][i] = told
			for _, host := range inside {
				x.endpoint.Remarks.Make(redirect.Inside, "resource_metadata", host)
			}
		}
	}
	location := h["Location"]
	if len(location) != 1 {
		return
	}
	if elsewhere && isAuthorization(location[0]) {
		return
	}
	prefix := site.StrippedFrom(x.r)
	if elsewhere && prefix != "" {
		hosts = nil // what is on the site outside of the prefix may be meant
	}
	reference, ok := addresses.Relative(location[0], prefix, hosts...)
	if ok && !x.asksForTLS(location[0], reference) {
		location[0] = reference
	}
}

// isAuthorization reports whether a Location has the answer to an authorization request: it
// is a redirect_uri then, which is the client's own, wherever that is (RFC 6749 sections
// 4.1.2 and 4.1.2.1).
func isAuthorization(location string) bool {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return false
	}
	query := u.Query()
	return query.Has("code") || query.Has("error")
}

// asksForTLS reports whether a Location leads to the very request, but over TLS, as that of
// Django's SECURE_SSL_REDIRECT: without the scheme it would lead there for ever.
func (x *exchange) asksForTLS(location, reference string) bool {
	return redirect.IsHTTPS(location) && site.Of(x.r).Scheme == "http" && reference == site.OriginalURL(x.r).RequestURI()
}

// learnSlash learns from an answer whether the server redirects its endpoint.
func (x *exchange) learnSlash(status int, h http.Header) {
	if x.r.URL.Path == x.endpoint.Settings.Path {
		x.backend.Slash().Learn(x.r.Method, x.r.URL, x.r.Host, status, header.First(h["Location"]))
	}
}
