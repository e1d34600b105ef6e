package exchange

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/incoming"
)

// isVisit reports whether the request is of somebody who has opened the endpoint in a
// browser: it takes a page, and says nothing that a client of MCP says.
func (x *exchange) isVisit() bool {
	if x.r.Method != http.MethodGet || speaksMCP(x.r.Header) {
		return false
	}
	for _, value := range x.r.Header["Accept"] {
		if strings.Contains(strings.ToLower(value), "text/html") {
			return true
		}
	}
	return false
}

// expectVisitor prepares the writer for an answer that is of no use in a browser. What it
// returns has to be called when the upstream's handler has returned.
func (t *tap) expectVisitor() (done func()) {
	ctx, cancel := context.WithCancel(t.x.r.Context())
	t.x.r, t.leave = t.x.r.WithContext(ctx), cancel
	t.header = t.x.w.Header().Clone() // cookies and the session of what is not shown stay here
	return cancel
}

// isNoPage reports whether an answer shows nothing to a person: a stream of events, or the
// refusal of whoever takes none.
func isNoPage(status int, h http.Header) bool {
	switch status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return true
	}
	return status == http.StatusOK && isStream(header.First(h["Content-Type"]))
}

// welcome is what a visitor reads.
const welcome = `This is an MCP endpoint (Model Context Protocol): it is for programs, not for browsers.

To use it, give its URL to an MCP client, with the transport "Streamable HTTP":

    %s

It is served by mcp_cache, in front of the MCP server.
`

// receive tells a visitor what is here. The status is what MCP has for a GET without a
// stream, and what most servers give: a program that only looks like a browser takes it
// for that, and a monitor sees no success where the server has none.
func (x *exchange) receive() error {
	text := fmt.Sprintf(welcome, incoming.AddressOf(x.r))
	h := x.w.Header()
	h["Allow"] = []string{http.MethodPost}
	h["Cache-Control"] = []string{"no-store"}
	h["Cache-Status"] = []string{x.endpoint.status.forwarded(bypassMethod, false)}
	h["Content-Type"] = []string{"text/plain; charset=utf-8"}
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	x.w.WriteHeader(http.StatusMethodNotAllowed)
	_, err := x.w.Write([]byte(text))
	return err
}
