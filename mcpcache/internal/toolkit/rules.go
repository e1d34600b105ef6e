package toolkit

import (
	"fmt"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/exchange"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Rules are the operator's, of what callers may see and call: of one server by what that
// calls its items, or of all by the names that callers see.
type Rules interface {
	exchange.Rules
	// Most returns the view of a caller who may see as much as anybody.
	Most() *policy.View
}

// most returns the views of a caller who may see as much as anybody; nil if there are no
// rules.
func most(all Rules, servers []*Server) *catalog.Views {
	return viewsOf(all, servers, func(r Rules) *policy.View { return r.Most() })
}

// viewsOf returns what a view of each of the rules makes of all; nil if there are no rules.
func viewsOf(all Rules, servers []*Server, view func(Rules) *policy.View) *catalog.Views {
	views, ruled := &catalog.Views{Servers: make([]*policy.View, len(servers))}, all != nil
	for i, s := range servers {
		if s.Rules != nil {
			views.Servers[i], ruled = view(s.Rules), true
		}
	}
	if !ruled {
		return nil
	}
	if all != nil {
		views.All = view(all)
	}
	return views
}

// viewsFor returns what the caller of a request may see and call; nil: everything.
func (e *Endpoint) viewsFor(r *http.Request) *catalog.Views {
	if e.varies == 0 {
		return e.most // it is that of everybody
	}
	return viewsOf(e.Settings.Rules, e.servers, func(rules Rules) *policy.View { return rules.View(r) })
}

// varying returns the kinds of which callers may see different items.
func varying(most *catalog.Views) (kinds revision.KindSet) {
	for _, k := range revision.Kinds() {
		if most.Personal(k) {
			kinds |= revision.SetOf(k)
		}
	}
	return kinds
}

// judge returns the refusal of what the caller may not see, by the name for something of a
// server: the same as of what does not exist. It returns nil if the caller may.
func (v *visit) judge(k revision.Kind, t catalog.Target, name string) *refusal {
	if !v.views.Restricts(k, t.Server) {
		return nil
	}
	shown := v.endpoint.catalog.NameOf(k, t) == name
	if v.views.NeedsHints(k, t.Server) {
		if f := v.awaitHints(k, v.endpoint.servers[t.Server]); f != nil {
			return f
		}
		listed, ok := v.joined(k).Target(name)
		shown = ok && listed == t
	} else {
		shown = shown && v.views.Allows(k, t, name)
	}
	if shown {
		return nil
	}
	return v.missed(k, name)
}

// missed is the refusal of what is of nobody, or of nobody whom the caller may name it to: where
// there are rules, nobody can tell which.
func (v *visit) missed(k revision.Kind, name string) *refusal {
	if v.views.RestrictsAny(k) {
		v.outcome, v.status = exchange.OutcomeDenied, statusDenied
	}
	f := v.unknown(k, name)
	return &f
}

// awaitHints waits for the list of a server in which it says what rules go by: a new one, if a
// change was announced, or nothing keeps it up to date but that the caller asks. It returns a
// refusal if there is none, though there may be one later.
func (v *visit) awaitHints(k revision.Kind, s *Server) *refusal {
	part := v.part(s, k)
	if part == nil {
		v.awaitServers([]*Server{s})
		part = v.part(s, k)
	}
	if part != nil {
		freshness := s.Cache.Freshness(part, v.now)
		if freshness == cache.Fresh || freshness == cache.Expired && !s.Carries.isPersonal() {
			return nil
		}
		if f := v.demand(s, k); f != nil {
			_, _ = v.wait(f, v.endpoint.firstPatience()) // if it does not come, the last one counts, as in lists
		}
	}
	if _, lacking := v.isLacking(s, k); lacking || v.part(s, k) != nil {
		return nil
	}
	if !s.isKnown(v.at) {
		return s.notReached()
	}
	return &refusal{http.StatusBadGateway, internalError, fmt.Sprintf("the MCP server %q gives no list of its %s, and rules go by what they say there", s.Name, k), nil}
}
