package redirect

import (
	"net/http"
	"net/url"
	"sync/atomic"
)

// Slash remembers whether a server redirects its endpoint to the twin of that path, as
// Starlette does, and FastMCP with it: the two are one endpoint then.
type Slash struct {
	Addresses Addresses // set before it is used

	redirects atomic.Bool
}

// Learn takes the answer to a request for the endpoint as it is configured, and reports
// whether it leads to the twin. Only a POST says that of MCP: at the same path there may
// be a page for a GET, and OPTIONS is often answered in front of the server's routes.
func (s *Slash) Learn(method string, u *url.URL, host string, status int, location string) (leads bool) {
	leads = s.Addresses.toTwin(u, host, status, location)
	if method == http.MethodPost && (leads || status < http.StatusMultipleChoices) && s.redirects.Load() != leads {
		s.redirects.Store(leads)
	}
	return leads
}

// Redirects reports whether the server did so lately.
func (s *Slash) Redirects() bool { return s.redirects.Load() }
