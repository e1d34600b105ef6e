package callerlists

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// server stands for one that answers when it is told to.
type server struct {
	*testing.T
	*Lists

	asked  int
	answer chan error

	ending sync.Mutex
	gone   []string // the origins whose requests were ended; guarded by ending
}

// ended returns the origins whose requests were ended, in that order.
func (s *server) ended() []string {
	s.ending.Lock()
	defer s.ending.Unlock()
	return s.gone
}

// run runs a test with the lists of a server, in a bubble.
func run(t *testing.T, test func(s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := cache.New(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		s := &server{T: t, Lists: New(c), answer: make(chan error)}
		test(s)
		close(s.answer)
		synctest.Wait()
		c.Close()
	})
}

func callerOf(number int) cache.Partition {
	return cache.ContextOf([16]byte{byte(number), byte(number >> 8)}, cache.Asked{})
}

// ask asks for the tools of a caller, by a request that lasts as long as ctx.
func (s *server) ask(ctx context.Context, change ...func(*Request)) List {
	r := Request{Caller: callerOf(1), Origin: "somewhere", Era: revision.Modern, Kind: revision.Tools, Counts: AnyFailure}
	for _, change := range change {
		change(&r)
	}
	r.Fetch = func(ctx context.Context) (*feed.CallerLists, error) {
		s.asked++
		select {
		case err := <-s.answer:
			shown := new(feed.CallerLists)
			shown.Lists[r.Kind] = &cache.Entry{Body: &message.Body{Items: s.asked}}
			return shown, err
		case <-ctx.Done():
			s.ending.Lock()
			defer s.ending.Unlock()
			s.gone = append(s.gone, r.Origin)
			return nil, ctx.Err()
		}
	}
	l := s.Ask(ctx, r)
	synctest.Wait()
	return l
}

// answers has the server answer what it is asked for, with an error if that is not nil.
func (s *server) answers(err error) {
	s.answer <- err
	synctest.Wait()
}

// wants checks how often the server was asked.
func (s *server) wants(asked int, when string) {
	s.Helper()
	if s.asked != asked {
		s.Errorf("%s, the server was asked %d times, want %d", when, s.asked, asked)
	}
}

// wantsOf checks what comes of a list at once: the answer of that number, or an error.
func (s *server) wantsOf(l List, number int, failure error) {
	s.Helper()
	e, err := l.WaitUpTo(s.Context(), time.Second)
	switch {
	case failure != nil:
		if !errors.Is(err, failure) {
			s.Errorf("got %v, error %v, want %v", e, err, failure)
		}
	case err != nil || e.Body.Items != number:
		s.Errorf("got %v, error %v, want answer %d", e, err, number)
	}
}

// TestAskedOnce: requests for the same list of the same caller share one answer. In the legacy era, that
// is the answer for all kinds.
func TestAskedOnce(t *testing.T) {
	run(t, func(s *server) {
		first, second := s.ask(s.Context()), s.ask(s.Context())
		s.wants(1, "for one list")
		s.ask(s.Context(), func(r *Request) { r.Kind = revision.Prompts })
		s.ask(s.Context(), func(r *Request) { r.Caller = callerOf(2) })
		s.ask(s.Context(), func(r *Request) { r.Era = revision.Legacy })
		s.wants(4, "for lists of another kind, caller and era")
		s.ask(s.Context(), func(r *Request) { r.Era, r.Kind = revision.Legacy, revision.Prompts })
		s.wants(4, "for another list of the legacy era")
		for range 4 {
			s.answers(nil)
		}
		s.wantsOf(first, 4, nil)
		s.wantsOf(second, 4, nil)
		s.ask(s.Context())
		s.wants(5, "after the answer")
	})
}

// TestListsHaveWhatWasAnnounced: a list that was asked for before a change is not shared with requests that come
// after it.
func TestListsHaveWhatWasAnnounced(t *testing.T) {
	run(t, func(s *server) {
		old := s.ask(s.Context())
		if !old.Has(revision.Tools) || old.Has(revision.Prompts) {
			s.Error("the list is of another kind, or lacks a change")
		}
		s.cache.Bump(revision.SetOf(revision.Prompts))
		s.ask(s.Context())
		s.wants(1, "after a change of another kind")
		s.cache.Bump(revision.SetOf(revision.Tools))
		young := s.ask(s.Context())
		s.wants(2, "after a change")
		if old.Has(revision.Tools) || !young.Has(revision.Tools) {
			s.Error("the old list has the change, or the new one lacks it")
		}
		s.answers(nil)
		s.answers(nil)
		s.ask(s.Context())
		s.wants(3, "after both answers")
	})
}

