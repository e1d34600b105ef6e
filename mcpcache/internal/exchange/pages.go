package exchange

import (
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
)

// usualExposed are the headers that a client in a browser has to be able to
// read, besides those that it always is.
const usualExposed = "Mcp-Session-Id, Mcp-Protocol-Version"

// allowPage lets the page that asks, if it is one, do with the answer what it
// might do with the upstream's. Before the upstream has answered one of its
// origin, a page whose origin the operator has named may read it. Where a
// handler in front of this one has decided, that is left alone.
func (x *exchange) allowPage(h http.Header) {
	origin := x.r.Header["Origin"]
	if len(origin) != 1 || h["Access-Control-Allow-Origin"] != nil {
		return
	}
	c, known := x.backend.CORS.Of(origin[0])
	if !known && x.endpoint.Settings.Origins.Allows(origin[0]) {
		c = backend.PageRights{AllowOrigin: origin[0], ExposeHeaders: usualExposed}
	}
	if c.AllowOrigin == "" {
		return
	}
	x.values.Set(h, "Access-Control-Allow-Origin", c.AllowOrigin)
	if c.AllowCredentials != "" {
		x.values.Set(h, "Access-Control-Allow-Credentials", c.AllowCredentials)
	}
	if c.ExposeHeaders != "" {
		x.values.Set(h, "Access-Control-Expose-Headers", c.ExposeHeaders)
	}
	if c.AllowOrigin != "*" {
		x.values.Vary(h, "Origin")
	}
}

// learnCORS takes what an answer of the upstream lets the page do that asked.
func (x *exchange) learnCORS(status int, h http.Header) {
	if origin := x.r.Header["Origin"]; len(origin) == 1 && status == http.StatusOK && x.r.Method == http.MethodPost {
		x.backend.CORS.Learn(origin[0], h)
	}
}
