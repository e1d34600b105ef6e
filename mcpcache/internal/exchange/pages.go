package exchange

import "net/http"

// isPageUnknown reports whether the request is of a page whose origin the operator
// has named, and the upstream has not answered any of that origin: it may refuse
// them, and what else it lets them do nobody knows either. Where a handler in
// front of this one has decided, that counts.
func (x *exchange) isPageUnknown() bool {
	origin := x.r.Header["Origin"]
	if len(origin) != 1 || !x.endpoint.Settings.Origins.Allows(origin[0]) || x.w.Header()["Access-Control-Allow-Origin"] != nil {
		return false
	}
	_, known := x.backend.CORS.Of(origin[0])
	return !known
}

// AllowPage gives an answer to a page in a browser the CORS fields that the upstream
// gives to pages of its origin. What a handler in front of this one has set stays. It
// implements [reply.Asker].
func (x *exchange) AllowPage(h http.Header) {
	origin := x.r.Header["Origin"]
	if len(origin) != 1 || h["Access-Control-Allow-Origin"] != nil {
		return
	}
	c, _ := x.backend.CORS.Of(origin[0])
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

// learnCORS takes what an answer of the upstream lets the page do that asked. If it
// is a refusal that the page may not even read, the upstream has to answer the
// next one.
func (l *learner) learnCORS(status int, h http.Header) {
	origin := l.r.Header["Origin"]
	if len(origin) != 1 || l.r.Method != http.MethodPost {
		return
	}
	switch {
	case status == http.StatusOK:
		l.backend.CORS.Learn(origin[0], h)
	case status == http.StatusForbidden && h["Access-Control-Allow-Origin"] == nil:
		l.backend.CORS.Forget(origin[0])
	}
}
