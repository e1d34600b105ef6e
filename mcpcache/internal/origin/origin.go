// Package origin decides which requests may reach an MCP server. It rejects requests of foreign
// web pages. It also rejects names that somebody has made resolve to this machine. It knows
// nothing of what a request asks for.
package origin

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Rules are the browser origins that are let in besides the endpoint's own.
type Rules struct {
	// Names reports whether the configuration names a Host, in lower case, for the site at
	// which a request has arrived; nil if it names none.
	Names func(r *http.Request, host string) bool

	any     bool
	allowed map[string]bool // scheme://host[:port], or null
	hosts   map[string]bool // host[:port]
}

// Any is the value of the option origins that lets in pages of every origin. Then a Host need
// not be known either: what a name that was made to resolve to this machine could do, any page may.
const Any = "*"

// opaque is the Origin of pages that have none to name, such as those of files and of frames in a
// sandbox (RFC 6454 section 6.2).
const opaque = "null"

// Parse reads the values of the option origins. An error names the one that is
// not an origin.
func Parse(list []string) (Rules, error) {
	o := Rules{allowed: make(map[string]bool), hosts: make(map[string]bool)}
	for _, origin := range list {
		if !IsOrigin(origin) {
			return o, fmt.Errorf("origins: %q is not of the form scheme://host[:port], null or %s", origin, Any)
		}
		if origin == Any {
			o.any = true
			continue
		}
		origin = FoldHost(origin)
		scheme, host, _ := strings.Cut(origin, "://")
		if port := defaultPorts[scheme]; port != "" {
			// A browser leaves the default port out.
			host = strings.TrimSuffix(host, port)
			origin = scheme + "://" + host
			o.hosts[host], o.hosts[host+port] = true, true
		}
		o.allowed[origin] = true
	}
	return o, nil
}

var defaultPorts = map[string]string{"http": ":80", "https": ":443"}

// IsOrigin reports whether the option origins can have a value: what a page's Origin header may
// say (RFC 6454 section 6.2), but for the letters' case, or [Any]. Applications have schemes of their
// own, such as app://, and those that are made of files may say file:// (Electron).
func IsOrigin(value string) bool {
	if strings.ContainsFunc(value, func(r rune) bool { return r >= 0x80 }) {
		return false // a browser writes other letters as xn--…
	}
	if value == Any || value == opaque || strings.EqualFold(value, "file://") {
		return true
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme == "" || u.Hostname() == "" || strings.ContainsAny(value, "*{},") || strings.HasSuffix(value, ":") {
		return false
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "1"), 10, 16)
	return err == nil && port > 0 && strings.EqualFold(value, u.Scheme+"://"+u.Host)
}

// Refusal is why a request must not be answered.
type Refusal struct {
	// Reason is for whoever has sent it; "" if it may be answered.
	Reason string
	// Remedy is for the operator who wants such requests to be answered, Field and Value are what
	// it is about.
	Remedy, Field, Value string
}

// Remark is what the operator is told of it: a text, and the name and value of what it is about.
func (r Refusal) Remark() (text, name, value string) {
	return "a request was refused: " + r.Reason + "; " + r.Remedy, r.Field, r.Value
}

// Refuses returns why a request must not be answered, if so. A page of another
// site, or one that has had its own name resolve to this machine (DNS
// rebinding), must not get through to a server that trusts its network
// (2025-11-25, "Security Warning" of the Streamable HTTP transport). The
// upstream cannot check that itself: it may see another Host, and of an answer
// from the cache it sees nothing.
func (o Rules) Refuses(r *http.Request) Refusal {
	if refusal := o.RefusesHost(r); refusal.Reason != "" || o.any {
		return refusal
	}
	if values := r.Header["Origin"]; len(values) > 0 {
		if !o.letsIn(r, values) {
			return foreignOrigin(values)
		}
		return Refusal{}
	}
	if isOfAnotherSite(r.Header) && !isNavigation(r) {
		return foreignSite(r.Header)
	}
	return Refusal{}
}