// TestFailuresAreRemembered: a failure counts for a while, one of the caller for all lists.
func TestFailuresAreRemembered(t *testing.T) {
	refused, failed := &client.StatusError{Status: http.StatusUnauthorized}, errors.New("the server fails")
	for _, c := range []struct {
		err       error
		counts    time.Duration
		other     bool       // it counts for other kinds, too
		unless    Remembered // the failures that leave it out
		refusedAt time.Duration
	}{
		{refused, RefusalCounts, true, NoFailure, RefusalCounts},
		{failed, FailureCounts, false, Refusals, 0},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			run(t, func(s *server) {
				prompts := func(r *Request) { r.Kind = revision.Prompts }
				l := s.ask(s.Context())
				s.answers(c.err)
				s.wantsOf(l, 0, c.err)
				if left := s.RefusedFor(callerOf(1), time.Now()); left != c.refusedAt {
					s.Errorf("the caller is refused for %s", left)
				}
				time.Sleep(c.counts - 1)
				s.wantsOf(s.ask(s.Context()), 0, c.err)
				s.wants(1, "before the failure is over")
				if s.ask(s.Context(), prompts); c.other != (s.asked == 1) {
					s.Error("for another list, the failure counts, or does not")
				}
				before := s.asked
				s.ask(s.Context(), func(r *Request) { r.Counts = c.unless })
				s.wants(before+1, "where the failure does not count")
				s.answers(nil)
				if before > 1 {
					s.answers(nil)
				}
				s.ask(s.Context())
				s.wants(before+2, "after an answer")
			})
			run(t, func(s *server) {
				s.ask(s.Context())
				s.answers(c.err)
				time.Sleep(c.counts)
				s.ask(s.Context())
				s.wants(2, "once the failure is over")
			})
		})
	}
}

// TestServersThatHang: a server has its time, and no more.
func TestServersThatHang(t *testing.T) {
	run(t, func(s *server) {
		l := s.ask(s.Context())
		time.Sleep(Within - 1)
		synctest.Wait()
		if len(s.ended()) != 0 {
			s.Error("the server has less than its time")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s.wantsOf(l, 0, context.DeadlineExceeded)
		s.ask(s.Context())
		s.wants(1, "after that failure")
	})
}

// TestClosedLists: what is asked for goes on when its requests are over. In a configuration that has ended, it goes
// on for as long as a request needs it.
func TestClosedLists(t *testing.T) {
	run(t, func(s *server) {
		gone, leave := context.WithCancel(s.Context())
		s.ask(gone, func(r *Request) { r.Origin = "left early" })
		leave()
		synctest.Wait()
		if len(s.ended()) != 0 {
			s.Error("what was asked for ends with its request")
		}
		first, leaveFirst := context.WithCancel(s.Context())
		second, leaveSecond := context.WithCancel(s.Context())
		asks := func(r *Request) { r.Caller, r.Origin = callerOf(2), "stays" }
		s.ask(first, asks)
		s.ask(second, asks)
		s.Close()
		synctest.Wait()
		if fmt.Sprint(s.ended()) != "[left early]" {
			s.Errorf("the end of the configuration has ended what was asked for from %q", s.ended())
		}
		leaveFirst()
		synctest.Wait()
		if len(s.ended()) != 1 {
			s.Error("what a request needs is ended")
		}
		leaveSecond()
		synctest.Wait()
		if fmt.Sprint(s.ended()) != "[left early stays]" {
			s.Errorf("what nobody needs goes on; ended is %q", s.ended())
		}
		late := s.ask(s.Context(), asks)
		s.wants(3, "for a request that is still under way")
		s.answers(nil)
		s.wantsOf(late, 3, nil)
	})
}

// TestPlacesAreSharedOut: while a server is asked for as many callers as it may be, the origin with the
// most places gives the last one to those who have fewer.
func TestPlacesAreSharedOut(t *testing.T) {
	run(t, func(s *server) {
		callers := 0
		last := make(map[string]List)
		ask := func(origin string) bool {
			time.Sleep(time.Millisecond)
			before := s.asked
			callers++
			l := s.ask(s.Context(), func(r *Request) { r.Origin, r.Caller = origin, callerOf(callers) })
			if s.asked == before {
				s.wantsOf(l, 0, ErrTooMany)
				return false
			}
			last[origin] = l
			return true
		}
		for range maxAsked {
			if !ask("stranger") {
				s.Fatal("there is a place, and it is not given")
			}
		}
		if ask("stranger") {
			s.Error("a stranger takes places of its own")
		}
		loser := last["stranger"]
		for n := range maxAsked / 2 {
			if !ask("other") {
				s.Fatalf("the other has %d places, and is not given another", n)
			}
		}
		s.wantsOf(loser, 0, ErrTooMany)
		if ask("other") || ask("stranger") {
			s.Error("one of two who have as many is given another")
		}
		if !ask("third") || len(s.Lists.asked) != maxAsked {
			s.Errorf("of %d places there is none for a third", len(s.Lists.asked))
		}
		lost := make(map[string]int)
		for _, origin := range s.ended() {
			lost[origin]++
		}
		if lost["stranger"]+lost["other"] != maxAsked/2+1 || lost["other"] > 1 {
			s.Errorf("places were lost by %v", lost)
		}
	})
}

// TestRememberedFailuresAreBounded: a stranger with many credentials fills no memory.
func TestRememberedFailuresAreBounded(t *testing.T) {
	run(t, func(s *server) {
		for n := range maxFailed + 1 {
			s.ask(s.Context(), func(r *Request) { r.Caller = callerOf(n) })
			s.answers(&client.StatusError{Status: http.StatusUnauthorized})
		}
		if n := len(s.failed); n != 1 {
			s.Errorf("%d failures are remembered", n)
		}
	})
}
