package mcpcache

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
)

// hostPattern matches the values of the option host: a name or address, with or without a
// port.
var hostPattern = regexp.MustCompile(`^(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$`)

// IsHost reports whether a value can be the Host that the feed sends.
func IsHost(value string) bool { return hostPattern.MatchString(value) }

// findFeedHost finds out the Host of the feed's requests, if the Hosts of clients' requests
// reach the server.
func (h *Handler) findFeedHost() error {
	for _, host := range h.SameHosts {
		if !IsHost(host) {
			return fmt.Errorf("same_hosts: %q is not a name or address, with or without a port", host)
		}
	}
	if !passesHost(h.upstream) {
		if h.Host != "" || h.SameHosts != nil {
			return errors.New("host: the server is sent a Host of its own already, whatever the feed and the clients send; " +
				"leave host out, or the header_up Host, the transport or the upstream URL that sets it")
		}
		return nil
	}
	_, address, _ := strings.Cut(h.endpointURL, "://")
	address, _, _ = strings.Cut(address, "/")
	h.feedHost = origin.FoldHost(cmp.Or(h.Host, address))
	return nil
}

// passesHost reports whether the Host that the server is sent depends on the client's. Of a
// handler other than reverse_proxy that is assumed.
func passesHost(upstream caddyhttp.MiddlewareHandler) bool {
	proxy, known := upstream.(*reverseproxy.Handler)
	if !known {
		return true
	}
	if transport, ok := proxy.Transport.(interface{ PassesHost() bool }); ok && !transport.PassesHost() {
		return false
	}
	passes := true
	if transport, ok := proxy.Transport.(reverseproxy.RequestHeaderOpsTransport); ok {
		passes = passesThrough(transport.RequestHeaderOps(), passes)
	}
	if proxy.Headers != nil {
		passes = passesThrough(proxy.Headers.Request, passes)
	}
	return passes
}

// passesThrough is passesHost after header operations; passes says whether the Host depends
// on the client's before. The operations are applied in this order.
func passesThrough(ops *headers.HeaderOps, passes bool) bool {
	if ops == nil {
		return passes
	}
	for _, fields := range []http.Header{ops.Add, ops.Set} {
		for name, values := range fields {
			if strings.EqualFold(name, "Host") {
				passes = variesWithRequest(values...)
			}
		}
	}
	for _, name := range ops.Delete {
		if strings.EqualFold(name, "Host") {
			passes = false // the address stands in for it
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

// IsCookie reports whether a value of the option harmless is a cookie.
func IsCookie(value string) bool { return identity.IsCookie(value) }

// IsCredential reports whether a request header is known to say who a caller
// is. Others may do so too.
func IsCredential(name string) bool { return identity.IsCredential(name) }
