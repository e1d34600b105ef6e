// Package transports holds ways for Caddy's reverse_proxy to reach an upstream:
// modules of the namespace http.reverse_proxy.transport. This one knows nothing of
// MCP, nor of the handler that such an upstream is for; stdio, which runs programs, is in a
// folder of its own.
package transports

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
)

func init() {
	caddy.RegisterModule(new(UpstreamHost))
}

// UpstreamHost is Caddy's HTTP transport, with all of its options. In addition
// it makes the address of the chosen upstream, host and port, the Host of each
// request, as `header_up Host {upstream_hostport}` does. That option, though,
// has reverse_proxy copy all fields of every request, field by field; this
// takes no copy. With TLS too, where Caddy's own transport asks for the option.
// A Host that header_up sets is overwritten. A signed request keeps its Host, which
// the signature covers. A request with a body of up to 4 KiB is sent in one write, once the body is
// there.
//
// Requests of active health checks keep the Host that they have been given.
type UpstreamHost struct {
	// All options of the `http` transport, with its units and defaults.
	reverseproxy.HTTPTransport
}

// UpstreamHostName is the name of the transport in its namespace.
const UpstreamHostName = "upstream_host"

// CaddyModule returns the Caddy module information.
func (*UpstreamHost) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.transport." + UpstreamHostName,
		New: func() caddy.Module { return new(UpstreamHost) },
	}
}

// RequestHeaderOps implements [reverseproxy.RequestHeaderOpsTransport]. There
// are none: RoundTrip sets the Host.
func (*UpstreamHost) RequestHeaderOps() *headers.HeaderOps { return nil }

// PassesHost reports whether the server is sent the Host of the client: it is not, but with
// signed requests.
func (*UpstreamHost) PassesHost() bool { return false }

// RoundTrip implements [http.RoundTripper]. As Caddy's transports do, it
// changes the request, which reverse_proxy makes for each attempt.
func (t *UpstreamHost) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	// Only requests that a server has received are proxied.
	if _, proxied := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); proxied {
		if chosen, ok := reverseproxy.GetDialInfo(ctx); ok && !header.IsSigned(req.Header) {
			req.Host = chosen.Address
		}
		if err := sendWhole(req); err != nil {
			return nil, err
		}
	}
	return t.HTTPTransport.RoundTrip(req)
}

// Interface guards
var (
	_ caddy.Provisioner                                = (*UpstreamHost)(nil)
	_ caddy.CleanerUpper                               = (*UpstreamHost)(nil)
	_ http.RoundTripper                                = (*UpstreamHost)(nil)
	_ reverseproxy.TLSTransport                        = (*UpstreamHost)(nil)
	_ reverseproxy.H2CTransport                        = (*UpstreamHost)(nil)
	_ reverseproxy.HealthCheckSchemeOverriderTransport = (*UpstreamHost)(nil)
	_ reverseproxy.ProxyProtocolTransport              = (*UpstreamHost)(nil)
	_ reverseproxy.RequestHeaderOpsTransport           = (*UpstreamHost)(nil)
)
