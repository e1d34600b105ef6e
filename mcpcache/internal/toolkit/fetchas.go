package toolkit

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/callerlists"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// fetchAs asks a server for a list as the caller, unless a failure counts that is remembered. ctx lasts
// for as long as the list is needed.
func (v *viewer) fetchAs(ctx context.Context, s *Server, k revision.Kind, counts callerlists.Remembered) callerlists.List {
	c, r, at := v.callerAt(s), v.at, s.at(v.at)
	return s.callerLists.Ask(ctx, callerlists.Request{
		Caller: c.Context, Origin: v.origin(s, at, k), Era: at.Era(), Kind: k, Counts: counts,
		Fetch: func(ctx context.Context) (*feed.CallerLists, error) { return s.fetchAs(ctx, c, r, k) },
	})
}

// fetchAs asks the server for a list as a caller, for clients of the era of r, and keeps the lists that
// come.
func (s *Server) fetchAs(ctx context.Context, c feed.Caller, r revision.Revision, k revision.Kind) (*feed.CallerLists, error) {
	ticket := s.Admission.Ticket()
	lists, err := s.fetchInEras(ctx, c, r, k)
	switch {
	case err == nil:
	case client.Refused(err):
		s.revoke(c.Context, lists.Revision)
		return nil, err
	default:
		return nil, err
	}
	if lists.Answered != 0 { // that it has no list lets nobody in
		until := identity.AdmittedUntil(&http.Request{Header: c.Credentials}, time.Now(), s.Settings.AdmitFor)
		s.Admission.AdmitContext(c.Context, lists.Revision, lists.Answered, ticket, until)
	}
	s.answeredAt.Store(uint32(lists.Revision))
	for _, list := range lists.Lists {
		if list != nil {
			s.Cache.Put(list)
			s.deliver(r, list.Kind)
		}
	}
	return lists, nil
}

// lastAnsweredAt returns the revision at which the server last answered a caller, or [revision.Unknown].
func (s *Server) lastAnsweredAt() revision.Revision { return revision.Revision(s.answeredAt.Load()) }

// deliver notes that the server has given a caller a list. If a client of the era of r got a joined
// list without it, deliver has those clients notified.
func (s *Server) deliver(r revision.Revision, k revision.Kind) {
	if s.withheld[r.Era()][k].Swap(false) {
		s.returned[k].Add(1)
	}
}

// revoke ends a caller's admission after the server has refused its credentials.
func (s *Server) revoke(of cache.Partition, r revision.Revision) {
	if of.IsAnonymous() {
		s.Admission.RefuseContext(of, r, 0)
		return
	}
	s.Admission.Revoke(of)
}

// fetchInEras asks at the revision at which clients of the era of r see the server. If it is not known
// yet whether the server speaks that revision, it also asks at the other era's. The answer always has a
// revision.
func (s *Server) fetchInEras(ctx context.Context, c feed.Caller, r revision.Revision, k revision.Kind) (*feed.CallerLists, error) {
	at := s.at(r)
	known := s.spoken(at) == at || s.lastAnsweredAt() == at
	lists, err := s.fetchAt(ctx, at, k, c, known)
	if err != nil && !known && s.maySpeak(otherOf(at)) && !client.Refused(err) && !client.Unreachable(err) && ctx.Err() == nil {
		at = otherOf(at)
		if other, failure := s.fetchAt(ctx, at, k, c, false); failure == nil || client.Refused(failure) {
			lists, err = other, failure
		}
	}
	if lists == nil {
		lists = &feed.CallerLists{Revision: at}
	}
	return lists, err
}

// fetchAt asks at one revision. A panic counts as a failure of the server.
func (s *Server) fetchAt(ctx context.Context, at revision.Revision, k revision.Kind, c feed.Caller, known bool) (lists *feed.CallerLists, err error) {
	defer func() {
		if p := recover(); p != nil {
			lists, err = nil, fmt.Errorf("asking for the lists of a caller panicked: %v", p)
		}
	}()
	wanted := k
	if k == revision.Discover && at.Era() == revision.Legacy {
		wanted = revision.Tools
	}
	lists, err = s.Feeds.FetchAs(ctx, at, wanted, c, known)
	if err == nil && lists.Server != nil {
		lifetime := s.Settings.Feed.Lifetime(revision.Discover, 0, false)
		lists.Lists[revision.Discover] = s.describing(lists.Server, lists.Revision, c.Context, lifetime)
	}
	return lists, err
}
