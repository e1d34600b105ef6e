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

// fetchAs asks a server for a list as the caller, unless there is a failure that counts. ctx lasts for as
// long as the list is needed.
func (v *viewer) fetchAs(ctx context.Context, s *Server, k revision.Kind, counts callerlists.Remembered) callerlists.List {
	c, r, at := v.callerAt(s), v.at, s.at(v.at)
	return s.callerLists.Ask(ctx, callerlists.Request{
		Caller: c.Context, Origin: v.origin(s, at, k), Era: at.Era(), Kind: k, Counts: counts,
		Fetch: func(ctx context.Context) (*feed.CallerLists, error) { return s.fetchAs(ctx, c, r, k) },
	})
}

// fetchAs asks the server for a list as a caller, for clients of the era of r, and keeps what comes.
func (s *Server) fetchAs(ctx context.Context, c feed.Caller, r revision.Revision, k revision.Kind) (*feed.CallerLists, error) {
	ticket := s.Admission.Ticket()
	shown, err := s.fetchInEras(ctx, c, r, k)
	switch {
	case err == nil:
	case client.Refused(err):
		s.revoke(c.Context, shown.Revision)
		return nil, err
	default:
		return nil, err
	}
	if shown.Answered != 0 { // that it has no list lets nobody in
		until := identity.AdmittedUntil(&http.Request{Header: c.Credentials}, time.Now(), s.Settings.AdmitFor)
		s.Admission.AdmitContext(c.Context, shown.Revision, shown.Answered, ticket, until)
	}
	s.answeredAt.Store(uint32(shown.Revision))
	for _, list := range shown.Lists {
		if list != nil {
			s.Cache.Put(list)
			s.deliver(r, list.Kind)
		}
	}
	return shown, nil
}

// lastAnsweredAt returns the revision at which a caller was answered last, or [revision.Unknown].
func (s *Server) lastAnsweredAt() revision.Revision { return revision.Revision(s.answeredAt.Load()) }

// deliver notes that the server has shown a caller a list. Clients of the era of r hear of that if
// one was given a list without it.
func (s *Server) deliver(r revision.Revision, k revision.Kind) {
	if s.withheld[r.Era()][k].Swap(false) {
		s.returned[k].Add(1)
	}
}

// revoke has a caller be let in anew: the server has refused the credentials.
func (s *Server) revoke(of cache.Partition, r revision.Revision) {
	if of.IsAnonymous() {
		s.Admission.RefuseContext(of, r, 0)
		return
	}
	s.Admission.Revoke(of)
}

// fetchInEras asks at the revision at which the server is shown to clients of the era of r; if
// it is not known yet whether it speaks that, at the other era's, too. The answer always has
// a revision.
func (s *Server) fetchInEras(ctx context.Context, c feed.Caller, r revision.Revision, k revision.Kind) (*feed.CallerLists, error) {
	at := s.at(r)
	known := s.spoken(at) == at || s.lastAnsweredAt() == at
	shown, err := s.fetchAt(ctx, at, k, c, known)
	if err != nil && !known && s.maySpeak(otherOf(at)) && !client.Refused(err) && !client.Unreachable(err) && ctx.Err() == nil {
		at = otherOf(at)
		if other, failure := s.fetchAt(ctx, at, k, c, false); failure == nil || client.Refused(failure) {
			shown, err = other, failure
		}
	}
	if shown == nil {
		shown = &feed.CallerLists{Revision: at}
	}
	return shown, err
}

// fetchAt asks at one revision. A panic is a failure of that server.
func (s *Server) fetchAt(ctx context.Context, at revision.Revision, k revision.Kind, c feed.Caller, known bool) (shown *feed.CallerLists, err error) {
	defer func() {
		if p := recover(); p != nil {
			shown, err = nil, fmt.Errorf("asking for the lists of a caller panicked: %v", p)
		}
	}()
	wanted := k
	if k == revision.Discover && at.Era() == revision.Legacy {
		wanted = revision.Tools
	}
	shown, err = s.Feeds.FetchAs(ctx, at, wanted, c, known)
	if err == nil && shown.Server != nil {
		lifetime := s.Settings.Feed.Lifetime(revision.Discover, 0, false)
		shown.Lists[revision.Discover] = s.describing(shown.Server, shown.Revision, c.Context, lifetime)
	}
	return shown, err
}
