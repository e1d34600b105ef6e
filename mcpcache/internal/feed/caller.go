package feed

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
)

// Caller is one whom the upstream may show other lists than the feeds.
type Caller struct {
	// Credentials are sent with each request, and the guard's with Guarded.
	Credentials http.Header
	Guarded     bool
	// Context is the authorization context that they stand for.
	Context cache.Partition
}

// CallerLists are the lists that the upstream gives a caller.
type CallerLists struct {
	// Revision is the revision of the request.
	Revision revision.Revision
	// Lists are the lists that were asked for. A list that the upstream does not have is empty.
	Lists [revision.NumKinds]*cache.Entry
	// Answered are the kinds that the upstream has.
	Answered revision.KindSet
	// Server is what the upstream has said of itself in the legacy era; nil in the modern era.
	Server *client.ServerInfo
}

// FetchAs asks the upstream for a list as a caller, at revision r. In the legacy era the upstream may
// propose another revision. There FetchAs asks for all lists in one session, and then ends the session.
// With known, the upstream is known to speak the revision.
func (g *Group) FetchAs(ctx context.Context, r revision.Revision, k revision.Kind, c Caller, known bool) (*CallerLists, error) {
	as := &client.Identity{Name: "mcp_cache", Version: version.Own(), Capabilities: []byte("{}"), Credentials: c.Credentials, Guarded: c.Guarded}
	if r.Era() == revision.Legacy {
		return g.fetchAllAs(ctx, r, k, c, as)
	}
	s, err := g.newClient(r, g.clientPolicy, func(method string) { g.cache.Bump(revision.Changed(method)) }).NewSession(as)
	if err != nil {
		return nil, err
	}
	defer s.Close(closeTimeout)
	open := s.Open
	if known {
		open = s.Assume
	}
	if err = open(ctx); err != nil {
		return nil, err
	}
	lists := &CallerLists{Revision: r}
	list, has, err := g.listFor(ctx, s, k, c)
	if has {
		lists.Answered = revision.SetOf(k)
	}
	lists.Lists[k] = list
	return lists, err
}

// fetchAllAs asks for the list of k, and for all others in the same session.
func (g *Group) fetchAllAs(ctx context.Context, r revision.Revision, k revision.Kind, c Caller, as *client.Identity) (*CallerLists, error) {
	s, err := g.open(ctx, r, as, g.clientPolicy)
	if err != nil {
		return nil, err
	}
	defer func() {
		go func() {
			defer func() { _ = recover() }() // the server ends the session by itself
			g.CloseFor(s)
		}()
	}()
	lists := &CallerLists{Revision: s.Revision(), Server: s.Server()}
	var (
		all sync.WaitGroup
		mu  sync.Mutex // guards lists and err
	)
	for _, other := range revision.Kinds() {
		if !other.In(s.Revision()) || !g.policy.Load().Kinds.Has(other) {
			continue
		}
		all.Go(func() {
			list, has, failure := g.listFor(ctx, s, other, c)
			mu.Lock()
			defer mu.Unlock()
			if lists.Lists[other] = list; has {
				lists.Answered |= revision.SetOf(other)
			}
			if other == k {
				err = failure
			}
		})
	}
	all.Wait()
	return lists, err
}

// listFor asks for a list in a session of a caller, if the upstream has it. A panic is a
// failure of that list only.
func (g *Group) listFor(ctx context.Context, s *client.Session, k revision.Kind, c Caller) (e *cache.Entry, has bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, has, err = nil, false, fmt.Errorf("fetching %s for a caller panicked: %v", k, p)
		}
	}()
	p, mark := g.policy.Load(), g.cache.Mark(k)
	e = &cache.Entry{Kind: k, Revision: s.Revision(), Partition: c.Context, Mark: mark, Fetched: time.Now(), Lifetime: p.Lifetime(k, 0, false)}
	var list *client.List
	if s.Revision().Era() == revision.Modern || s.Offers(k) {
		list, err = s.List(requesthint.WithUpkeep(ctx), client.ListRequest{Kind: k, Patient: true})
	}
	switch {
	case err != nil && !client.NotOffered(err):
		return nil, false, client.Brief(err)
	case err != nil || list == nil:
		e.Body = message.Compose(k, []byte(`"`+k.ItemsKey()+`":[`), nil, []byte("]}}"))
		return e, false, nil
	}
	e.Body, e.Fetched, e.Lifetime = list.Body, list.First, p.Of(k).MaxTTL
	for _, page := range list.Pages {
		e.Lifetime = min(e.Lifetime, p.Lifetime(k, page.TTL, page.HasTTL))
	}
	return e, true, nil
}
