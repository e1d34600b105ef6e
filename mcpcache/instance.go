package mcpcache

import (
	"encoding/json"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// ownUpstream reports whether this configuration may lead to another server on another
// instance. It does not if it names the servers' addresses, and none is a loopback address or a
// program.
func ownUpstream(raw json.RawMessage) bool {
	var proxy proxyConfig
	if json.Unmarshal(raw, &proxy) != nil || len(proxy.Upstreams) == 0 || proxy.Dynamic != nil {
		return true
	}
	for _, placeholder := range []string{"{env.", "{file.", "{system."} {
		if strings.Contains(string(raw), placeholder) {
			return true
		}
	}
	for _, upstream := range proxy.Upstreams {
		if !sharedAddress(upstream.Dial) {
			return true
		}
	}
	return false
}

// sharedAddress reports whether a dial address is the same server from all hosts.
func sharedAddress(dial string) bool {
	address, err := caddy.ParseNetworkAddress(dial)
	if err != nil || !strings.HasPrefix(address.Network, "tcp") || strings.Contains(dial, "{") {
		return false // behind a Unix socket, or a program
	}
	host := strings.ToLower(strings.TrimSuffix(address.Host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return false
	}
	ip, err := netip.ParseAddr(host)
	ip = ip.Unmap()
	return err != nil || !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsLinkLocalUnicast()
}
