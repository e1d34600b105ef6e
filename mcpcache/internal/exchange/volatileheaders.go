package exchange

import (
	"net"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/volatileheaders"
)

// maxHeaderName is how much of a header's name is logged.
const maxHeaderName = 64

// blame finds the reason why a request is no hit. It returns [bypassHeader] instead of
// [bypassAdmission] if a header has a new value in each request, so that the upstream has not let
// this caller in yet. It returns [bypassHost] if only the caller's Host keeps it from a list of the
// feed. It warns of both.
func (x *exchange) blame(reason bypass) bypass {
	if reason != bypassAdmission && reason != understood {
		return reason
	}
	if x.isElsewhere() {
		x.noteHost()
		if reason == understood {
			return bypassHost
		}
	}
	if reason == understood {
		x.noteApart()
	}
	if x.context.IsAnonymous() || x.caller() != nil {
		return reason
	}
	blamed := false
	for name, values := range x.r.Header {
		// New tokens are new callers. What handlers and proxies in front say of a caller is not
		// the caller's, and a DPoP proof is new in each request.
		if x.backend.Identity.Harmless.Has(name) || name == "Authorization" {
			continue
		}
		var rest []string
		for _, value := range values {
			if part, counts := x.backend.Identity.Harmless.Rest(name, value); counts {
				rest = append(rest, part)
			}
		}
		sent := volatileheaders.Sent{Client: clientOf(x), Name: name, Values: rest, Context: x.context, At: x.now}
		if x.endpoint.volatileHeaders.Watch(sent, x.leadsNowhere) {
			blamed = true
			x.noteVolatile(name)
		}
	}
	if blamed && reason == bypassAdmission {
		return bypassHeader
	}
	return reason
}

func (x *exchange) noteHost() {
	x.endpoint.Warnings.Warn("lists are not shared with clients that reach the server by another Host than the feed ("+
		x.backend.Identity.Host+"); if it shows them the same lists, name theirs in the option host, too", "host", x.r.Host)
}

// noteApart notes what keeps a request from a list of the feed that is public: it asks for
// something else.
func (x *exchange) noteApart() {
	e := x.catalog.List(x.question.revision, x.question.kind)
	if x.context.AsksLikeFeed() || e == nil || !e.Partition.IsPublic() || x.question.detail != nil {
		return
	}
	var name string
	switch x.apart, name = x.backend.Identity.Difference(x.r, x.placeholders()); x.apart {
	case identity.Header:
		x.endpoint.Warnings.Warn("public lists are kept apart for each value of a request header; "+
			"if the server does not go by it, name it in the option harmless", "header", name[:min(len(name), maxHeaderName)])
	case identity.Query:
		x.endpoint.Warnings.Warn("public lists are kept apart for each query of the URL; "+
			"if the server does not go by it, take it away in front of the cache (uri query -NAME)", "query", name)
	case identity.Host:
		x.noteHost()
	case identity.Partition: // the operator wants it
	}
}

func (x *exchange) noteVolatile(name string) {
	name = name[:min(len(name), maxHeaderName)]
	remedy := "if it does not tell callers apart, name it in the option harmless"
	switch {
	case name == "Cookie":
		remedy = "if a cookie is of a load balancer, name it in the option harmless, as Cookie:NAME"
	case identity.IsCredential(name):
		remedy = "if the server does not need it, have it deleted in front, or not copied there"
	}
	x.endpoint.Warnings.Warn("lists are not answered from the cache: a request header has a new value in each request; "+remedy, "header", name)
}

// leadsNowhere reports whether the upstream has let the client in, and it has not
// come back in any of the contexts, of which this request's is the last.
func (x *search) leadsNowhere(contexts []cache.Partition) bool {
	ledger := x.backend.Admission
	if x.session != "" {
		session := ledger.Session(x.session)
		return session != nil && session.Alive()
	}
	letIn := 0
	for _, context := range contexts[:len(contexts)-1] {
		if c := ledger.Context(context, x.question.revision); c != nil && c.Alive() {
			if c.Returned() {
				return false
			}
			letIn++
		}
	}
	return letIn >= len(contexts)/2
}

// clientOf returns what is the same in the requests of one client.
func clientOf(x *exchange) []string {
	address, _, _ := net.SplitHostPort(x.r.RemoteAddr)
	client := []string{address, x.session}
	for _, name := range [...]string{"User-Agent", "X-Forwarded-For", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "Fly-Client-Ip"} {
		client = append(client, name)
		client = append(client, x.r.Header[name]...)
	}
	return client
}

// isElsewhere reports whether a client is not given a list of the feed for no other reason than
// its Host.
func (x *search) isElsewhere() bool {
	if x.context == cache.Anonymous || !x.context.IsAnonymous() {
		return false
	}
	e := x.catalog.List(x.question.revision, x.question.kind)
	return e != nil && e.Partition == cache.Anonymous
}
