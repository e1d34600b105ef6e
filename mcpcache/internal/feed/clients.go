package feed

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// OpenFor opens a legacy session for a client of that identity, at revision r, or at the
// one that the upstream proposes instead. It has to be ended with [Group.CloseFor].
func (g *Group) OpenFor(ctx context.Context, r revision.Revision, as *client.Identity) (*client.Session, error) {
	return g.open(ctx, r, as, g.openingPolicy)
}

// open is OpenFor, for a session whose answers have the bounds of that policy.
func (g *Group) open(ctx context.Context, r revision.Revision, as *client.Identity, policy func() client.Policy) (*client.Session, error) {
	s, err := g.openAt(ctx, r, as, policy)
	if isTaken(err) && g.MayBlockClients() {
		done := g.GiveWay(ctx)
		s, err = g.openAt(ctx, r, as, policy)
		done()
	}
	unsupported, _ := errors.AsType[*client.UnsupportedError](err)
	if unsupported != nil && unsupported.Offered != revision.Unknown && unsupported.Offered != r {
		return g.openAt(ctx, unsupported.Offered, as, policy)
	}
	return s, err
}

// openAt opens a session at a revision and no other.
func (g *Group) openAt(ctx context.Context, r revision.Revision, as *client.Identity, policy func() client.Policy) (*client.Session, error) {
	sent := time.Now()
	s, err := g.newClient(r, policy, func(method string) { g.cache.Bump(revision.Changed(method)) }).NewSession(as)
	if err != nil {
		return nil, err
	}
	if err := s.Open(ctx); err != nil {
		s.Close(closeTimeout)
		return nil, err
	}
	g.ClientOpened(s.ID(), sent)
	return s, nil
}

// maxOpening is the longest answer, in bytes, that is taken to a request of a client's
// session: no list is asked for in it, and many may be opened at a time.
const maxOpening = 256 << 10

// openingPolicy returns the part of the policy that is for clients' sessions.
func (g *Group) openingPolicy() client.Policy {
	p := g.clientPolicy()
	p.MaxList = min(p.MaxList, maxOpening)
	return p
}

// newClient returns a client of the upstream.
func (g *Group) newClient(r revision.Revision, policy func() client.Policy, onNotice func(method string)) *client.Client {
	return client.New(client.Config{
		Revision: r, URL: g.url, Base: g.base, ReadSlot: g.readSlot, Policy: policy, OnNotice: onNotice,
	})
}

// Ping reports whether the upstream answers a ping in a session, and whether it refuses that, as it may not know the
// session. Without an answer it does neither.
func (g *Group) Ping(ctx context.Context, s *client.Session) (answered, refused bool) {
	answered, refusal := ping(ctx, s)
	return answered, refusal != nil
}

// CloseFor ends a session of a client.
func (g *Group) CloseFor(s *client.Session) {
	id := s.ID() // which the end forgets
	s.Close(farewellTimeout)
	g.ClientClosed(id)
}

// isTaken reports whether a server may refuse a further session by that error.
func isTaken(err error) bool {
	status, refused := errors.AsType[*client.StatusError](err)
	rpc, _ := errors.AsType[*message.Error](err)
	return rpc != nil || refused && status.Status != http.StatusUnauthorized && status.Status != http.StatusForbidden
}
