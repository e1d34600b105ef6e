package caddyfile

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// aPath is what an endpoint must be, in the words of its errors.
const aPath = "one clean absolute path, such as /mcp, of visible ASCII without ? # % \\ { }"

// upstreamURL is the URL of one replica of the upstream.
type upstreamURL struct {
	scheme string
	host   string // without brackets
	port   string
	path   string // empty if the URL has none
}

// address is the URL without its path, which reverse_proxy takes.
func (u upstreamURL) address() string {
	return (&url.URL{Scheme: u.scheme, Host: net.JoinHostPort(u.host, u.port)}).String()
}

// parseURLs reads the directive's arguments.
func (p *parser) parseURLs() error {
	for p.NextArg() {
		if p.Val() == "stdio" && len(p.urls) == 0 {
			return p.parseCommand()
		}
		u, err := parseUpstreamURL(p.Val())
		if err == nil {
			err = p.addURL(u)
		}
		if err != nil {
			return p.Errf("upstream URL %q %w", shown(p.Val()), err)
		}
	}
	return nil
}

// addURL adds a replica, which may differ from the first only in its address.
func (p *parser) addURL(u upstreamURL) error {
	for _, other := range p.urls {
		if u.scheme != other.scheme {
			return fmt.Errorf("must have the same scheme as the other replicas, %s", other.scheme)
		}
		if u.path != other.path {
			return fmt.Errorf("must have the same path as the other replicas, %q", other.path)
		}
		if strings.EqualFold(u.host, other.host) && u.port == other.port {
			return errors.New("is named twice")
		}
	}
	p.urls = append(p.urls, u)
	p.shared.Endpoint = u.path
	return nil
}

// parseUpstreamURL takes a full URL apart. Its errors repeat nothing of it.
func parseUpstreamURL(raw string) (upstreamURL, error) {
	const example = "a full http or https URL, such as http://127.0.0.1:3001/mcp"
	if strings.ContainsAny(raw, "{}") {
		return upstreamURL{}, errors.New("must not hold a placeholder other than {$NAME}; a reverse_proxy block can name upstreams with placeholders")
	}
	if scheme, _, found := strings.Cut(raw, "://"); !found || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return upstreamURL{}, errors.New("must be " + example +
			"; other addresses, such as unix//run/mcp.sock, h2c://… and :3001, stand in a block { reverse_proxy <address> }, a command after the word stdio")
	}
	parsed, err := url.Parse(raw)
	switch {
	case err != nil && strings.Contains(raw, "@"), err == nil && parsed.User != nil:
		return upstreamURL{}, errors.New("must not hold a user name or password; a guard keeps the feed's credential")
	case strings.ContainsAny(raw, "?#"):
		return upstreamURL{}, errors.New("must not have a query or fragment; scheme, host, port and path are allowed")
	case err != nil:
		return upstreamURL{}, fmt.Errorf("must be %s: %w", example, errors.Unwrap(err))
	case parsed.Hostname() == "":
		return upstreamURL{}, errors.New("has no host; it must be " + example)
	case !isPort(parsed):
		return upstreamURL{}, errors.New("must have a port from 1 to 65535, or none")
	}
	u := upstreamURL{scheme: parsed.Scheme, host: parsed.Hostname(), port: parsed.Port(), path: parsed.EscapedPath()}
	if u.path != "" && !isPath(u.path) {
		return upstreamURL{}, errors.New("must have " + aPath)
	}
	if u.port == "" {
		u.port = map[string]string{"http": "80", "https": "443"}[u.scheme]
	}
	return u, nil
}

// isPort tells whether a URL has a possible port or none.
func isPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}

// isPath tells whether an endpoint is written in the one way that requests to
// it are: escapes, dots and empty segments would make it ambiguous.
func isPath(endpoint string) bool {
	for _, c := range []byte(endpoint) {
		if c <= ' ' || c > '~' || strings.IndexByte(`?#%\{}`, c) >= 0 {
			return false
		}
	}
	clean := path.Clean(endpoint)
	return strings.HasPrefix(endpoint, "/") && (endpoint == clean || endpoint == clean+"/")
}
