package site

import (
	"net/http"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
)

// ChallengeFor returns a challenge of a server as the client of a request is given it: its resource_metadata (RFC 9728
// section 5.1) has the client's address of the server in the place of the server's own. Starlette, and FastMCP
// with it, make that URL of the Host that they are sent, and say http where TLS ends in front of them. The
// server has the addresses own, and may know itself by hosts as well. A URL with another host stays as it is. The
// function returns such hosts in inside if the client may not reach them.
func ChallengeFor(r *http.Request, challenge string, own redirect.Addresses, hosts ...string) (told string, inside []string) {
	site, stripped := Of(r), StrippedFrom(r)
	told = redirect.Metadata.ReplaceAllStringFunc(challenge, func(parameter string) string {
		parts := redirect.Metadata.FindStringSubmatch(parameter)
		named, prefix, hosts := parts[2], stripped, hosts
		if redirect.IsHTTPS(named) {
			hosts = nil // a server that says https knows the client's host better than we may
		}
		if strings.Contains(named, prefix) {
			prefix = "" // the server knows what the site strips, and has it in the middle (RFC 9728 section 3.1)
		}
		reference, ok := own.Relative(named, prefix, hosts...)
		if !ok || strings.HasPrefix(named, "/") {
			if host := redirect.LeadsInside(named, site.Host); host != "" {
				inside = append(inside, host)
			}
			return parameter
		}
		return parts[1] + site.String() + reference + `"`
	})
	return told, inside
}
