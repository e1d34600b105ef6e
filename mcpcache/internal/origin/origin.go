// Package origin tells requests of foreign web pages, and of names that were made
// to resolve to this machine, from those that may reach an MCP server. It knows
// nothing of what is asked for.
package origin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Rules are the browser origins that are let in besides the endpoint's own.
type Rules struct {
	allowed map[string]bool // scheme://host[:port]
	hosts   map[string]bool // host[:port]
}

// Parse reads the values of the option origins. An error names the one that is
// not an origin.
func Parse(list []string) (Rules, error) {
	o := Rules{allowed: make(map[string]bool), hosts: make(map[string]bool)}
	for _, origin := range list {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
			u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			return o, fmt.Errorf("origins: %q is not of the form scheme://host[:port]", origin)
		}
		// A browser leaves the default port out.
		host := FoldHost(strings.TrimSuffix(u.Host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme]))
		o.allowed[u.Scheme+"://"+host] = true
		o.hosts[host] = true
	}
	return o, nil
}

// Refuses returns why a request must not be answered, or "". A page of another
// site, or one that has had its own name resolve to this machine (DNS
// rebinding), must not get through to a server that trusts its network
// (2025-11-25, "Security Warning" of the Streamable HTTP transport). The
// upstream cannot check that itself: it may see another Host, and of an answer
// from the cache it sees nothing.
func (o Rules) Refuses(r *http.Request) string {
	if reason := o.refusesHost(r); reason != "" {
		return reason
	}
	if values := r.Header["Origin"]; len(values) > 0 {
		if !o.letsIn(values, r.Host) {
			return foreignOrigin
		}
		return ""
	}
	if isOfAnotherSite(r.Header) && !isNavigation(r) {
		return foreignSite
	}
	return ""
}

// RefusesElsewhere is Refuses for the paths besides the endpoint. Servers may
// take some of them for the endpoint, so the Host has to be right there too,
// and whatever can change something has to come from a page that is let in.
// What only reads need not: the upstream sees the Origin, and its answer
// decides whether the page may (a client in a browser reads /.well-known/). It has
// to if credentials are lent to each request: the page would read with them.
func (o Rules) RefusesElsewhere(r *http.Request, lent bool) string {
	if reason := o.refusesHost(r); reason != "" {
		return reason
	}
	values := r.Header["Origin"]
	switch {
	case isOwnForm(r.Header), onlyReads(r) && !lent, len(values) == 0 && isNavigation(r):
		return ""
	case len(values) > 0 && !o.letsIn(values, r.Host):
		return foreignOrigin
	case len(values) == 0 && isOfAnotherSite(r.Header):
		return foreignSite
	}
	return ""
}

const (
	foreignOrigin = "Origin is not the endpoint's own, and origins does not list it"
	foreignSite   = "Sec-Fetch-Site says that a page of another origin sends the request, and there is no Origin that tells which"
)

// refusesHost returns why a request must not be answered for the Host that it
// names, or "".
func (o Rules) refusesHost(r *http.Request) string {
	for _, host := range r.Header["Host"] {
		// HTTP/2 and 3 name it twice, if at all: :authority counts (RFC 9113
		// section 8.3.1).
		if FoldHost(host) != FoldHost(r.Host) {
			return "Host header is not the authority of the request"
		}
	}
	if host := FoldHost(r.Host); arrivedAtLoopback(r) && !namesThisMachine(host) && !o.hosts[host] {
		return "Host header does not name this machine, and origins does not list it"
	}
	return ""
}

// Allows reports whether the option names an origin.
func (o Rules) Allows(origin string) bool { return o.allowed[FoldHost(origin)] }

// letsIn reports whether those values of the Origin header are one origin that
// may use the server at that Host.
func (o Rules) letsIn(values []string, host string) bool {
	origin := FoldHost(values[0])
	return len(values) == 1 && (o.allowed[origin] || Same(origin, FoldHost(host)))
}

// onlyReads reports whether a request only asks for something. One that wants
// another protocol, such as a WebSocket, does more.
func onlyReads(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return r.Header["Upgrade"] == nil
	}
	return false
}

// isOwnForm reports whether the browser says that a page of the very site sent
// the request. Forms of pages that send no referrer, such as sign-in pages,
// have "null" for their Origin (Fetch, "append a request `Origin` header").
func isOwnForm(h http.Header) bool {
	origin, site := h["Origin"], h["Sec-Fetch-Site"]
	return len(origin) == 1 && origin[0] == "null" && len(site) == 1 && site[0] == "same-origin"
}

// isOfAnotherSite reports whether the browser says that a page of another origin
// sent the request: of another site, or of another host of the same one (Fetch
// Metadata Request Headers, "Sec-Fetch-Site"; [http.CrossOriginProtection] reads it
// so too). Clients other than browsers say nothing.
func isOfAnotherSite(h http.Header) bool {
	for _, site := range h["Sec-Fetch-Site"] {
		if site != "" && site != "same-origin" && site != "none" {
			return true
		}
	}
	return false
}

// isNavigation reports whether somebody has followed a link to a page of its own:
// no other page gets to see the answer, and no other can be behind it.
func isNavigation(r *http.Request) bool {
	mode, destination := r.Header["Sec-Fetch-Mode"], r.Header["Sec-Fetch-Dest"]
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header["Upgrade"] == nil &&
		len(mode) == 1 && mode[0] == "navigate" && len(destination) == 1 && destination[0] == "document"
}

// Same reports whether an origin names that host, both in lower case. The scheme is left
// out: TLS may have ended in front of us.
func Same(origin, host string) bool {
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

// namesThisMachine reports whether a Host, in lower case, is a loopback name or
// address, written as clients write it: with nothing before it, no zone, and
// nothing but a port behind it.
func namesThisMachine(host string) bool {
	if literal, found := strings.CutPrefix(host, "["); found {
		literal, port, closed := strings.Cut(literal, "]")
		ip, err := netip.ParseAddr(literal)
		return closed && isPort(port) && err == nil && ip.Is6() && ip.Zone() == "" && ip.IsLoopback()
	}
	name, _, _ := strings.Cut(host, ":")
	if !isPort(host[len(name):]) {
		return false
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") && isName(name) {
		return true // RFC 6761 section 6.3
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// FoldHost returns a host, or an origin, in lower case. What is not ASCII stays as it is: Unicode has
// letters that would become others'.
func FoldHost(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return s
		}
	}
	return strings.ToLower(s)
}

// isPort reports whether s is the end of a Host behind its name: nothing, or a
// colon and digits.
func isPort(s string) bool {
	return s == "" || s[0] == ':' && strings.Trim(s[1:], "0123456789") == ""
}

// isName reports whether s has only what names of hosts have.
func isName(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}
