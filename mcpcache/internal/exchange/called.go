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
func (l *learner) misled() {
	b := l.backend
	change := &admission.PendingChange{Mark: b.Cache.Suspect(revision.Tools), Misled: true}
	if caller := l.marked(); caller != nil {
		caller.NotePending(revision.Tools, change)
	}
	l.endpoint.Observer.Noticed(revision.SetOf(revision.Tools), outcome.FromCall)
	for _, f := range b.Feeds.All() {
		f.List(revision.Tools).Misled(change.Mark)
	}
}

// marked returns the caller, or nil if it has neither credentials nor a session:
// such callers cannot be told apart, so nothing can be recorded of one of them.
func (l *learner) marked() *admission.Caller {
	if l.session != "" {
		if known := l.backend.Admission.Session(l.session); known != nil {
			return known
		}
	}
	inSession := l.session != "" && l.streamRevision().Era() == revision.Legacy
	if l.context.IsAnonymous() && !inSession {
		return nil
	}
	return l.streamCaller()
}

// noticeLag is how long after the result of a call its change notice may come.
const noticeLag = 250 * time.Millisecond

// called is called when the result of a tool call is about to be passed on: the
// call may have changed lists, which upstreams announce later, or never.
func (l *learner) called() {
	if l.in.Method != "tools/call" || l.noticedCall {
		return
	}
	l.noticedCall = true
	b := l.backend
	feeds, caller := b.Feeds.All(), l.marked()
	if caller == nil && !slices.ContainsFunc(feeds, (*feed.Feed).MayBeSilent) {
		return
	}
	if names := b.ReadOnly(l.revision()); len(names) > 0 && names[l.tool()] {
		return
	}
	kinds, until, own := revision.Kinds(), time.Now().Add(noticeLag), b.Feeds.Of(l.revision())
	changes := make([]admission.PendingChange, len(kinds))
	for i, k := range kinds {
		if k == revision.Discover {
			continue
		}
		mark, silent := b.Cache.Suspect(k), false
		for _, f := range feeds {
			caught, later := f.List(k).Called(mark)
			silent = silent || caught || later && f == own
		}
		if caller != nil {
			changes[i] = admission.PendingChange{Mark: mark, Silent: silent, Until: until}
			caller.NotePending(k, &changes[i])
		}
	}
}