// RefusesElsewhere is Refuses for the paths besides the endpoint. Servers may
// take some of them for the endpoint, so the Host has to be right there too,
// and whatever can change something has to come from a page that is let in.
// What only reads need not: the upstream sees the Origin, and its answer
// decides whether the page may (a client in a browser reads /.well-known/). It has
// to if credentials are lent to each request: the page would read with them.
func (o Rules) RefusesElsewhere(r *http.Request, lent bool) Refusal {
	if refusal := o.RefusesHost(r); refusal.Reason != "" || o.any {
		return refusal
	}
	values := r.Header["Origin"]
	switch {
	case isOwnForm(r.Header), onlyReads(r) && !lent, len(values) == 0 && isNavigation(r):
		return Refusal{}
	case len(values) > 0 && !o.letsIn(r, values):
		return foreignOrigin(values)
	case len(values) == 0 && isOfAnotherSite(r.Header):
		return foreignSite(r.Header)
	}
	return Refusal{}
}

func foreignOrigin(values []string) Refusal {
	return Refusal{
		"Origin is not the endpoint's own, and origins does not list it",
		"if its pages may use the server, name it in the option origins", "origin", strings.Join(values, ", "),
	}
}

func foreignSite(h http.Header) Refusal {
	return Refusal{
		"Sec-Fetch-Site says that a page of another origin sends the request, and there is no Origin that tells which",
		"only origins " + Any + " lets such pages use the server", "sec_fetch_site", strings.Join(h["Sec-Fetch-Site"], ", "),
	}
}

// RefusesHost returns why a request must not be answered for the Host that it
// names, if so.
func (o Rules) RefusesHost(r *http.Request) Refusal {
	for _, host := range r.Header["Host"] {
		// HTTP/2 and 3 name it twice, if at all: :authority counts (RFC 9113
		// section 8.3.1).
		if FoldHost(host) != FoldHost(r.Host) {
			return Refusal{"Host header is not the authority of the request", "no client should name two", "host", host}
		}
	}
	if host := FoldHost(r.Host); !o.mayBe(r, host) {
		return Refusal{
			"Host header names neither this machine nor an address of the site, and origins does not list it",
			"if it is a name of the server, make it an address of the site, or name it in the option origins, with https:// in front", "host", host,
		}
	}
	return Refusal{}
}

// mayBe reports whether a host, in lower case, may be that at which a request has arrived: at
// a loopback address it has to be known.
func (o Rules) mayBe(r *http.Request, host string) bool {
	return o.any || !arrivedAtLoopback(r) || namesThisMachine(host) || o.hosts[host] || o.Names != nil && o.Names(r, host)
}

// Allows reports whether the option names an origin.
func (o Rules) Allows(origin string) bool { return o.any || o.allowed[FoldHost(origin)] }

// letsIn reports whether those values of the Origin header are one origin that
// may use the server.
func (o Rules) letsIn(r *http.Request, values []string) bool {
	origin := FoldHost(values[0])
	return len(values) == 1 && (o.allowed[origin] || Same(origin, FoldHost(r.Host)) || o.isOwnPage(r, origin))
}

// isOwnPage reports whether the browser says that the request was sent to where its page is from.
// The origin then names the Host as it was before a handler in front of us has changed it.
func (o Rules) isOwnPage(r *http.Request, origin string) bool {
	site := r.Header["Sec-Fetch-Site"]
	scheme, host, _ := strings.Cut(origin, "://")
	return len(site) == 1 && site[0] == "same-origin" && defaultPorts[scheme] != "" && o.mayBe(r, host)
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
	if !ok || defaultPorts[scheme] == "" {
		return false
	}
	if authority == host {
		return true
	}
	port := defaultPorts[scheme]
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
		return closed && endsInPort(port) && err == nil && ip.Is6() && ip.Zone() == "" && ip.IsLoopback()
	}
	name, _, _ := strings.Cut(host, ":")
	if !endsInPort(host[len(name):]) {
		return false
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") && isName(name) {
		return true // RFC 6761 section 6.3
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// hostPattern matches a name or an address, with or without a port.
var hostPattern = regexp.MustCompile(`^(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$`)

// IsHost reports whether a value can be the Host of a request: a name or an address, with or
// without a port.
func IsHost(value string) bool { return hostPattern.MatchString(value) }

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

// endsInPort reports whether s is the end of a Host behind its name: nothing, or a
// colon and digits.
func endsInPort(s string) bool {
	return s == "" || s[0] == ':' && strings.Trim(s[1:], "0123456789") == ""
}

// isName reports whether s has only what names of hosts have.
func isName(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// FoldHosts returns hosts as [FoldHost] does, in order.
func FoldHosts(hosts []string) (folded []string) {
	for _, host := range hosts {
		folded = append(folded, FoldHost(host))
	}
	slices.Sort(folded)
	return folded
}
