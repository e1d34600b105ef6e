// Package freshness decides what the cache may do with its copy of a list. The caller may get the
// copy at once, or only if the server fails. If the caller may know of a change that the copy
// lacks, it does not get the copy. The verdict is the same in front of one server and of several.
//
// The package knows nothing of requests, and of how lists are fetched.
package freshness

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	// Patience is how long a caller waits for a list of which there is no copy that the caller
	// may be given.
	Patience = 5 * time.Second
	// StalePatience is the same for a caller who may be given a stale copy.
	StalePatience = time.Second
)

// Verdict says what may be done with a copy.
type Verdict uint8

const (
	// Withheld: only the server's own answer will do. The caller may know of a change that the
	// copy lacks, or the copy is too old.
	Withheld Verdict = iota
	// Outdated: a change was announced, and the caller does not know of it. The copy may be
	// given if the server fails, or takes longer than [StalePatience].
	Outdated
	// Expired: the copy's lifetime is over. It may be given in the same cases.
	Expired
	// Fresh: the copy may be given at once.
	Fresh
)

// IsStale reports whether the copy may be given, but not as fresh.
func (v Verdict) IsStale() bool { return v == Outdated || v == Expired }

// Policy is what the operator says of copies that are not fresh.
type Policy struct {
	// IfError is how long one may be given after it went stale, while the server fails. 0: not
	// at all.
	IfError time.Duration
	// AfterNotice says that also callers may be given it who were told of a change.
	AfterNotice bool
}

// Told is what a caller has been told of changes of a list, on streams of its own. The zero value
// is that of a caller who has been told nothing.
type Told struct {
	// Anyone says that nobody tells the caller apart from other clients of this process: it may
	// have been told whatever any of them was.
	Anyone bool
	// Notice is the moment of the last notice; nil if there was none.
	Notice *cache.Mark
	// Lacks says that the copy may lack the change behind that notice, which was one of the
	// caller's own session.
	Lacks bool
}

// Of returns the verdict about e, which is kept in c, for a caller who was told that.
func (p Policy) Of(c *cache.Cache, e *cache.Entry, told Told, now time.Time) Verdict {
	verdict := Fresh
	switch c.Freshness(e, now) {
	case cache.Outdated:
		verdict = Outdated
	case cache.Expired:
		verdict = Expired
	case cache.Fresh:
	}
	switch {
	case verdict != Fresh && (p.IfError <= 0 || !p.Lasts(e, now)):
		return Withheld
	case p.AfterNotice, e.Kind == revision.Discover: // of which no notice tells anybody
		return verdict
	case verdict == Outdated && (c.MayBeKnown(e) || told.knows(c, e)), told.Notice != nil && told.Lacks:
		return Withheld
	}
	return verdict
}

// Lasts reports whether e is not too old to be of use, whoever knows of a change.
func (p Policy) Lasts(e *cache.Entry, now time.Time) bool { return -e.Left(now) < p.IfError }

// knows reports whether the caller may have been told of a change since e was asked for, on a stream of
// this process.
func (t Told) knows(c *cache.Cache, e *cache.Entry) bool {
	return t.Anyone && c.IsKnownHere(e) || t.Notice != nil && !e.Mark.Since(*t.Notice)
}

// MayStandIn reports whether a copy of that verdict may be given in the place of an answer of the
// server, which fails. With an [Policy.IfError] of 0, none may: not even one that is fresh for
// others, where the caller may have changed the list itself.
func (p Policy) MayStandIn(v Verdict) bool { return p.IfError > 0 && v != Withheld }
