package toolkit

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/callerlists"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/freshness"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Server is one of the servers of a toolkit.
type Server struct {
	Name, Prefix string
	// URL is the server's MCP endpoint, as its feeds see it; Host is what requests to it
	// name as their Host, "" for that of the URL.
	URL, Host string
	// EndsSessions says that the session of a client ends when the server has lost its own.
	EndsSessions bool
	// LendsCredentials says that the way to the server puts a credential on requests that is not
	// their own.
	LendsCredentials bool
	// Credentials is what of a caller's request it is sent.
	Credentials Credentials
	// Rules are those of its block; nil: there are none.
	Rules Rules
	// Observer sees the requests that the server receives.
	Observer outcome.Observer
	*backend.Ref

	number      int // in the toolkit
	path        string
	callerLists *callerlists.Lists
	answeredAt  atomic.Uint32 // the revision at which a caller has been answered last
	description atomic.Pointer[description]
	outages     [numTroubles]outage
	// lacks are the kinds that the server did not have when it was last asked.
	lacks [2][revision.NumKinds]atomic.Bool // by era
	// withheld are the kinds that a client has been given without this server's part, as any may
	// know of a change that the part lacks. Clients are told once it is there.
	withheld [2][revision.NumKinds]atomic.Bool // by era
	// returned counts how often a part that was withheld from a single caller came back.
	returned [revision.NumKinds]atomic.Uint64
}

// newestOf returns the newest revision of the era of r: the one at which lists are joined.
func newestOf(r revision.Revision) revision.Revision {
	if r.Era() == revision.Modern {
		return revision.LatestModern
	}
	return revision.LatestLegacy
}

// eras are the newest revisions of the eras, at which lists are joined.
var eras = [...]revision.Revision{revision.LatestLegacy, revision.LatestModern}

// otherOf returns the newest revision of the era that r is not of.
func otherOf(r revision.Revision) revision.Revision {
	if r.Era() == revision.Modern {
		return revision.LatestLegacy
	}
	return revision.LatestModern
}

// at returns the revision at which the server's lists are shown to clients of the era of r,
// and it is called for them: the newest of that era that it speaks. It is of the other era if
// the server speaks none of the client's, fails in it, or has not delivered its lists yet, while
// all is well in the other.
func (s *Server) at(r revision.Revision) revision.Revision {
	own, other := newestOf(r), otherOf(r)
	mine := s.spoken(own)
	if s.isServed(mine) {
		return mine
	}
	theirs := s.spoken(other)
	switch {
	case s.isServed(theirs):
		return theirs
	case mine != revision.Unknown:
		return mine
	case theirs != revision.Unknown:
		return theirs
	}
	switch found := s.lastAnsweredAt(); { // the feeds may not be let in where callers are
	case found != revision.Unknown:
		return found
	case s.maySpeak(own):
	case s.maySpeak(other), s.Feeds.Of(own) == nil && s.Feeds.Of(other) != nil: // it is not asked for the own one
		return other
	case s.kept(own) == revision.Unknown && s.kept(other) != revision.Unknown: // what it last had stays behind
		return s.kept(other)
	}
	return own
}

// isServed reports whether the server has delivered lists at a revision, and answers.
func (s *Server) isServed(r revision.Revision) bool {
	f := s.Feeds.Of(r)
	return f != nil && !f.IsDown() && (f.HasDelivered() || s.Cache.Pinned(r, revision.Tools) != nil)
}

// spoken returns the newest revision of an era that the server speaks, or that it has spoken
// before a restart and may speak still. It is [revision.Unknown] if there is none.
func (s *Server) spoken(newest revision.Revision) revision.Revision {
	era := newest.Era()
	for r := newest; r > revision.Unknown && r.Era() == era; r-- {
		if f := s.Feeds.Of(r); f != nil && f.Speaks() {
			return r
		}
	}
	if s.maySpeak(newest) {
		return s.kept(newest)
	}
	return revision.Unknown
}

// kept returns the newest revision of an era at which there are lists of the server, or
// [revision.Unknown].
func (s *Server) kept(newest revision.Revision) revision.Revision {
	for r := newest; r > revision.Unknown && r.Era() == newest.Era(); r-- {
		if s.Cache.Pinned(r, revision.Tools) != nil {
			return r
		}
	}
	return revision.Unknown
}

