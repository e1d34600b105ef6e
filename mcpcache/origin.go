package mcpcache

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// origins are the browser origins that are let in besides the endpoint's own.
type origins struct {
	allowed map[string]bool // scheme://host[:port]
	hosts   map[string]bool // host[:port]
}

func parseOrigins(list []string) (origins, error) {
	o := origins{allowed: make(map[string]bool), hosts: make(map[string]bool)}
	for _, origin := range list {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
			u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			return o, fmt.Errorf("origins: %q is not of the form scheme://host[:port]", origin)
		}
		// A browser leaves the default port out.
		host := strings.ToLower(strings.TrimSuffix(u.Host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme]))
		o.allowed[u.Scheme+"://"+host] = true
		o.hosts[host] = true
	}
	return o, nil
}

// refuses returns why a request must not be answered, or "". A page of another
// site, or one that has had its own name resolve to this machine (DNS
// rebinding), must not get through to a server that trusts its network
// (2025-11-25, "Security Warning" of the Streamable HTTP transport). The
// upstream cannot check that itself: it may see another Host, and of an answer
// from the cache it sees nothing.
func (o origins) refuses(r *http.Request) string {
	host := strings.ToLower(r.Host)
	if arrivedAtLoopback(r) && !isLoopbackName(hostname(host)) && !o.hosts[host] {
		return "Host header does not name this machine, and origins does not list it"
	}
	values := r.Header["Origin"]
	if len(values) == 0 {
		return ""
	}
	origin := strings.ToLower(values[0])
	if len(values) == 1 && (o.allowed[origin] || sameOrigin(origin, host)) {
		return ""
	}
	return "Origin is not the endpoint's own, and origins does not list it"
}

// sameOrigin reports whether an Origin names that host. The scheme is left
// out: TLS may have ended in front of us.
func sameOrigin(origin, host string) bool {
	scheme, authority, ok := strings.Cut(origin, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return false
	}
	if authority == host {
		return true
	}
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	return strings.TrimSuffix(authority, port) == strings.TrimSuffix(host, port)
}

func arrivedAtLoopback(r *http.Request) bool {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	case *net.UDPAddr: // HTTP/3
		return addr.IP.IsLoopback()
	}
	return false
}

func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

func isLoopbackName(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true // RFC 6761 section 6.3
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// refuse answers 403 with a JSON-RPC error, so that no client takes it for a
// server of another era.
func (h *Handler) refuse(w http.ResponseWriter, reason string) error {
	const invalidRequest = -32600
	body := message.AppendError(nil, nil, invalidRequest, reason)
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Cache-Status"] = []string{h.status.name + "; detail=origin"}
	w.WriteHeader(http.StatusForbidden)
	_, err := w.Write(body)
	return err
}
