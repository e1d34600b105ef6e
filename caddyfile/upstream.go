package caddyfile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/transports"
)

// upstreamHost is the placeholder of the address that reverse_proxy has chosen.
const upstreamHost = "{http.reverse_proxy.upstream.hostport}"

// reverseProxy keeps the nested reverse_proxy for buildUpstream.
func (p *parser) reverseProxy(o option) error {
	p.proxy = o.tokens
	if args := o.RemainingArgs(); len(args) > 0 && isMatcher(args[0]) {
		return o.Errf("%s takes no matcher in mcp_cache, not %q; put it after mcp_cache", o.name, args[0])
	}
	if len(p.urls) == 0 {
		return nil
	}
	return p.refuseUpstreams(newOption(o.tokens))
}

// isMatcher tells whether a first argument would be a matcher if reverse_proxy
// stood on its own.
func isMatcher(arg string) bool {
	return arg == "*" || strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, "@")
}

// refuseUpstreams is an error if a nested reverse_proxy names upstreams besides
// the URLs.
func (p *parser) refuseUpstreams(o option) error {
	const twice = "mcp_cache has its upstreams from its URLs; the %s of its reverse_proxy cannot name more of them"
	if o.NextArg() {
		return o.Errf(twice, "arguments")
	}
	for o.NextBlock(0) {
		if name := o.Val(); name == "to" || name == "dynamic" {
			return o.Errf(twice, name)
		}
		o.NextSegment() // skip to the next option
	}
	return nil
}

// buildUpstream makes the embedded handler out of the URLs and the nested
// reverse_proxy. The URLs become arguments of reverse_proxy, whose own parser
// then sees to it that scheme and transport agree.
//
// It sets no TLS server name: without one, each https upstream is asked for,
// and verified as, the host of its own URL, also when there are several.
func (p *parser) buildUpstream() error {
	proxy := p.proxy
	if proxy == nil {
		name := p.directive
		name.Text = "reverse_proxy"
		proxy = caddyparse.Segment{name}
	}
	tokens := slices.Clone(proxy[:1])
	for _, u := range p.urls {
		address := proxy[0] // on its line, whatever was imported
		address.Text = u.address()
		tokens = append(tokens, address)
	}
	tokens = append(tokens, proxy[1:]...)

	d := caddyparse.NewDispenser(tokens)
	handler := new(reverseproxy.Handler)
	if err := handler.UnmarshalCaddyfile(d); err != nil {
		return err
	}
	if err := handler.FinalizeUnmarshalCaddyfile(p.WithDispenser(d)); err != nil {
		return err
	}
	if len(handler.Upstreams) == 0 && handler.DynamicUpstreamsRaw == nil {
		if p.into != nil {
			return newOption(caddyparse.Segment{p.directive}).Errf(
				"server %s needs an upstream: a URL such as http://127.0.0.1:3001/mcp, or a reverse_proxy block that names one", p.into.Name)
		}
		return newOption(caddyparse.Segment{p.directive}).Err(
			"mcp_cache needs an upstream: a URL such as http://127.0.0.1:3001/mcp, or a reverse_proxy block that names one")
	}
	if len(p.urls) > 0 {
		if err := sendOwnHost(handler); err != nil {
			return err
		}
	}
	var err error
	p.handler.UpstreamRaw, err = encodeModule(d, handler, "handler", "reverse_proxy")
	return err
}

// sendOwnHost makes the upstream's address the Host of its requests, because
// MCP servers on loopback addresses refuse any other (DNS rebinding). An
// operator's own header_up Host is left alone. It is the transport that sets
// the Host, unless the operator has chosen another one than Caddy's.
func sendOwnHost(handler *reverseproxy.Handler) error {
	if handler.Headers != nil && handler.Headers.Request != nil && changesHost(handler.Headers.Request) {
		return nil
	}
	transport := map[string]json.RawMessage{"protocol": json.RawMessage(`"http"`)}
	if handler.TransportRaw != nil {
		if err := json.Unmarshal(handler.TransportRaw, &transport); err != nil {
			return fmt.Errorf("reading transport: %w", err)
		}
	}
	if string(transport["protocol"]) != `"http"` {
		setHost(handler)
		return nil
	}
	transport["protocol"] = json.RawMessage(`"` + transports.UpstreamHostName + `"`)
	var err error
	if handler.TransportRaw, err = json.Marshal(transport); err != nil {
		return fmt.Errorf("writing transport: %w", err)
	}
	return nil
}

// setHost has reverse_proxy set the Host.
func setHost(handler *reverseproxy.Handler) {
	if handler.Headers == nil {
		handler.Headers = new(headers.Handler)
	}
	if handler.Headers.Request == nil {
		handler.Headers.Request = new(headers.HeaderOps)
	}
	ops := handler.Headers.Request
	if ops.Set == nil {
		ops.Set = make(http.Header)
	}
	ops.Set.Set("Host", upstreamHost)
}

func changesHost(ops *headers.HeaderOps) bool {
	isHost := func(field string) bool { return strings.EqualFold(field, "Host") }
	for field := range ops.Replace {
		if isHost(field) {
			return true
		}
	}
	return ops.Set.Get("Host") != "" || ops.Add.Get("Host") != "" || slices.ContainsFunc(ops.Delete, isHost)
}
