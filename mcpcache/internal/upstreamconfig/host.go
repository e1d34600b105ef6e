package upstreamconfig

import (
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
)

// PassesHost reports whether the Host that the server receives depends on the client's Host. It
// is true for every handler other than reverse_proxy.
func PassesHost(upstream caddyhttp.MiddlewareHandler) bool {
	proxy, known := upstream.(*reverseproxy.Handler)
	if !known {
		return true
	}
	if transport, ok := proxy.Transport.(interface{ PassesHost() bool }); ok && !transport.PassesHost() {
		return false
	}
	passes := true
	for _, ops := range requestOps(proxy) {
		passes = passesThrough(ops, passes)
	}
	return passes
}

// Addresses returns the addresses that the server may take for its own, whatever Host the client
// sent: the upstream addresses of a reverse_proxy, and each Host that its configuration sets.
func Addresses(upstream caddyhttp.MiddlewareHandler) redirect.Addresses {
	proxy, known := upstream.(*reverseproxy.Handler)
	if !known {
		return nil
	}
	var found redirect.Addresses
	for _, upstream := range proxy.Upstreams {
		found = append(found, upstream.Dial)
	}
	for _, ops := range requestOps(proxy) {
		for name, values := range ops.Set {
			if strings.EqualFold(name, "Host") {
				found = append(found, values...)
			}
		}
	}
	environment := caddy.NewReplacer()
	for i, address := range found {
		found[i] = environment.ReplaceKnown(address, "")
	}
	return slices.DeleteFunc(found, func(address string) bool {
		host, _, err := net.SplitHostPort(address)
		return strings.ContainsAny(address, "{/") || err == nil && host == ""
	})
}

// requestOps returns the operations on the headers of requests, in the order in which
// reverse_proxy applies them.
func requestOps(proxy *reverseproxy.Handler) (all []*headers.HeaderOps) {
	if transport, ok := proxy.Transport.(reverseproxy.RequestHeaderOpsTransport); ok {
		if ops := transport.RequestHeaderOps(); ops != nil {
			all = append(all, ops)
		}
	}
	if proxy.Headers != nil && proxy.Headers.Request != nil {
		all = append(all, proxy.Headers.Request)
	}
	return all
}

// passesThrough reports whether the Host depends on the client's after those operations. passes
// says whether it did before them.
func passesThrough(ops *headers.HeaderOps, passes bool) bool {
	for _, fields := range []http.Header{ops.Add, ops.Set} {
		for name, values := range fields {
			if strings.EqualFold(name, "Host") {
				passes = variesWithRequest(values...)
			}
		}
	}
	for _, name := range ops.Delete {
		if strings.EqualFold(name, "Host") {
			passes = false // the transport sends the address instead
		}
	}
	for name, replacements := range ops.Replace {
		if name != "*" && !strings.EqualFold(name, "Host") {
			continue
		}
		for _, replacement := range replacements {
			passes = passes || variesWithRequest(replacement.Replace)
		}
	}
	return passes
}

// ownPlaceholder matches placeholders whose values do not depend on the request.
var ownPlaceholder = regexp.MustCompile(`\{(?:http\.reverse_proxy\.upstream|env|system|file)\.[A-Za-z0-9_./-]+\}`)

// variesWithRequest reports whether values have placeholders that may depend on the request.
func variesWithRequest(values ...string) bool {
	for _, value := range values {
		if strings.Contains(ownPlaceholder.ReplaceAllString(value, ""), "{") {
			return true
		}
	}
	return false
}
