package exchange

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
)

// unreachable ends an exchange to which nothing has been answered, because the upstream
// cannot be reached: err is of its handler. A client gets that status, as from Caddy
// itself, and the error in the protocol's words besides, unless routes of the site answer
// errors, or the client has gone. Caddy is given the error all the same, which it logs;
// that it then writes the status a second time has no effect.
func (x *exchange) unreachable(err error) error {
	failed, ok := errors.AsType[caddyhttp.HandlerError](err)
	if !ok || failed.StatusCode < http.StatusInternalServerError || x.r.Method != http.MethodPost ||
		x.r.Context().Err() != nil || hasErrorRoute(x.r, err) {
		return err
	}
	text := "the MCP server cannot be reached"
	switch failed.StatusCode {
	case http.StatusServiceUnavailable:
		text = "the MCP server is not available"
	case http.StatusGatewayTimeout:
		text = "the MCP server did not answer in time"
	}
	body := jsonrpc.Failed(failed.StatusCode, text).Append(nil, x.id())
	x.w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))} // whoever else takes the error adds nothing
	_ = x.writeError(failed.StatusCode, body)
	return err
}

// hasErrorRoute reports whether the site has a route for an error of a request.
func hasErrorRoute(r *http.Request, err error) bool {
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if server == nil || server.Errors == nil || len(server.Errors.Routes) == 0 {
		return false
	}
	r = server.Errors.WithError(r, err)
	return slices.ContainsFunc(server.Errors.Routes, func(route caddyhttp.Route) bool {
		matches, err := route.MatcherSets.AnyMatchWithError(r)
		return matches || err != nil
	})
}

// id returns the id of the request, or nil if it is not known.
func (x *exchange) id() []byte {
	request := x.in.Decoded()
	if request == nil || request.Method == nil {
		return nil // nor is an answer of the client to be answered
	}
	return request.ID
}
