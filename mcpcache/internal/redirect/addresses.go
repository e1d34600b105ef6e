// Package redirect knows where a server sends its clients. It finds out whether an address is the
// server itself, at an address that clients cannot reach. It also finds out whether an address is
// the server's endpoint with one slash more, or less, at the end. It knows URLs, and nothing of
// MCP.
package redirect

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/origin"
)

// Addresses are those by which a server knows itself because we send them as its Host:
// host and port, or a host alone, which goes with either default port.
type Addresses []string

// include reports whether a URL with a host is at the server: at one of its addresses, or
// at one of the hosts, which are what the request has named.
func (a Addresses) include(u *url.URL, hosts ...string) bool {
	scheme := cmp.Or(u.Scheme, "http") // it may have none, and is the client's then
	if scheme != "http" && scheme != "https" || u.Host == "" || u.User != nil {
		return false
	}
	named := scheme + "://" + origin.FoldHost(u.Host)
	is := func(address string) bool { return origin.Same(named, origin.FoldHost(address)) }
	return slices.ContainsFunc(hosts, is) || slices.ContainsFunc(a, is)
}

// Relative returns a URL at the server as a reference that is right whatever scheme and
// host a client has used, and false for any other URL. prefix is what a site has taken
// from the path of the request, which is put there again unless the server knows of it. A
// reference without scheme and host is the server's own, too.
func (a Addresses) Relative(location, prefix string, hosts ...string) (reference string, ok bool) {
	u, err := url.Parse(location)
	if err != nil {
		return "", false
	}
	if a.include(u, hosts...) {
		_, location, _ = strings.Cut(location, "//")
		if location = strings.TrimPrefix(location, u.Host); !strings.HasPrefix(location, "/") {
			location = "/" + location
		}
	} else if u.Scheme != "" || u.Host != "" || !strings.HasPrefix(location, "/") {
		return "", false
	}
	path := location
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	if !strings.HasPrefix(path+"/", prefix+"/") {
		location = prefix + location
	}
	if len(location) > 1 && (location[1] == '/' || location[1] == '\\') {
		return "", false // it would name a host (RFC 3986 section 4.2; browsers take \ for /)
	}
	return location, true
}

// Twin returns a path with a slash more, or less, at its end; "" if it has none.
func Twin(path string) string {
	if without, found := strings.CutSuffix(path, "/"); found {
		return without
	}
	if path == "" {
		return ""
	}
	return path + "/"
}

// toTwin reports whether an answer sends the request for a URL, at that host, to the twin
// of its path, to be repeated there as it is (RFC 9110 sections 15.4.8 and 15.4.9).
func (a Addresses) toTwin(u *url.URL, host string, status int, location string) bool {
	if status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect || u.RawPath != "" {
		return false
	}
	to, err := (&url.URL{Scheme: "http", Host: host, Path: u.Path}).Parse(location)
	return err == nil && to.Path != "" && to.Path == Twin(u.Path) && to.RawPath == "" && to.RawQuery == u.RawQuery && a.include(to, host)
}

// Metadata matches where a challenge says that its metadata is (RFC 9728 section 5.1): what is
// before the URL, and the URL.
var Metadata = regexp.MustCompile(`(?i)(\bresource_metadata\s*=\s*")([^"\\]*)"`)

// IsHTTPS reports whether a URL has that scheme.
func IsHTTPS(location string) bool {
	const scheme = "https:"
	return len(location) > len(scheme) && strings.EqualFold(location[:len(scheme)], scheme)
}

// LeadsInside returns the host of a URL that a challenge gives as its metadata, if clients of a site
// cannot be expected to reach it; "" if they can. Inside is what operators are told of that.
func LeadsInside(metadata, site string) string {
	u, err := url.Parse(metadata)
	if err != nil || !IsInternal(u.Host) || IsInternal(site) {
		return ""
	}
	return u.Host
}

// Inside is the warning about the hosts that [LeadsInside] returns.
const Inside = "a refusal of the server leads clients to an address that they may not reach, to find out where to log in; " +
	"configure the server with the public URL of this endpoint"

// IsInternal reports whether a host, perhaps with a port, is one of this machine or of a private
// network: clients elsewhere cannot reach it. A name counts if it has no dot, or ends in one that no
// public name ends in (RFC 6761, RFC 6762, and .internal of ICANN).
func IsInternal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsUnspecified() || ip.IsLinkLocalUnicast()
	}
	for _, end := range []string{".localhost", ".local", ".internal"} {
		if strings.HasSuffix(host, end) {
			return true
		}
	}
	return host != "" && !strings.Contains(host, ".")
}
