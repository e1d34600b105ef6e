package toolkit

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Rules are the operator's, of what callers may see and call: of one server by what that
// calls its items, or of all by the names that callers see.
type Rules interface {
	// View returns what the caller of a request may see and call.
	View(r *http.Request) *policy.View
	// Widest returns the view of a caller who may see as much as anybody.
	Widest() *policy.View
}

// widestViews returns the views of a caller who may see as much as anybody. It returns nil if there are
// no rules.
func widestViews(all Rules, servers []*Server) *catalog.Views {
	return viewsOf(all, servers, func(r Rules) *policy.View { return r.Widest() })
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
		return e.widest // it is that of everybody
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

// resolve returns the item of a server that a name stands for. If the caller may not see the item, it
// returns a refusal: the same as for an item that does not exist.
func (q *request) resolve(k revision.Kind, t catalog.Target, name string) (catalog.Target, *jsonrpc.Problem) {
	switch {
	case !q.views.Restricts(k, t.Server):
		return t, nil
	case q.views.NeedsList(k, t.Server):
		return q.listedFor(k, t, name)
	}
	if !q.views.Allows(k, t, q.endpoint.catalog.SeenAs(k, t)) {
		return t, q.missed(k, name)
	}
	return t, nil
}

// listedFor is resolve where an item has to be in the list that the caller is shown. What is not
// there is looked for in a newer list of the server.
func (q *request) listedFor(k revision.Kind, t catalog.Target, name string) (catalog.Target, *jsonrpc.Problem) {
	s := q.endpoint.servers[t.Server]
	if !q.views.NeedsHints(k, t.Server) {
		if listed, ok := q.joined(k).Target(name); ok { // if it is gone, the server says so
			return listed, nil
		}
	}
	if f := q.awaitList(k, s); f != nil {
		return t, f
	}
	listed, ok := q.joined(k).Target(name)
	if !ok && q.lookAgain(k, s) {
		listed, ok = q.joined(k).Target(name)
	}
	if !ok && q.crowded {
		return t, q.noRoom("there is no memory left to find out whether " + name + " is listed: try again")
	}
	if !ok {
		return t, q.missed(k, name)
	}
	return listed, nil
}

// lookAgain has a server's list fetched again, unless that was done within the option refresh,
// and waits for it for a moment. It reports whether there may be a newer list.
func (q *request) lookAgain(k revision.Kind, s *Server) bool {
	part := q.part(s, k)
	if part == nil || part.Age(q.now) < s.Settings.Feed.Refresh {
		return false
	}
	if s.Credentials.isPersonal() {
		f := q.demand(s, k, part)
		if f != nil {
			_, _ = q.wait(f, freshness.StalePatience) // if it does not come, the last one counts
		}
		return f != nil
	}
	f := s.feed(q.at)
	if f == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), freshness.StalePatience)
	defer cancel()
	f.List(k).LookAgain(ctx)
	q.now = time.Now()
	return true
}

// missed is the refusal of what is of nobody, or of nobody whom the caller may name it to: where
// there are rules, nobody can tell which.
func (q *request) missed(k revision.Kind, name string) *jsonrpc.Problem {
	if q.views.RestrictsAny(k) {
		q.outcome, q.status = outcome.Denied, statusDenied
	}
	return q.unknown(k, name)
}

// awaitList waits for the list of a server in which there is what rules go by: a new one, if a
// change was announced, or nothing keeps it up to date but that the caller asks. It returns a
// refusal if there is none, though there may be one later.
func (q *request) awaitList(k revision.Kind, s *Server) *jsonrpc.Problem {
	part := q.part(s, k)
	if part == nil {
		q.awaitServers([]*Server{s})
		part = q.part(s, k)
	}
	if part != nil {
		is := s.Cache.Freshness(part, q.now)
		if is == cache.Fresh || is == cache.Expired && !s.Credentials.isPersonal() {
			return nil
		}
		if f := q.demand(s, k, part); f != nil {
			_, _ = q.wait(f, q.endpoint.firstPatience()) // if it does not come, the last one counts, as in lists
		}
	}
	if _, lacking := q.isLacking(s, k); lacking || q.part(s, k) != nil {
		return nil
	}
	if !s.isKnown(q.at) {
		return s.notReached()
	}
	return jsonrpc.Failed(http.StatusBadGateway, fmt.Sprintf("the MCP server %q gives no list of its %s, and rules go by what is listed there", s.Name, k))
}
