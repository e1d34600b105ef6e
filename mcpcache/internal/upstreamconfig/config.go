// Package upstreamconfig reads the configuration of the handler that reaches an MCP server. It
// finds the server's addresses, the values that the handler adds to requests, and the program that
// the handler runs. It understands Caddy's reverse_proxy. Of other handlers it finds the
// placeholders only.
//
// [Read] reads the JSON of the handler before Caddy loads it. The functions [PassesHost],
// [Addresses] and [ProgramOf] look at the loaded handler.
package upstreamconfig

import (
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/placeholder"
)

// Config is the JSON of a handler. Errors in it are not reported: Caddy reports them when it
// loads the handler.
type Config struct {
	raw   json.RawMessage
	proxy proxy // zero if the JSON has another form
}

// proxy holds the fields of a reverse_proxy that say where it leads.
type proxy struct {
	Handler   string `json:"handler"`
	Upstreams []struct {
		Dial string `json:"dial"`
	} `json:"upstreams"`
	Dynamic   json.RawMessage `json:"dynamic_upstreams"`
	Transport struct {
		TLS          json.RawMessage `json:"tls"`
		ForwardProxy string          `json:"forward_proxy_url"`
		NetworkProxy json.RawMessage `json:"network_proxy"`
	} `json:"transport"`
}

// Read reads the JSON of a handler. The caller does not change it afterwards.
func Read(raw json.RawMessage) Config {
	c := Config{raw: raw}
	if json.Unmarshal(raw, &c.proxy) != nil {
		c.proxy = proxy{}
	}
	return c
}

// Placeholders returns the names of the placeholders that the handler may use, each once and in
// order.
func (c Config) Placeholders() []string { return placeholder.Names(c.raw) }

// URLs returns the URL of the MCP endpoint at path for each upstream of a reverse_proxy, each
// URL once. The feed requests the first one. If the handler names no address, the only URL has
// the host localhost.
//
// direct reports whether the handler always connects to the address in the first URL. It is
// false if a proxy stands in between, if each request has an address of its own, and for handlers
// other than reverse_proxy.
func (c Config) URLs(path string) (urls []string, direct bool) {
	if len(c.proxy.Upstreams) == 0 {
		return []string{"http://localhost" + path}, false
	}
	transport := c.proxy.Transport
	direct = c.proxy.Handler == "reverse_proxy" && c.proxy.Dynamic == nil &&
		transport.ForwardProxy == "" && transport.NetworkProxy == nil
	for i, upstream := range c.proxy.Upstreams {
		base, certain := baseURL(upstream.Dial, transport.TLS != nil)
		if i == 0 {
			direct = direct && certain
		}
		if url := base + path; !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	return urls, direct
}

// baseURL returns the scheme and host for an address to dial. certain is false if the address is
// none of a host.
func baseURL(dial string, tls bool) (base string, certain bool) {
	scheme, defaultPort := "http://", ":80"
	if tls {
		scheme, defaultPort = "https://", ":443"
	}
	host, port, err := net.SplitHostPort(dial)
	if err != nil || port == "" || strings.ContainsAny(dial, "{/") {
		return scheme + "localhost", false
	}
	return scheme + strings.TrimSuffix(dial, defaultPort), host != ""
}

// AddressFromRequest returns the first upstream address of a reverse_proxy that contains a value
// of the request, or "". The feed cannot know the servers behind such an address.
func (c Config) AddressFromRequest() string {
	for _, upstream := range c.proxy.Upstreams {
		if variesWithRequest(upstream.Dial) {
			return upstream.Dial
		}
	}
	for _, name := range placeholder.Names(c.proxy.Dynamic) {
		if text := "{" + name + "}"; variesWithRequest(text) {
			return text
		}
	}
	return ""
}

// MayDifferElsewhere reports whether the same configuration may lead to another server on another
// host. It does not if it names all addresses, and none of them is a loopback address or a
// program.
func (c Config) MayDifferElsewhere() bool {
	if len(c.proxy.Upstreams) == 0 || c.proxy.Dynamic != nil {
		return true
	}
	for _, placeholder := range []string{"{env.", "{file.", "{system."} {
		if strings.Contains(string(c.raw), placeholder) {
			return true
		}
	}
	for _, upstream := range c.proxy.Upstreams {
		if !sameEverywhere(upstream.Dial) {
			return true
		}
	}
	return false
}

// sameEverywhere reports whether an address to dial is the same server on all hosts.
func sameEverywhere(dial string) bool {
	address, err := caddy.ParseNetworkAddress(dial)
	if err != nil || !strings.HasPrefix(address.Network, "tcp") || strings.Contains(dial, "{") {
		return false // a Unix socket, or a program
	}
	host := strings.ToLower(strings.TrimSuffix(address.Host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return false
	}
	ip, err := netip.ParseAddr(host)
	ip = ip.Unmap()
	return err != nil || !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsLinkLocalUnicast()
}
