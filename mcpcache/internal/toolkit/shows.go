package toolkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// shows is what a server is being asked to show callers who may see other lists than its
// feeds. What it has shown is in the bounded part of its cache, by authorization context.
type shows struct {
	mu     sync.Mutex
	asking map[question]*showing
	failed map[question]failed
	at     atomic.Uint32 // the revision at which a caller has been answered last
}

// question is what a caller asks a server for. In the legacy era, that is all of its lists.
type question struct {
	context cache.Partition
	era     revision.Era
	kind    revision.Kind
}

// failed is why a server did not show a caller anything, which counts for a while.
type failed struct {
	err   error
	until time.Time
}

const (
	// refusalCounts is how long a refusal of a caller's credentials counts: most of the servers
	// of a toolkit may be none of a caller's.
	refusalCounts = time.Minute
	// failureCounts is the same for any other failure, which each list would wait for.
	failureCounts = 10 * time.Second
	// showWithin is how long a server may take for all of its lists.
	showWithin = 2 * time.Minute
	// maxShowing and maxFailed bound for how many callers a server is asked at a time, and of
	// how many it is remembered that that failed. See [Server.makePlace].
	maxShowing = 1000
	maxFailed  = 10_000
)

var errTooMany = errors.New("the server is asked for too many callers at once")

// showing is one time that a server is asked. Others may wait for it, too.
type showing struct {
	*flight.Flight[*feed.Shown]

	from  string // see [visit.origin]
	end   context.CancelCauseFunc
	marks [revision.NumKinds]cache.Mark // of the moment when it was asked
}

// shownList is a list of what is being shown.
type shownList struct {
	*showing

	kind revision.Kind
}

// WaitUpTo implements [fetch].
func (l shownList) WaitUpTo(ctx context.Context, limit time.Duration) (*cache.Entry, error) {
	shown, err := l.showing.WaitUpTo(ctx, limit)
	if err != nil {
		return nil, err
	}
	return shown.Lists[l.kind], nil
}

// found returns the revision at which a caller was answered last, or [revision.Unknown].
func (s *shows) found() revision.Revision { return revision.Revision(s.at.Load()) }

// remembered says which failures of lately count when a server is asked to show a list.
type remembered uint8

const (
	// noFailure: it is asked anew in any case.
	noFailure remembered = iota
	// refusals: one of who asks.
	refusals
	// anyFailure: those, and any other that each list would wait for.
	anyFailure
)

// show asks the server for a list as a caller from that origin, for clients of the era of r,
// together with all who ask the same, unless there is a failure that counts.
func (s *Server) show(c feed.Caller, from string, r revision.Revision, k revision.Kind, counts remembered) shownList {
	q := question{c.Context, s.at(r).Era(), k}
	if q.era == revision.Legacy {
		q.kind = revision.Tools
	}
	now := time.Now()
	s.shows.mu.Lock()
	defer s.shows.mu.Unlock()
	// What is asked for since a change was announced has the change.
	if joined := s.shows.asking[q]; joined != nil && s.Cache.Current(k, joined.marks[k]) {
		return shownList{joined, k}
	}
	failure := s.shows.failedLately(q, counts, now)
	asking := &showing{Flight: flight.New[*feed.Shown](), from: from}
	for _, k := range revision.Kinds() {
		asking.marks[k] = s.Cache.Mark(k)
	}
	switch {
	case failure != nil:
		asking.Land(nil, failure)
	case !s.shows.makePlace(from):
		asking.Land(nil, errTooMany)
	default:
		if s.shows.asking == nil {
			s.shows.asking = make(map[question]*showing)
		}
		s.shows.asking[q] = asking
		ctx, end := context.WithCancelCause(context.Background())
		asking.end = end
		go s.ask(ctx, asking, q, c, r, k)
	}
	return shownList{asking, k}
}

// makePlace reports whether the server may be asked for one more caller from that origin. If
// all places are taken, the origin with the most of them loses its last one, unless this one
// would have as many. The caller holds s.mu.
func (s *shows) makePlace(from string) bool {
	if len(s.asking) < maxShowing {
		return true
	}
	places := make(map[string]int)
	for _, asking := range s.asking {
		places[asking.from]++
	}
	var last question
	var loser *showing
	for q, asking := range s.asking {
		more := loser == nil || places[asking.from] > places[loser.from]
		if more || places[asking.from] == places[loser.from] && asking.Asked().After(loser.Asked()) {
			last, loser = q, asking
		}
	}
	if places[loser.from] <= places[from]+1 {
		return false
	}
	loser.end(errTooMany)
	delete(s.asking, last)
	return true
}

