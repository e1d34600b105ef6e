package exchange

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/incoming"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
)

// giveAddress puts the client's address of the server in the place of the server's own in
// the header of an answer: in Location (RFC 9110 section 10.2.2) and in the challenge of
// a refusal. Starlette, and FastMCP with it, make a URL of the Host that they are sent,
// which is ours, and say http where TLS ends in front of them. elsewhere says that the
// request was for another path than the endpoint's.
func (x *exchange) giveAddress(status int, h http.Header, elsewhere bool) {
	refuses := status == http.StatusUnauthorized || status == http.StatusForbidden
	if refuses {
		for i, value := range h["Www-Authenticate"] {
			h["Www-Authenticate"][i] = redirect.Metadata.ReplaceAllStringFunc(value, x.metadataAt)
		}
	}
	location := h["Location"]
	if len(location) != 1 {
		return
	}
	if elsewhere && isAuthorization(location[0]) {
		return
	}
	hosts, prefix := []string{x.r.Host, incoming.SiteOf(x.r).Host}, incoming.StrippedFrom(x.r)
	if elsewhere && prefix != "" {
		hosts = nil // what is on the site outside of the prefix may be meant
	}
	reference, ok := x.backend.Slash().Addresses.Relative(location[0], prefix, hosts...)
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

// metadataAt gives the client's address in a parameter of a challenge. A server that names
// the client's host with https knows it better than we may; one that knows what the site
// strips has that in the middle of the path (RFC 9728 section 3.1).
func (x *exchange) metadataAt(parameter string) string {
	parts := redirect.Metadata.FindStringSubmatch(parameter)
	hosts, prefix := []string{x.r.Host, incoming.SiteOf(x.r).Host}, incoming.StrippedFrom(x.r)
	if isHTTPS(parts[2]) {
		hosts = nil
	}
	if strings.Contains(parts[2], prefix) {
		prefix = ""
	}
	reference, ok := x.backend.Slash().Addresses.Relative(parts[2], prefix, hosts...)
	site := incoming.SiteOf(x.r)
	if !ok || strings.HasPrefix(parts[2], "/") {
		if host := redirect.LeadsInside(parts[2], site.Host); host != "" {
			x.endpoint.Remarks.Make(redirect.Inside, "resource_metadata", host)
		}
		return parameter
	}
	return parts[1] + site.String() + reference + `"`
}

// asksForTLS reports whether a Location leads to the very request, but over TLS, as that of
// Django's SECURE_SSL_REDIRECT: without the scheme it would lead there for ever.
func (x *exchange) asksForTLS(location, reference string) bool {
	return isHTTPS(location) && incoming.SiteOf(x.r).Scheme == "http" && reference == incoming.OriginalURL(x.r).RequestURI()
}

func isHTTPS(location string) bool {
	const scheme = "https:"
	return len(location) > len(scheme) && strings.EqualFold(location[:len(scheme)], scheme)
}

// learnSlash learns from an answer whether the server redirects its endpoint.
func (x *exchange) learnSlash(status int, h http.Header) {
	if x.r.URL.Path == x.endpoint.Settings.Path {
		x.backend.Slash().Learn(x.r.Method, x.r.URL, x.r.Host, status, header.First(h["Location"]))
	}
}
