package mcpcache

import (
	"net"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
)

// serverAddresses returns what the server may be sent as its own address, whatever the
// clients' requests name: where upstreams are dialled, and Hosts that are configured.
func serverAddresses(upstream caddyhttp.MiddlewareHandler) redirect.Addresses {
	proxy, known := upstream.(*reverseproxy.Handler)
	if !known {
		return nil
	}
	var found redirect.Addresses
	for _, upstream := range proxy.Upstreams {
		found = append(found, upstream.Dial)
	}
	if transport, ok := proxy.Transport.(reverseproxy.RequestHeaderOpsTransport); ok {
		found = append(found, hostsSet(transport.RequestHeaderOps())...)
	}
	if proxy.Headers != nil {
		found = append(found, hostsSet(proxy.Headers.Request)...)
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

// hostsSet returns the values that header operations give Host.
func hostsSet(ops *headers.HeaderOps) (values []string) {
	if ops == nil {
		return nil
	}
	for name, set := range ops.Set {
		if strings.EqualFold(name, "Host") {
			values = append(values, set...)
		}
	}
	return values
}