// maySpeak reports whether the server is asked for an era, and has not said that it does not
// speak the newest revision of it.
func (s *Server) maySpeak(newest revision.Revision) bool {
	f := s.Feeds.Of(newest)
	return f != nil && !f.IsUnsupported()
}

// feed returns the one whose lists are shown to clients of the era of r, or nil.
func (s *Server) feed(r revision.Revision) *feed.Feed { return s.Feeds.Of(s.at(r)) }

// pinned returns the server's list of a kind at a revision, as clients of either era are shown it, or nil.
func (s *Server) pinned(at revision.Revision, k revision.Kind) *cache.Entry {
	if k == revision.Discover && at.Era() == revision.Legacy {
		return s.described(at)
	}
	return s.Cache.Pinned(at, k)
}

// description is what a legacy server has said of itself, as an answer to server/discover.
type description struct {
	of    *client.ServerInfo
	entry *cache.Entry
}

// described returns what the server has said of itself at a legacy revision, as far as a
// modern client is told that; nil before it has.
func (s *Server) described(r revision.Revision) *cache.Entry {
	f := s.Feeds.Of(r)
	if f == nil || f.Server() == nil {
		return nil
	}
	info := f.Server()
	if last := s.description.Load(); last != nil && last.of == info && s.Cache.Current(revision.Discover, last.entry.Mark) {
		return last.entry
	}
	e := s.describing(info, r, s.Settings.Feed.Partition(message.ScopeUnset), forever)
	s.description.Store(&description{info, e})
	return e
}

// describing makes an answer to server/discover of what a legacy server has said of itself.
func (s *Server) describing(info *client.ServerInfo, r revision.Revision, to cache.Partition, lifetime time.Duration) *cache.Entry {
	return &cache.Entry{
		Kind: revision.Discover, Revision: r, Body: catalog.Describing(info.Result), Mark: s.Cache.Mark(revision.Discover),
		Partition: to, Fetched: time.Now(), Lifetime: lifetime,
	}
}

// part returns what there is of a server's list, or nil.
func (s *Server) part(r revision.Revision, k revision.Kind, now time.Time) *cache.Entry {
	return s.usable(s.pinned(s.at(r), k), now)
}

// usable returns a part, which may be nil, if it is not too old to find names in it.
func (s *Server) usable(part *cache.Entry, now time.Time) *cache.Entry {
	if part != nil && s.Cache.Freshness(part, now) != cache.Fresh && !s.Settings.Stale.Lasts(part, now) {
		return nil
	}
	return part
}

// verdict says what may be done with a part, of which nil is withheld. Nobody tells a toolkit's
// callers apart by what they were told, here or at another handler of the same server.
func (s *Server) verdict(part *cache.Entry, now time.Time) freshness.Verdict {
	if part == nil {
		return freshness.Withheld
	}
	return s.Settings.Stale.Of(s.Cache, part, freshness.Told{Anyone: true}, now)
}

// isLacking reports whether the server has no such list, or had none when it was last
// asked.
func (s *Server) isLacking(r revision.Revision, k revision.Kind) bool {
	at := s.at(r)
	f := s.Feeds.Of(at)
	switch {
	case f == nil: // the feeds have not begun, or have ended
		return s.Context().Err() != nil
	case !k.In(at): // it describes itself once it is reached
		return false
	case f.IsUnsupported(): // it answers in no era: that says nothing of its lists
	case f.List(k).Lacks():
		s.lacks[r.Era()][k].Store(true)
		return true
	}
	return s.lacks[r.Era()][k].Load()
}

// has notes that the server has such a list.
func (s *Server) has(r revision.Revision, k revision.Kind) { s.lacks[r.Era()][k].Store(false) }

// isKnown reports whether the server has ever been reached.
func (s *Server) isKnown(r revision.Revision) bool {
	f := s.feed(r)
	return f != nil && f.Speaks()
}

// notReached is the refusal of what a server has to answer that never has.
func (s *Server) notReached() *jsonrpc.Problem {
	return jsonrpc.Failed(http.StatusServiceUnavailable, fmt.Sprintf("the MCP server %q has not been reached yet", s.Name))
}
