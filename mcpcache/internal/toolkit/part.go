package toolkit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/callerlists"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// fetch is a list that a server has been asked for.
type fetch interface {
	// WaitUpTo returns the list, or why there is none. It waits no longer than ctx lasts, and than limit after
	// the list was first asked for.
	WaitUpTo(ctx context.Context, limit time.Duration) (*cache.Entry, error)
}

// viewer is the caller of a request, as the servers see it. Its methods ask the servers for lists on the
// caller's behalf, and find out what the caller is shown of them.
type viewer struct {
	endpoint *Endpoint
	r        *http.Request
	arrived  time.Time         // when the request did
	now      time.Time         // later than arrived if the request has waited since
	at       revision.Revision // of the request
	views    *catalog.Views    // what the caller may see and call; nil: everything

	callers    []*feed.Caller    // the caller as each server sees it, by the numbers of the servers
	admittedBy *callerlists.List // the door's list that has let the caller in; nil: there is none, or it is used
	crowded    bool              // a list could not be joined, as too many are
}

// demand asks a server for its list, as the caller is shown it; nil if it is not asked. last is
// what there is of the list, or nil: if that must not be given, the server is asked though it has
// failed lately.
func (v *viewer) demand(s *Server, k revision.Kind, last *cache.Entry) fetch {
	if s.Credentials.isPersonal() {
		// The cache does not keep a list that is too large. The door is asked for such a list only once.
		if list := v.admittedBy; s == v.endpoint.door && list != nil && list.Has(k) {
			v.admittedBy = nil
			return *list
		}
		counts := callerlists.AnyFailure
		switch {
		case !s.Settings.Caches(k):
			return nil
		case s == v.endpoint.door:
			counts = callerlists.NoFailure
		case last != nil && s.verdict(last, v.now) == freshness.Withheld:
			counts = callerlists.Refusals
		}
		return v.fetchAs(v.r.Context(), s, k, counts)
	}
	if f := s.feed(v.at); f != nil {
		if demanded := f.List(k).Demand(nil); demanded != nil {
			return demanded
		}
	}
	return nil
}

// listed returns the list of a server that the caller is shown, of whatever age, or nil.
func (v *viewer) listed(s *Server, k revision.Kind) *cache.Entry {
	at := s.at(v.at)
	pinned := s.pinned(at, k)
	if !s.Credentials.isPersonal() {
		return pinned
	}
	c := v.callerAt(s)
	if pinned != nil && (c.Context == cache.FeedOnly || c.Context == pinned.Partition) {
		return pinned // the feed's requests are the caller's
	}
	admitted := s.admits(c, at, k, v.now)
	own := s.Cache.Get(cache.Question{Revision: at, Kind: k, Partition: c.Context})
	if own != nil && own.Body.NextCursor != nil { // the first page, which a handler of the server alone has kept
		own = nil
	}
	// The server may have ceased to call its list everybody's, and to let the feed in.
	if admitted && pinned != nil && pinned.Partition.Admits(c.Context) && (own == nil || !own.Fetched.After(pinned.Fetched)) {
		return pinned
	}
	// An empty list needs no admission: the server may have no such list for anybody, and so
	// lets nobody in by it.
	if own != nil && (admitted || own.Body.Items == 0 && k != revision.Discover) {
		return own
	}
	return nil
}

// admits reports whether the server has accepted the caller lately, for a list of k at a revision.
func (s *Server) admits(c feed.Caller, at revision.Revision, k revision.Kind, now time.Time) bool {
	if s.Settings.AdmitAll {
		return true
	}
	known := s.Admission.Context(c.Context, at)
	return known != nil && known.Admitted(k, now)
}

// part returns what there is of a server's list, not too old, or nil.
func (v *viewer) part(s *Server, k revision.Kind) *cache.Entry {
	return s.usable(v.listed(s, k), v.now)
}

// isLacking reports whether the caller is shown no such list of a server, or was not when it
// was last asked, and for how long that counts.
func (v *viewer) isLacking(s *Server, k revision.Kind) (left time.Duration, lacking bool) {
	switch {
	case !s.Credentials.isPersonal():
		return forever, s.isLacking(v.at, k)
	case !s.Settings.Caches(k):
		return forever, true
	}
	left = s.callerLists.RefusedFor(v.callerAt(s).Context, v.now)
	return left, left > 0
}

// joined returns the list of what the servers have now, whether or not it is fresh; nil if there
// is no memory for it, see [viewer.join].
func (v *viewer) joined(k revision.Kind) *catalog.List {
	parts := make([]*cache.Entry, len(v.endpoint.servers))
	for i, s := range v.endpoint.servers {
		parts[i] = v.part(s, k)
	}
	return v.join(k, parts)
}

// join joins the lists that the caller is shown. It returns nil if so many large lists are being
// joined that it would have to wait too long, or the caller has gone.
func (v *viewer) join(k revision.Kind, parts []*cache.Entry) *catalog.List {
	if v.isEverybodys(k) {
		return v.endpoint.join(newestOf(v.at), k, parts)
	}
	l := v.endpoint.catalog.JoinFor(v.r.Context(), v.lister(), v.views, newestOf(v.at), k, parts)
	v.crowded = l == nil
	return l
}

// isEverybodys reports whether all callers are shown the same list of a kind.
func (v *viewer) isEverybodys(k revision.Kind) bool {
	return !v.endpoint.personal && !v.endpoint.varies.Has(k)
}

// last returns the list that the caller was given last, or nil.
func (v *viewer) last(k revision.Kind) *catalog.List {
	if v.isEverybodys(k) {
		return v.endpoint.catalog.Last(newestOf(v.at), k)
	}
	return v.endpoint.catalog.LastFor(v.lister(), newestOf(v.at), k)
}

// awaitShown has those of the servers show their lists of a kind that may have others for the
// caller, and have not shown them yet. It waits for each as long as for a feed that begins.
func (v *viewer) awaitShown(servers []*Server, k revision.Kind) {
	var fetches []fetch
	for _, s := range servers {
		if !s.Credentials.isPersonal() || v.part(s, k) != nil {
			continue
		}
		if f := v.demand(s, k, nil); f != nil {
			fetches = append(fetches, f)
		}
	}
	for _, f := range fetches {
		_, _ = v.wait(f, v.endpoint.firstPatience()) // what it does not show is not there
	}
}

// firstPatience is how long a list waits for a server that has not shown the caller anything.
func (e *Endpoint) firstPatience() time.Duration {
	return max(freshness.StalePatience, e.Settings.Gate)
}

// wait waits for a list, but for none longer than that after it was first asked for.
func (v *viewer) wait(f fetch, limit time.Duration) (*cache.Entry, error) {
	e, err := f.WaitUpTo(v.r.Context(), limit)
	v.now = time.Now()
	return e, err
}

// statusOf returns the refusal of a caller by a server, or nil.
func statusOf(err error) *client.StatusError {
	if status, ok := errors.AsType[*client.StatusError](err); ok && client.Refused(err) {
		return status
	}
	return nil
}
