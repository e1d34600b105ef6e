// Package site knows the site of Caddy that has received a request. It finds the site's address as
// the client knows it. It also tells the site that it cannot read a request.
package site

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Of returns the scheme and host of the URL that the client has used, as far as they
// are known.
func Of(r *http.Request) url.URL {
	u := url.URL{Scheme: "http", Host: r.Host}
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	if r.TLS != nil || trusted && r.Header.Get("X-Forwarded-Proto") == "https" {
		u.Scheme = "https"
	}
	if host := r.Header.Get("X-Forwarded-Host"); trusted && host != "" {
		u.Host = host
	}
	return u
}

// OriginalURL is the URL of a request before handlers in front of us have rewritten it.
func OriginalURL(r *http.Request) *url.URL {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.URL
	}
	return r.URL
}

// AddressOf returns the URL of a request as the client has it, as far as that is known,
// escaped. It is without the query, which may hold a secret.
func AddressOf(r *http.Request) string {
	u, original := Of(r), OriginalURL(r)
	u.Path, u.RawPath = original.Path, original.RawPath
	return u.String()
}

// StrippedFrom returns what handlers in front of us have taken from the beginning of the
// path, as handle_path does.
func StrippedFrom(r *http.Request) string {
	prefix, stripped := strings.CutSuffix(OriginalURL(r).EscapedPath(), r.URL.EscapedPath())
	if !stripped || r.URL.Path == "" {
		return ""
	}
	return prefix
}
