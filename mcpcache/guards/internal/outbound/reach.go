package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/credential"
)

// Reach says which addresses a request may connect to: where a URL that the
// operator wrote leads, or where one may lead that an upstream has named. An
// upstream can make Caddy call itself and the public, but not its neighbours
// (OAuth security best practice calls that SSRF).
type Reach int

const (
	reachAnywhere    Reach = iota // https that the operator wrote
	reachLoopback                 // http that the operator wrote, which is for this host alone
	reachPublic                   // https that an upstream named
	reachOwn                      // the upstream itself, on a public address or in a private network
	reachOwnLoopback              // the upstream itself, on this host
)

// Advice is what an operator can do about discovery that goes too far.
const Advice = "; to allow it, set issuer or token_endpoint in the guard"

const (
	// ErrOutOfReach is the error of a URL, or of an address that its name stands
	// for, which an upstream may not name.
	ErrOutOfReach = credential.UnusableError("an upstream may name no more than its own origin and public https endpoints" + Advice)

	// ErrListening is the error of an address that an upstream has named and
	// where Caddy itself listens.
	ErrListening = credential.UnusableError("this Caddy itself listens there" + Advice)

	errNotHere = credential.UnusableError("http is for loopback addresses alone")
)

// named tells whether an upstream has named the URL.
func (r Reach) named() bool { return r >= reachPublic }

// permits tells whether a connection to an address is allowed.
func (r Reach) permits(ip netip.Addr) error {
	class := addressClass(ip)
	switch r {
	case reachAnywhere:
		return nil
	case reachLoopback:
		if class != addressLoopback {
			return errNotHere
		}
		return nil
	case reachOwnLoopback:
		if class == addressLoopback {
			return nil
		}
	case reachOwn:
		if class == addressPublic || class == addressPrivate {
			return nil
		}
	case reachPublic:
		if class == addressPublic {
			return nil
		}
	}
	return ErrOutOfReach
}

// Bounds are the limits of the URLs that lead to a token: those of the operator
// have none. The nil bounds are the operator's.
type Bounds struct {
	// Own is the upstream's endpoint, nil if only the handler that reaches the
	// upstream knows it.
	Own *url.URL
	// Verified says that whoever answers by https must prove its name.
	Verified bool
}

// Parse checks a URL, and returns how far a request to it may reach.
func (b *Bounds) Parse(ctx context.Context, raw string) (*url.URL, Reach, error) {
	u, err := parseEndpoint(ctx, raw)
	switch {
	case err != nil:
		return nil, 0, err
	case b == nil && u.Scheme == "http":
		return u, reachLoopback, nil
	case b == nil:
		return u, reachAnywhere, nil
	case b.Own != nil && Origin(u) == Origin(b.Own):
		return u, b.ownReach(), nil
	case u.Scheme == "http":
		return nil, 0, fmt.Errorf("%s: %w", Place(ctx, u), ErrOutOfReach)
	}
	return u, reachPublic, nil
}

// ownReach is how far a request to the upstream itself may reach. An address is
// as the operator wrote it. A name may stand for another address now than when
// the upstream was called: never for this host, and for a private network only
// if who answers must prove the name.
func (b *Bounds) ownReach() Reach {
	host := b.Own.Hostname()
	_, err := netip.ParseAddr(host)
	switch {
	case isLoopbackHost(host):
		return reachOwnLoopback
	case err == nil || b.Verified:
		return reachOwn
	}
	return reachPublic
}

// class says how public an address is.
type class int

const (
	addressOther    class = iota // link-local, multicast, reserved: for no upstream to name
	addressLoopback              // of this host
	addressPrivate               // of a private network
	addressPublic
)

var (
	// privateNetworks are private in effect, though netip does not call them so.
	privateNetworks = prefixes(
		"100.64.0.0/10",  // RFC 6598, carriers and overlays
		"192.0.0.0/24",   // RFC 6890
		"198.18.0.0/15",  // RFC 2544
		"fec0::/10",      // RFC 3879, once site-local
		"64:ff9b:1::/48", // RFC 8215, a network's own way to IPv4
	)
	// otherNetworks have no hosts, or lead to addresses that they do not show.
	otherNetworks = prefixes(
		"0.0.0.0/8",   // RFC 1122 section 3.2.1.3
		"240.0.0.0/4", // RFC 1112 section 4
		"2001::/23",   // RFC 2928, Teredo and others
	)
	globalUnicast = netip.MustParsePrefix("2000::/3") // RFC 4291 section 2.4
	translated    = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
)

func prefixes(texts ...string) (found []netip.Prefix) {
	for _, text := range texts {
		found = append(found, netip.MustParsePrefix(text))
	}
	return found
}

// addressClass tells how public an address is.
func addressClass(ip netip.Addr) class {
	ip = carried(ip.WithZone(""))
	within := func(p netip.Prefix) bool { return p.Contains(ip) }
	switch {
	case ip.IsLoopback(), ip.IsUnspecified():
		return addressLoopback // the unspecified address connects to this host
	case ip.IsPrivate(), slices.ContainsFunc(privateNetworks, within):
		return addressPrivate
	case !ip.IsGlobalUnicast(), slices.ContainsFunc(otherNetworks, within):
		return addressOther
	case ip.Is6() && !globalUnicast.Contains(ip):
		return addressOther // such as ::127.0.0.1, RFC 4291 section 2.5.5.1
	}
	return addressPublic
}

// carried returns the IPv4 address that an IPv6 address stands for: mapped,
// translated by a gateway (RFC 6052) or reached through one (RFC 3056).
func carried(ip netip.Addr) netip.Addr {
	ip = ip.Unmap()
	bytes := ip.As16()
	switch {
	case translated.Contains(ip):
		return netip.AddrFrom4([4]byte(bytes[12:]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return ip
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

// Operators are the bounds of what the operator wrote, and of what that leads to.
var Operators *Bounds

// parseEndpoint checks a URL of a token endpoint, an issuer or a metadata
// document: absolute, https unless the host is loopback, without user and
// fragment.
func parseEndpoint(ctx context.Context, raw string) (*url.URL, error) {
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
		return nil, fmt.Errorf("%s is not https (http is for loopback hosts alone)", Shown(ctx, Origin(u)))
	}
	return u, nil
}

// Origin returns scheme and host of a URL, with the port that it implies.
func Origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
