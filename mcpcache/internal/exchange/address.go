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
// a refusal.
func (x *exchange) giveAddress(status int, h http.Header) {
	hosts, addresses := []string{x.r.Host, site.Of(x.r).Host}, x.backend.Slash().Addresses
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		for i, value := range h["Www-Authenticate"] {
			told, inside := site.ChallengeFor(x.r, value, addresses, hosts...)
			h["Www-Authenticate"][i] = told
			for _, host := range inside {
				x.endpoint.Warnings.Warn(redirect.Inside, "resource_metadata", host)
			}
		}
	}
	location := h["Location"]
	if len(location) != 1 {
		return
	}
	if x.elsewhere && isAuthorization(location[0]) {
		return
	}
	prefix := site.StrippedFrom(x.r)
	if x.elsewhere && prefix != "" {
		hosts = nil // what is on the site outside of the prefix may be meant
	}
	reference, ok := addresses.Relative(location[0], prefix, hosts...)
	if ok && !asksForTLS(x.r, location[0], reference) {
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
func asksForTLS(r *http.Request, location, reference string) bool {
	return redirect.IsHTTPS(location) && site.Of(r).Scheme == "http" && reference == site.OriginalURL(r).RequestURI()
}

// learnSlash learns from an answer whether the server redirects its endpoint.
func (l *learner) learnSlash(status int, h http.Header) {
	if l.r.URL.Path == l.endpoint.Settings.Path {
		l.backend.Slash().Learn(l.r.Method, l.r.URL, l.r.Host, status, header.First(h["Location"]))
	}
}
