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
func (v *request) route(next caddyhttp.Handler) error {
	// What repeats a member, at the server may name something else.
	found, err := message.ParseNaming(v.in.Body.Bytes)
	if err != nil || len(found[0].Items) != 1 {
		text := "what the request names is missing"
		if err != nil {
			text = err.Error()
		}
		return v.fail(jsonrpc.Invalid(jsonrpc.InvalidParams, text))
	}
	item := found[0].Items[0]
	name := item.Name
	if v.in.Method == "tools/call" {
		v.tool = name
	}
	if member, named := message.NamedInHeader(v.in.Method); named && v.client == nil && !inbound.NameIs(v.r.Header, name) {
		return v.fail(inbound.OtherName(member, name))
	}
	target, f := v.find(item.Kind, name)
	if f != nil {
		return v.fail(f)
	}
	v.server = v.endpoint.servers[target.Server]
	body := v.in.Body.Bytes
	if target.Name != name {
		if body, err = message.WithString(body, target.Name, found[0].Path()...); err != nil {
			return v.fail(jsonrpc.Invalid(jsonrpc.InvalidRequest, err.Error()))
		}
	}
	c := &call{request: v, next: next, body: body, name: target.Name, speaks: v.server.at(v.at)}
	return c.handOn()
}

// find returns what a name, or URI, stands for.
func (v *request) find(k revision.Kind, name string) (catalog.Target, *jsonrpc.Problem) {
	if k == revision.Resources && len(name) > policy.MaxName {
		return catalog.Target{}, jsonrpc.Invalid(jsonrpc.InvalidParams, fmt.Sprintf("the URI has %d bytes; its server is found out for URIs of at most %d", len(name), policy.MaxName))
	}
	v.showFor(k, name)
	target, ok := v.target(k, name)
	if !ok && !v.crowded {
		v.awaitServers(v.endpoint.servers)
		target, ok = v.target(k, name)
	}
	if !ok && v.crowded {
		return target, v.noRoom("there is no memory left to find out whose " + name + " is: try again")
	}
	if !ok {
		if missing := v.missing(k); missing != nil {
			return target, missing.notReached()
		}
		return target, v.missed(k, name)
	}
	target, f := v.resolve(k, target, name)
	if f != nil {
		return target, f
	}
	s := v.endpoint.servers[target.Server]
	if v.part(s, k) != nil || s.Credentials.isPersonal() || s.isKnown(v.at) {
		return target, nil
	}
	if v.awaitServers([]*Server{s}); !s.isKnown(v.at) {
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
