package guards

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// reach says which addresses a request may connect to. URLs that the operator
// wrote reach anywhere. A URL that an upstream has named reaches no network
// that is more private than the upstream's own, so that an upstream cannot make
// Caddy call its neighbours (OAuth security best practice calls this SSRF).
type reach int

const (
	reachAnywhere     reach = iota // what the operator configured
	reachPublic                    // public addresses only
	reachPrivate                   // and those of private networks
	reachLoopback                  // and those of this host
	reachOnlyLoopback              // those of this host alone
)

const (
	errPrivateAddress = unusable("metadata points to a private address while the upstream is public")
	errForbidden      = unusable("metadata points to an address that is more private than the upstream's")
)

// sharedNetworks are private in effect, though netip does not call them so.
var sharedNetworks = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), // RFC 6598, carriers and overlays
	netip.MustParsePrefix("192.0.0.0/24"),  // RFC 6890
	netip.MustParsePrefix("198.18.0.0/15"), // RFC 2544
}

// translated is the prefix of addresses that a gateway turns into IPv4, RFC 6052.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// addressClass returns the least reach that may connect to an address; false
// means that no limited reach may.
func addressClass(ip netip.Addr) (reach, bool) {
	ip = ip.Unmap()
	if translated.Contains(ip) {
		bytes := ip.As16()
		ip = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	switch {
	case ip.IsLoopback(), ip.IsUnspecified():
		return reachLoopback, true // the unspecified address connects to this host
	case ip.IsPrivate():
		return reachPrivate, true
	case !ip.IsGlobalUnicast():
		return 0, false // link-local, multicast, broadcast
	}
	for _, network := range sharedNetworks {
		if network.Contains(ip) {
			return reachPrivate, true
		}
	}
	return reachPublic, true
}

// permits tells whether a connection to an address is allowed.
func (r reach) permits(ip netip.Addr) error {
	if r == reachAnywhere {
		return nil
	}
	class, ok := addressClass(ip)
	switch {
	case ok && class == reachLoopback && r >= reachLoopback:
		return nil
	case ok && r != reachOnlyLoopback && class <= r:
		return nil
	case r == reachPublic:
		return errPrivateAddress
	}
	return errForbidden
}

// control is a hook of [net.Dialer]. It runs when names have been resolved, so
// that a name cannot stand for one address when checked and another when used.
func (r reach) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return errForbidden
	}
	return r.permits(target.Addr())
}

// reachOf returns the reach of URLs that the given upstream names: that of the
// most public of its addresses. An upstream whose name does not resolve counts
// as public.
func reachOf(ctx context.Context, endpoint *url.URL) reach {
	host := endpoint.Hostname()
	if isLoopbackHost(host) {
		return reachLoopback
	}
	var addresses []netip.Addr
	if ip, err := netip.ParseAddr(host); err == nil {
		addresses = []netip.Addr{ip}
	} else if addresses, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
		return reachPublic
	}
	found := reachLoopback
	for _, ip := range addresses {
		if class, ok := addressClass(ip); !ok || class < found {
			found = class
		}
	}
	return max(found, reachPublic)
}

// isLoopbackHost tells whether a URL's host names this host (RFC 6761).
func isLoopbackHost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// parseEndpoint checks a URL of a token endpoint, an issuer or a metadata
// document: absolute, https unless the host is loopback, without user and
// fragment.
func parseEndpoint(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("not a URL") // its error would repeat the URL
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, errors.New("not an absolute https URL")
	case u.User != nil:
		return nil, errors.New("a URL with a user in it is not allowed")
	case u.Fragment != "":
		return nil, errors.New("a URL with a fragment is not allowed")
	case u.Scheme == "http" && !isLoopbackHost(u.Hostname()):
		return nil, fmt.Errorf("%s is not https (http is for loopback hosts alone)", origin(u))
	}
	return u, nil
}

// origin returns scheme and host of a URL, with the port that it implies.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
