// Package landing has the page for people who open the MCP endpoint in a browser.
package landing

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/site"
)

// Is reports whether a request is of somebody who has opened the endpoint in a browser: it takes a page, and says
// nothing that a client of MCP says.
func Is(r *http.Request) bool {
	if r.Method != http.MethodGet || SpeaksMCP(r.Header) {
		return false
	}
	for _, value := range r.Header["Accept"] {
		if strings.Contains(strings.ToLower(value), "text/html") {
			return true
		}
	}
	return false
}

// SpeaksMCP reports whether a request may be one of an MCP client: it names a session, a revision or a method, or takes
// an event stream.
func SpeaksMCP(h http.Header) bool {
	if h["Mcp-Session-Id"] != nil || h["Mcp-Protocol-Version"] != nil || h["Mcp-Method"] != nil {
		return true
	}
	for _, value := range h["Accept"] {
		if strings.Contains(strings.ToLower(value), "event-stream") {
			return true
		}
	}
	return false
}

// Text returns what the page says, with the URL at which the request has come.
func Text(r *http.Request) string {
	return fmt.Sprintf(`This is an MCP endpoint (Model Context Protocol): it is for programs, not for browsers.

To use it, give its URL to an MCP client, with the transport "Streamable HTTP":

    %s

It is served by mcp_cache, a cache for MCP servers.
`, site.AddressOf(r))
}

// Write answers with the page, and with that Cache-Status. The HTTP status is MCP's for a GET without a stream, and the
// one that most servers give. A program that only looks like a browser takes it for that, and a monitor sees no success
// where the server has none.
func Write(w http.ResponseWriter, r *http.Request, cacheStatus string) error {
	text := Text(r)
	h := w.Header()
	h["Allow"] = []string{http.MethodPost}
	h["Cache-Control"] = []string{"no-store"}
	h["Cache-Status"] = []string{cacheStatus}
	h["Content-Type"] = []string{"text/plain; charset=utf-8"}
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(http.StatusMethodNotAllowed)
	_, err := w.Write([]byte(text))
	return err
}
