package exchange

import (
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/admission"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// misled is called when the upstream has refused a call that the client made by a
// list. The caller's next list comes from the upstream. Other callers are given
// the same list as before, and the feed checks whether it has changed.
func (x *exchange) misled() {
	b := x.backend
	doubt := &admission.Doubt{Mark: b.Cache.Doubt(revision.Tools), Misled: true}
	if caller := x.marked(); caller != nil {
		caller.Doubt(revision.Tools, doubt)
	}
	x.endpoint.Observer.Noticed(revision.SetOf(revision.Tools), outcome.FromCall)
	for _, f := range b.Feeds.All() {
		f.Misled(revision.Tools, doubt.Mark)
	}
}

// marked returns the caller, or nil if it has neither credentials nor a session:
// such callers cannot be told apart, so nothing can be recorded of one of them.
func (x *exchange) marked() *admission.Caller {
	if x.session != "" {
		if known := x.backend.Admission.Session(x.session); known != nil {
			return known
		}
	}
	inSession := x.session != "" && x.streamRevision().Era() == revision.Legacy
	if x.context.IsAnonymous() && !inSession {
		return nil
	}
	return x.streamCaller()
}

// noticeLag is how long after the result of a call its change notice may come.
const noticeLag = 250 * time.Millisecond

// called is called when the result of a tool call is about to be passed on: the
// call may have changed lists, which upstreams announce later, or never.
func (x *exchange) called() {
	if x.in.Method != "tools/call" || x.noticedCall {
		return
	}
	x.noticedCall = true
	b := x.backend
	feeds, caller := b.Feeds.All(), x.marked()
	if caller == nil && !slices.ContainsFunc(feeds, (*feed.Feed).MayBeSilent) {
		return
	}
	if names := b.ReadOnly(x.revision()); len(names) > 0 && names[x.tool()] {
		return
	}
	kinds, until, own := revision.Kinds(), time.Now().Add(noticeLag), b.Feeds.Of(x.revision())
	doubts := make([]admission.Doubt, len(kinds))
	for i, k := range kinds {
		if k == revision.Discover {
			continue
		}
		mark, silent := b.Cache.Doubt(k), false
		for _, f := range feeds {
			caught, later := f.Called(k, mark)
			silent = silent || caught || later && f == own
		}
		if caller != nil {
			doubts[i] = admission.Doubt{Mark: mark, Silent: silent, Until: until}
			caller.Doubt(k, &doubts[i])
		}
	}
}
