// Package callerlists asks one of several servers for the lists of single callers. Requests that
// need the same list of the same caller share one answer. The package remembers failures for a
// while. It shares out the places for callers among the origins that ask.
//
// The lists themselves are in the server's cache, under the caller's authorization context.
package callerlists

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	// RefusalCounts is how long a refusal of a caller's credentials counts: most of the servers
	// of a toolkit may be none of a caller's.
	RefusalCounts = time.Minute
	// FailureCounts is the same for any other failure, which each list would wait for.
	FailureCounts = 10 * time.Second
	// Within is how long a server may take for all of its lists.
	Within = 2 * time.Minute
	// maxAsked is the number of places: for so many callers, a server is asked at a time. See
	// [Lists.makePlace]. maxFailed is how many failures are remembered.
	maxAsked  = 1000
	maxFailed = 10_000
)

// ErrTooMany says that a server is asked for too many callers at once. A caller of another origin may
// have taken the place.
var ErrTooMany = errors.New("the server is asked for too many callers at once")

// errClosed ends a fetch that no request needs.
var errClosed = errors.New("the configuration is no longer in use")

// Lists asks one server for lists. [New] makes it. Several goroutines may use it at once.
type Lists struct {
	cache *cache.Cache // of the server

	mu     sync.Mutex
	asked  map[question]*asked
	failed map[question]failure
	closed bool
}

// New returns the lists of the server with that cache.
func New(c *cache.Cache) *Lists {
	return &Lists{cache: c, asked: make(map[question]*asked), failed: make(map[question]failure)}
}

// question is what a caller asks a server for. In the legacy era, that is all of its lists.
type question struct {
	caller cache.Partition
	era    revision.Era
	kind   revision.Kind
}

// anything is the question that stands for all questions of a caller.
func anything(caller cache.Partition) question {
	return question{caller: caller, kind: revision.Kind(revision.NumKinds)}
}

// failure is why a server did not show a caller anything. It counts for a while.
type failure struct {
	err   error
	until time.Time
}

// Remembered says which failures of late keep a server from being asked again.
type Remembered uint8

const (
	// NoFailure has the server be asked in any case.
	NoFailure Remembered = iota
	// Refusals are those of the caller.
	Refusals
	// AnyFailure are those, and all others, which each list would wait for.
	AnyFailure
)

// Request is a list that a caller needs.
type Request struct {
	// Caller is the authorization context, and Origin tells apart who share the places for
	// callers.
	Caller cache.Partition
	Origin string
	// Era is that in which the server is asked for a list of Kind.
	Era  revision.Era
	Kind revision.Kind
	// Counts says which failures count.
	Counts Remembered
	// Fetch asks the server, as the caller. ctx lasts for [Within] at most.
	Fetch func(ctx context.Context) (*feed.CallerLists, error)
}

// asked is one question that the server works on.
type asked struct {
	*flight.Flight[*feed.CallerLists]

	question question
	origin   string
	end      context.CancelCauseFunc
	marks    [revision.NumKinds]cache.Mark // of the moment when the server was asked

	// Guarded by [Lists.mu]:
	users  int           // requests that need the answer
	forget []func() bool // take the answer away from the requests: some of them last for hours
}

// List is a list that the server has been asked for.
type List struct {
	*asked

	kind  revision.Kind
	cache *cache.Cache
}

// WaitUpTo returns the list, or why there is none. It waits no longer than ctx lasts, and than limit
// after the server was asked.
func (l List) WaitUpTo(ctx context.Context, limit time.Duration) (*cache.Entry, error) {
	shown, err := l.asked.WaitUpTo(ctx, limit)
	if err != nil {
		return nil, err
	}
	return shown.Lists[l.kind], nil
}

// Has reports whether it is a list of that kind that has all changes that have been announced.
func (l List) Has(k revision.Kind) bool {
	return l.kind == k && l.cache.Current(k, l.marks[k])
}

