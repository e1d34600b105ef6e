package toolkit

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// route hands a request to the server that what it names is of.
func (q *request) route(next caddyhttp.Handler) error {
	// What repeats a member, at the server may name something else.
	found, err := message.ParseNaming(q.in.Body.Bytes)
	if err != nil || len(found[0].Items) != 1 {
		text := "what the request names is missing"
		if err != nil {
			text = err.Error()
		}
		return q.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, text))
	}
	item := found[0].Items[0]
	name := item.Name
	if q.in.Method == "tools/call" {
		q.tool = name
	}
	if member, named := message.NamedInHeader(q.in.Method); named && q.client == nil && !inbound.NameIs(q.r.Header, name) {
		return q.fail(inbound.OtherName(member, name))
	}
	target, f := q.find(item.Kind, name)
	if f != nil {
		return q.fail(f)
	}
	q.server = q.endpoint.servers[target.Server]
	body := q.in.Body.Bytes
	if target.Name != name {
		if body, err = message.WithString(body, target.Name, found[0].Path()...); err != nil {
			return q.fail(jsonrpc.Invalid(jsonrpc.InvalidRequest, err.Error()))
		}
	}
	c := &call{request: q, next: next, body: body, name: target.Name, speaks: q.server.at(q.at)}
	return c.handOn()
}

// find returns what a name, or URI, stands for.
func (q *request) find(k revision.Kind, name string) (catalog.Target, *jsonrpc.Problem) {
	if k == revision.Resources && len(name) > policy.MaxName {
		return catalog.Target{}, jsonrpc.Invalid(jsonrpc.InvalidParams, fmt.Sprintf("the URI has %d bytes; its server is found out for URIs of at most %d", len(name), policy.MaxName))
	}
	q.showFor(k, name)
	target, ok := q.target(k, name)
	if !ok && !q.crowded {
		q.awaitServers(q.endpoint.servers)
		target, ok = q.target(k, name)
	}
	if !ok && q.crowded {
		return target, q.noRoom("there is no memory left to find out whose " + name + " is: try again")
	}
	if !ok {
		if missing := q.missing(k); missing != nil {
			return target, missing.notReached()
		}
		return target, q.missed(k, name)
	}
	target, f := q.resolve(k, target, name)
	if f != nil {
		return target, f
	}
	s := q.endpoint.servers[target.Server]
	if q.part(s, k) != nil || s.Credentials.isPersonal() || s.isKnown(q.at) {
		return target, nil
	}
	if q.awaitServers([]*Server{s}); !s.isKnown(q.at) {
		return target, s.notReached()
	}
	return target, nil
}

// showFor has those servers show what they have for the caller that a name, or URI, may be of.
func (v *viewer) showFor(k revision.Kind, name string) {
	if !v.endpoint.personal {
		return
	}
	servers := v.endpoint.servers
	if target, ok := v.endpoint.byPrefix(name); ok && (k == revision.Tools || k == revision.Prompts) {
		servers = servers[target.Server : target.Server+1]
	}
	v.awaitShown(servers, k)
	if k == revision.Resources {
		v.awaitShown(servers, revision.ResourceTemplates)
	}
}

// target looks a name up: in the joined list, or else by the only prefix that fits.
func (v *viewer) target(k revision.Kind, name string) (catalog.Target, bool) {
	if k != revision.Resources {
		target, ok := v.joined(k).Target(name)
		if ok || v.crowded {
			return target, ok
		}
	}
	if k == revision.Tools || k == revision.Prompts {
		return v.endpoint.byPrefix(name)
	}
	resources := v.joined(revision.Resources)
	if resources == nil {
		return catalog.Target{}, false
	}
	templates := v.joined(revision.ResourceTemplates)
	if templates == nil {
		return catalog.Target{}, false
	}
	server, ok := catalog.Owner(v.r.Context(), name, resources, templates)
	// Nobody else is asked: that would show the URI to servers that it is not of. It may be
	// of one that is not known yet.
	if !ok && v.missing(revision.Resources) == nil && v.missing(revision.ResourceTemplates) == nil {
		server, ok = catalog.OnlyOwner(resources, templates)
	}
	return catalog.Target{Server: server, Name: name}, ok
}

// byPrefix returns the server whose prefix a name has. Names without one are of the only
// server without a prefix, if there is one.
func (e *Endpoint) byPrefix(name string) (target catalog.Target, ok bool) {
	bare := 0
	for i, s := range e.servers {
		if s.Prefix == "" {
			target, bare = catalog.Target{Server: i, Name: name}, bare+1
			continue
		}
		if rest, has := strings.CutPrefix(name, s.Prefix); has {
			return catalog.Target{Server: i, Name: rest}, rest != ""
		}
	}
	return target, bare == 1
}

// missing returns a server without a prefix, or for URIs any, that may have what is asked
// for, but has not been reached yet; nil if there is none.
func (v *viewer) missing(k revision.Kind) *Server {
	named := k == revision.Tools || k == revision.Prompts
	for _, s := range v.endpoint.servers {
		if _, lacking := v.isLacking(s, k); (!named || s.Prefix == "") && !lacking && v.part(s, k) == nil {
			return s
		}
	}
	return nil
}
