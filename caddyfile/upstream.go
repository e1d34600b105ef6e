package caddyfile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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
	switch {
	case len(p.urls) > 0:
		return p.refuseUpstreams(newOption(o.tokens), "its URLs")
	case p.command != nil:
		return p.refuseUpstreams(newOption(o.tokens), "its command")
	}
	return nil
}

// isMatcher tells whether a first argument would be a matcher if reverse_proxy
// stood on its own.
func isMatcher(arg string) bool {
	return arg == "*" || strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, "@")
}

// refuseUpstreams is an error if a nested reverse_proxy names upstreams besides
// those that the directive has from elsewhere.
func (p *parser) refuseUpstreams(o option, elsewhere string) error {
	const twice = "mcp_cache has its upstreams from %s; the %s of its reverse_proxy cannot name more of them"
	if o.NextArg() {
		return o.Errf(twice, elsewhere, "arguments")
	}
	for o.NextBlock(0) {
		switch name := o.Val(); {
		case name == "to" || name == "dynamic":
			return o.Errf(twice, elsewhere, name)
		case name == "transport" && p.command != nil:
			return o.Errf("a command is reached by the transport stdio; reverse_proxy cannot name another one")
		}
		o.NextSegment() // skip to the next option
	}
	return nil
}

// buildUpstream makes the embedded handler out of the URLs, or the command, and the nested
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
	for _, text := range p.addresses() {
		address := proxy[0] // on its line, whatever was imported
		address.Text = text
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
		return newOption(caddyparse.Segment{p.directive}).Errf(
			"%s needs an upstream: a URL such as http://127.0.0.1:3001/mcp, %s, or a reverse_proxy block that names one", p.who(), aCommand)
	}
	var err error
	switch {
	case len(p.urls) > 0:
		err = adjustTransport(handler, p.urls[0].scheme)
	case p.command != nil:
		err = p.runProgram(handler)
	}
	if err != nil {
		return err
	}
	p.server.UpstreamRaw, err = encodeModule(d, handler, "handler", "reverse_proxy")
	return err
}

// who is what the block belongs to, in errors.
func (p *parser) who() string {
	if p.into != nil {
		return "server " + p.into.Name
	}
	return p.directive.Text
}

// addresses returns those of the upstreams that the directive's arguments name.
func (p *parser) addresses() []string {
	if p.command != nil {
		return []string{p.programAddress()}
	}
	addresses := make([]string, len(p.urls))
	for i, u := range p.urls {
		addresses[i] = u.address()
	}
	return addresses
}

// adjustTransport makes of Caddy's transport what suits MCP servers. Another one that an
// operator has chosen is left alone, and so is an operator's own header_up Host.
func adjustTransport(handler *reverseproxy.Handler, scheme string) error {
	transport := map[string]json.RawMessage{"protocol": json.RawMessage(`"http"`)}
	if handler.TransportRaw != nil {
		if err := json.Unmarshal(handler.TransportRaw, &transport); err != nil {
			return fmt.Errorf("reading transport: %w", err)
		}
	}
	keepsHost := handler.Headers != nil && handler.Headers.Request != nil && changesHost(handler.Headers.Request)
	if protocol := string(transport["protocol"]); protocol != `"http"` && protocol != `"`+transports.UpstreamHostName+`"` {
		if !keepsHost {
			setHost(handler)
		}
		return nil
	}
	if !keepsHost {
		sendOwnHost(transport)
	}
	if scheme == "http" {
		if err := keepAlive(transport); err != nil {
			return err
		}
	}
	var err error
	if handler.TransportRaw, err = json.Marshal(transport); err != nil {
		return fmt.Errorf("writing transport: %w", err)
	}
	return nil
}

// sendOwnHost makes the upstream's address the Host of its requests, because
// MCP servers on loopback addresses refuse any other (DNS rebinding).
func sendOwnHost(transport map[string]json.RawMessage) {
	transport["protocol"] = json.RawMessage(`"` + transports.UpstreamHostName + `"`)
}

// idleConnection is how long a connection is kept that nothing is sent on. Node closes one
// after 5 seconds, and a POST that is sent just then is lost (agentgateway#1202). With TLS,
// where another connection costs a handshake, it is as long as Caddy's.
const idleConnection = 4 * time.Second

// keepAlive has connections without TLS kept for [idleConnection], unless the operator has said
// how long they are.
func keepAlive(transport map[string]json.RawMessage) error {
	kept := make(map[string]json.RawMessage)
	if raw := transport["keep_alive"]; raw != nil {
		if err := json.Unmarshal(raw, &kept); err != nil {
			return fmt.Errorf("reading keepalive: %w", err)
		}
	}
	if kept["idle_timeout"] != nil || string(kept["enabled"]) == "false" {
		return nil
	}
	kept["idle_timeout"] = strconv.AppendInt(nil, int64(idleConnection), 10)
	var err error
	if transport["keep_alive"], err = json.Marshal(kept); err != nil {
		return fmt.Errorf("writing keepalive: %w", err)
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