// Ask asks the server in the background, together with all who ask the same, unless there is a
// failure that counts. ctx lasts for as long as a request needs the list. The fetch goes on after
// that, so that the next request finds the list in the cache. [Lists.Close] ends it.
func (l *Lists) Ask(ctx context.Context, r Request) List {
	q := question{r.Caller, r.Era, r.Kind}
	if q.era == revision.Legacy {
		q.kind = revision.Tools
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A fetch that has begun after a change brings the change.
	if joined := l.asked[q]; joined != nil && l.cache.Current(r.Kind, joined.marks[r.Kind]) {
		l.use(ctx, joined)
		return List{joined, r.Kind, l.cache}
	}
	a := &asked{Flight: flight.New[*feed.CallerLists](), question: q, origin: r.Origin}
	for _, k := range revision.Kinds() {
		a.marks[k] = l.cache.Mark(k)
	}
	switch failure := l.failedLately(q, r.Counts, a.Asked()); {
	case failure != nil:
		a.Land(nil, failure)
	case !l.makePlace(r.Origin):
		a.Land(nil, ErrTooMany)
	default:
		l.asked[q] = a
		fetching, end := context.WithCancelCause(context.Background())
		a.end = end
		l.use(ctx, a)
		go l.fetch(fetching, a, r.Fetch)
	}
	return List{a, r.Kind, l.cache}
}

// use notes that a request needs a list until ctx ends. The caller holds l.mu.
func (l *Lists) use(ctx context.Context, a *asked) {
	a.users++
	a.forget = append(a.forget, context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.users--
		l.endIfOver(a)
	}))
}

// endIfOver ends a fetch that no request needs, once the lists are closed. The caller holds l.mu.
func (l *Lists) endIfOver(a *asked) {
	if l.closed && a.users == 0 {
		l.giveUp(a, errClosed)
	}
}

// giveUp ends a fetch. The caller holds l.mu.
func (l *Lists) giveUp(a *asked, why error) {
	a.end(why)
	l.remove(a)
}

// remove makes room for the next time that the same is asked. The caller holds l.mu.
func (l *Lists) remove(a *asked) {
	if l.asked[a.question] == a {
		delete(l.asked, a.question)
	}
}

// Close ends the fetches that no request needs, now or later.
func (l *Lists) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, a := range l.asked {
		l.endIfOver(a)
	}
}

// makePlace reports whether the server may be asked for one more caller from that origin. If
// all places are taken, the origin with the most of them loses its last one, unless this one
// would have as many. The caller holds l.mu.
func (l *Lists) makePlace(origin string) bool {
	if len(l.asked) < maxAsked {
		return true
	}
	places := make(map[string]int)
	for _, a := range l.asked {
		places[a.origin]++
	}
	var loser *asked
	for _, a := range l.asked {
		more := loser == nil || places[a.origin] > places[loser.origin]
		if more || places[a.origin] == places[loser.origin] && a.Asked().After(loser.Asked()) {
			loser = a
		}
	}
	if places[loser.origin] <= places[origin]+1 {
		return false
	}
	l.giveUp(loser, ErrTooMany)
	return true
}

// fetch asks the server, and gives the result to all who wait.
func (l *Lists) fetch(ctx context.Context, a *asked, ask func(context.Context) (*feed.CallerLists, error)) {
	defer a.end(nil)
	within, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	shown, err := ask(within)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(a)
	for _, forget := range a.forget {
		forget()
	}
	a.forget = nil
	if err != nil && ctx.Err() != nil { // it was given up, which says nothing of the server
		a.Land(nil, context.Cause(ctx))
		return
	}
	l.note(a.question, err)
	a.Land(shown, err)
}

// note remembers a failure, which is one of all questions if it is about the caller, or that
// there was none. The caller holds l.mu.
func (l *Lists) note(q question, err error) {
	delete(l.failed, anything(q.caller))
	delete(l.failed, q)
	if err == nil {
		return
	}
	if len(l.failed) >= maxFailed {
		clear(l.failed)
	}
	counts := FailureCounts
	if client.Refused(err) {
		q, counts = anything(q.caller), RefusalCounts
	}
	l.failed[q] = failure{err, time.Now().Add(counts)}
}

// failedLately returns a failure that counts yet, or nil. The caller holds l.mu.
func (l *Lists) failedLately(q question, counts Remembered, now time.Time) error {
	if refused, has := l.failed[anything(q.caller)]; has && counts >= Refusals && now.Before(refused.until) {
		return refused.err
	}
	if failed, has := l.failed[q]; has && counts >= AnyFailure && now.Before(failed.until) {
		return failed.err
	}
	return nil
}

// RefusedFor returns for how long it counts yet that the server has refused a caller; 0 if it does
// not.
func (l *Lists) RefusedFor(caller cache.Partition, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused, has := l.failed[anything(caller)]; has {
		return max(refused.until.Sub(now), 0)
	}
	return 0
}
