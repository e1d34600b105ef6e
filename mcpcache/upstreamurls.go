package mcpcache

import (
	"encoding/json"
	"net"
	"slices"
	"strings"
)

// proxyConfig is what of the configuration of a reverse_proxy says where it leads.
type proxyConfig struct {
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

// upstreamURLs returns the URLs of the MCP endpoint at that path, of each upstream of
// a reverse_proxy. The first is that of the feed's requests: its host is what the
// Host header says, unless the operator sets another with header_up. The way to the
// upstream is the handler's own: known says that it leads to the first address, and
// nowhere that is found out for each request, behind a proxy or in another handler.
func upstreamURLs(raw json.RawMessage, path string) (urls []string, known bool) {
	var proxy proxyConfig
	if json.Unmarshal(raw, &proxy) != nil || len(proxy.Upstreams) == 0 {
		return []string{"http://localhost" + path}, false
	}
	known = proxy.Handler == "reverse_proxy" && proxy.Dynamic == nil &&
		proxy.Transport.ForwardProxy == "" && proxy.Transport.NetworkProxy == nil
	for i, upstream := range proxy.Upstreams {
		base, leads := baseURL(upstream.Dial, proxy.Transport.TLS != nil)
		if i == 0 {
			known = known && leads
		}
		if url := base + path; !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	return urls, known
}

// pickedByRequest returns the first address of a reverse_proxy's upstreams that depends on the
// request, "" if none does: which server the feed's requests should go to is not known then.
func pickedByRequest(raw json.RawMessage) string {
	var proxy proxyConfig
	if json.Unmarshal(raw, &proxy) != nil {
		return ""
	}
	for _, upstream := range proxy.Upstreams {
		if variesWithRequest(upstream.Dial) {
			return upstream.Dial
		}
	}
	if found := placeholderPattern.Find(proxy.Dynamic); found != nil && variesWithRequest(string(found)) {
		return string(found)
	}
	return ""
}

// baseURL returns the scheme and host for an address to dial, and whether that is
// where it leads.
func baseURL(dial string, tls bool) (base string, leads bool) {
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