// ask is what show does in the background: the caller may go away meanwhile.
func (s *Server) ask(ctx context.Context, asking *showing, q question, c feed.Caller, r revision.Revision, k revision.Kind) {
	defer asking.end(nil)
	ctx, cancel := context.WithTimeout(ctx, showWithin)
	defer cancel()
	ticket := s.Admission.Ticket()
	shown, err := s.askInEras(ctx, c, r, k)
	if err == nil {
		if shown.Answered != 0 { // that it has no list lets nobody in
			until := identity.AdmittedUntil(&http.Request{Header: c.Credentials}, time.Now(), s.Settings.AdmitFor)
			s.Admission.AdmitContext(c.Context, shown.Revision, shown.Answered, ticket, until)
		}
		s.shows.at.Store(uint32(shown.Revision))
		for _, list := range shown.Lists {
			if list != nil {
				s.Cache.Put(list)
				s.deliver(r, list.Kind)
			}
		}
	} else if client.Refused(err) {
		s.bar(c.Context, shown.Revision)
	}
	s.shows.mu.Lock()
	defer s.shows.mu.Unlock()
	switch {
	case s.shows.asking[q] == asking:
		delete(s.shows.asking, q)
	case err != nil && errors.Is(context.Cause(ctx), errTooMany):
		asking.Land(nil, errTooMany) // which says nothing of the server
		return
	}
	s.shows.note(q, err)
	asking.Land(shown, err)
}

// deliver notes that the server has shown a caller a list. Clients of the era of r hear of that if
// one was given a list without it.
func (s *Server) deliver(r revision.Revision, k revision.Kind) {
	if s.withheld[r.Era()][k].Swap(false) {
		s.returned[k].Add(1)
	}
}

// all is the question that stands for all that are asked as somebody.
func all(of cache.Partition) question {
	return question{context: of, kind: revision.Kind(revision.NumKinds)}
}

// note remembers a failure, which is one of all questions if it is about who asks, or that
// there was none. The caller holds s.mu.
func (s *shows) note(q question, err error) {
	delete(s.failed, all(q.context))
	delete(s.failed, q)
	if err == nil {
		return
	}
	if len(s.failed) >= maxFailed || s.failed == nil {
		s.failed = make(map[question]failed)
	}
	counts := failureCounts
	if client.Refused(err) {
		q, counts = all(q.context), refusalCounts
	}
	s.failed[q] = failed{err, time.Now().Add(counts)}
}

// failedLately returns a failure that counts yet, or nil. The caller holds s.mu.
func (s *shows) failedLately(q question, counts remembered, now time.Time) error {
	if refused, has := s.failed[all(q.context)]; has && counts >= refusals && now.Before(refused.until) {
		return refused.err
	}
	if failed, has := s.failed[q]; has && counts >= anyFailure && now.Before(failed.until) {
		return failed.err
	}
	return nil
}

// refusedFor returns for how long it counts yet that the server has refused that context; 0 if
// it does not.
func (s *shows) refusedFor(of cache.Partition, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed, has := s.failed[all(of)]; has && client.Refused(failed.err) {
		return max(failed.until.Sub(now), 0)
	}
	return 0
}

// bar has a caller be let in anew: the server has refused the credentials.
func (s *Server) bar(of cache.Partition, r revision.Revision) {
	if of.IsAnonymous() {
		s.Admission.RefuseContext(of, r, 0)
		return
	}
	s.Admission.Revoke(of)
}

// askInEras asks at the revision at which the server is shown to clients of the era of r; if
// it is not known yet whether it speaks that, at the other era's, too. The answer always has
// a revision.
func (s *Server) askInEras(ctx context.Context, c feed.Caller, r revision.Revision, k revision.Kind) (*feed.Shown, error) {
	at := s.at(r)
	known := s.spoken(at) == at || s.shows.found() == at
	shown, err := s.askAt(ctx, at, k, c, known)
	if err != nil && !known && s.maySpeak(otherOf(at)) && !client.Refused(err) && !client.Unreachable(err) && ctx.Err() == nil {
		at = otherOf(at)
		if other, failure := s.askAt(ctx, at, k, c, false); failure == nil || client.Refused(failure) {
			shown, err = other, failure
		}
	}
	if shown == nil {
		shown = &feed.Shown{Revision: at}
	}
	return shown, err
}

// askAt asks at one revision. A panic is a failure of that server.
func (s *Server) askAt(ctx context.Context, at revision.Revision, k revision.Kind, c feed.Caller, known bool) (shown *feed.Shown, err error) {
	defer func() {
		if p := recover(); p != nil {
			shown, err = nil, fmt.Errorf("asking for the lists of a caller panicked: %v", p)
		}
	}()
	wanted := k
	if k == revision.Discover && at.Era() == revision.Legacy {
		wanted = revision.Tools
	}
	shown, err = s.Feeds.ShowTo(ctx, at, wanted, c, known)
	if err == nil && shown.Server != nil {
		lifetime := s.Settings.Feed.Lifetime(revision.Discover, 0, false)
		shown.Lists[revision.Discover] = s.describing(shown.Server, shown.Revision, c.Context, lifetime)
	}
	return shown, err
}
