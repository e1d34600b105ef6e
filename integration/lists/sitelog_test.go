//go:build !race

package lists

// siteLog has a site log its requests, so that answers pass through Caddy's
// recorder too.
const siteLog = "log\n"
