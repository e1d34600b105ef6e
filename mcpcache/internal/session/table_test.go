package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// desk opens sessions with a server, and counts them.
type desk struct {
	mu             sync.Mutex
	opened, closed int
	fail           func() error // nil: it does not
}

func (d *desk) server(name string, key any) Dialer {
	return Dialer{Name: name, Key: key, Open: func(context.Context) (*client.Session, error) {
		d.mu.Lock()
		fail := d.fail
		d.opened++
		d.mu.Unlock()
		if fail != nil {
			if err := fail(); err != nil {
				return nil, err
			}
		}
		return client.New(client.Config{
			Revision: revision.LatestLegacy, URL: "http://127.0.0.1:1/mcp", Base: http.DefaultTransport,
			Policy: func() client.Policy { return client.Policy{} },
		}).NewSession(nil)
	}, End: func(*client.Session) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.closed++
	}}
}

func use(t *testing.T, table *Table, id byte) *Entry {
	t.Helper()
	s, err := table.Use(ID{id}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, table := new(desk), NewTable()
		table.SetLimit(2)
		want := func(opened, closed, sessions int) {
			t.Helper()
			synctest.Wait()
			if d.opened != opened || d.closed != closed || table.Len() != sessions {
				t.Errorf("%d were opened, %d closed, %d clients have some; want %d, %d, %d", d.opened, d.closed, table.Len(), opened, closed, sessions)
			}
		}
		var waiting sync.WaitGroup
		one := use(t, table, 1)
		for range 10 { // one is opened for all of them
			waiting.Go(func() {
				if o, err := one.Dial(t.Context(), d.server("a", 1)); err != nil || o.Server != "a" {
					t.Errorf("a session with %+v, %v", o, err)
				}
			})
		}
		waiting.Wait()
		want(1, 0, 1)
		_, _ = one.Dial(t.Context(), d.server("b", 1))
		_, _ = one.Dial(t.Context(), d.server("b", 2)) // it is another since a reload
		want(3, 1, 1)
		two := use(t, table, 2)
		if _, err := table.Use(ID{3}, time.Time{}); !errors.Is(err, ErrFull) {
			t.Errorf("a third: %v", err)
		}
		two.Leave()
		use(t, table, 3).Leave() // in the place of the idle one
		want(3, 1, 2)
		one.Leave()
		use(t, table, 3).Leave()
		use(t, table, 4).Leave() // the first was used longest ago
		want(3, 3, 2)
		if _, err := one.Dial(t.Context(), d.server("a", 1)); !errors.Is(err, ErrEnded) {
			t.Errorf("a session that has gone opens another: %v", err)
		}
		again := use(t, table, 1)
		_, _ = again.Dial(t.Context(), d.server("a", 1))
		table.End(ID{1})
		table.End(ID{1})
		again.Leave()
		if want(4, 4, 1); !table.Ended(ID{1}) || table.Ended(ID{2}) {
			t.Error("it is not known which session has ended")
		}
		for n := range maxEnded {
			table.End(ID{9, byte(n), byte(n >> 8), byte(n >> 16)})
		}
		if table.Ended(ID{1}) || !table.Ended(ID{9}) || len(table.ended) != maxEnded {
			t.Errorf("%d ends are remembered, or others", len(table.ended))
		}
	})
}

// What cannot be opened is tried again when it is needed next.
func TestOpeningFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, table := new(desk), NewTable()
		table.SetLimit(1)
		s := use(t, table, 1)
		refused := errors.New("refused")
		d.fail = func() error { return refused }
		if _, err := s.Dial(t.Context(), d.server("a", 1)); !errors.Is(err, refused) {
			t.Errorf("it is %v", err)
		}
		synctest.Wait()
		d.fail = func() error { panic("open") }
		if _, err := s.Dial(t.Context(), d.server("a", 1)); !errors.Is(err, errPanicked) {
			t.Errorf("it is %v", err)
		}
		synctest.Wait()
		// Who waits goes when its own time is over; the session is opened all the same.
		release := make(chan struct{})
		d.fail = func() error { <-release; return nil }
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Dial(ctx, d.server("a", 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("it is %v", err)
		}
		close(release)
		if _, err := s.Dial(t.Context(), d.server("a", 1)); err != nil || d.opened != 3 {
			t.Errorf("%d were opened, %v", d.opened, err)
		}
	})
}

// A request is cancelled once, at the server that works on it, also when nobody waits for it
// any more. What no server has is never sent.
func TestCancel(t *testing.T) {
	d, table := new(desk), NewTable()
	table.SetLimit(1)
	s := use(t, table, 1)
	o, err := s.Dial(t.Context(), d.server("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	begin := func(id string) *Call {
		t.Helper()
		c := s.Begin([]byte(id), func() { t.Error("a request is cancelled here that a server has") })
		if !c.Send(o) {
			t.Error("it was cancelled before")
		}
		return c
	}
	c := begin(`1`)
	for name, got := range map[string]*Upstream{
		"of another session": table.Cancel(ID{2}, []byte(`1`)), "of another id": table.Cancel(ID{1}, []byte(`"1"`)),
	} {
		if got != nil {
			t.Errorf("a request %s is worked on", name)
		}
	}
	if table.Cancel(ID{1}, []byte(`1`)) != o || table.Cancel(ID{1}, []byte(`1`)) != nil {
		t.Error("it is not cancelled once")
	}
	if c.Send(nil); c.Send(o) {
		t.Error("what was cancelled is sent again")
	}
	c.Done(true)
	begin(`2`).Done(true)
	if table.Cancel(ID{1}, []byte(`2`)) != nil {
		t.Error("what was answered is cancelled")
	}
	for n := range maxAbandoned + 1 {
		begin(fmt.Sprint(100 + n)).Done(false)
	}
	if table.Cancel(ID{1}, []byte(`100`)) != nil || table.Cancel(ID{1}, []byte(`101`)) != o || len(s.calls) != maxAbandoned-1 {
		t.Errorf("of what nobody waits for, %d are remembered, or others", len(s.calls))
	}
	cancelled := false
	early := s.Begin([]byte(`3`), func() { cancelled = true })
	if table.Cancel(ID{1}, []byte(`3`)) != nil || !cancelled || !early.Cancelled() || early.Send(o) {
		t.Error("a request that no server has is sent after it was cancelled")
	}
}

// Whether a session is lost is asked once for all who were refused, and again as long as it is not: at once only for
// who is sure, where pings are answered. A lost one refuses pings, and another answers one; where none does, only who
// knows it to be gone has another take its place.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, table := new(desk), NewTable()
		table.SetLimit(1)
		place, server, asked := use(t, table, 1), d.server("a", 1), 0
		pings := func(*client.Session) (answered, refused bool) { return true, false }
		server.Ping = func(_ context.Context, s *client.Session) (answered, refused bool) { asked++; return pings(s) }
		with := func() *Upstream {
			o, err := place.Dial(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		first := with()
		renew := func(name string, o *Upstream, sure, gone, lost bool, pings, opened int) {
			t.Helper()
			asked = 0
			if got := place.Renew(t.Context(), o, server, sure, gone); got != lost || asked != pings || d.opened != opened {
				t.Errorf("%s: lost is %t after %d pings, and %d sessions were opened; want %t, %d and %d", name, got, asked, d.opened, lost, pings, opened)
			}
		}
		renew("alive", first, false, false, false, 1, 1)
		renew("alive just now", first, false, false, false, 0, 1)
		renew("alive just now, but sure", first, true, false, false, 1, 1)
		time.Sleep(checkEvery)
		renew("alive a while ago", first, false, false, false, 1, 1)
		pings = func(*client.Session) (answered, refused bool) { return false, false }
		renew("no answer to a ping", first, true, false, false, 1, 1)
		renew("none just now", first, true, false, false, 0, 1)
		time.Sleep(checkEvery)
		pings = func(*client.Session) (answered, refused bool) { return false, true }
		renew("no pings at all", first, true, false, false, 2, 2)
		renew("none at all just now", first, true, true, false, 0, 2)
		synctest.Wait()
		if with() != first || d.closed != 1 {
			t.Errorf("a session in which nothing is wrong has been replaced, %d were closed", d.closed)
		}
		d.fail = func() error { return errors.New("the server is down") }
		time.Sleep(checkEvery)
		renew("the server is down", first, false, false, false, 1, 3)
		renew("it was down just now", first, false, false, false, 0, 3)
		d.fail = nil
		pings = func(s *client.Session) (answered, refused bool) {
			first := s == first.Session && asked == 1
			return !first, first
		}
		renew("overloaded for a moment", first, true, false, false, 3, 4)
		if with() != first {
			t.Error("a session that is answered again has been replaced")
		}
		pings = func(*client.Session) (answered, refused bool) { return false, true }
		renew("gone, no pings at all", first, true, true, false, 2, 5)
		second := with()
		if second == first {
			t.Error("a session that is gone has not been replaced")
		}
		renew("replaced", first, true, true, false, 0, 5)
		renew("the next of a server without pings", second, true, true, false, 0, 5)
		time.Sleep(checkEvery)
		pings = func(s *client.Session) (answered, refused bool) { return s != second.Session, s == second.Session }
		renew("lost", second, false, false, true, 3, 6)
		renew("known to be lost", second, false, false, true, 0, 6)
		if third := with(); third == second || third == first || d.opened != 6 {
			t.Errorf("%d sessions were opened", d.opened)
		}
		place.Leave()
		table.End(ID{1})
		synctest.Wait()
	})
}

// TestEndInUse: what is open for a client that ends its session goes on until its last call is over, and another call
// finds none.
func TestEndInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, table := new(desk), NewTable()
		table.SetLimit(1)
		opening := make(chan struct{})
		d.fail = func() error { <-opening; return nil }
		place := use(t, table, 1)
		var calling sync.WaitGroup
		calling.Go(func() {
			if _, err := place.Dial(t.Context(), d.server("a", 1)); err != nil || d.closed != 0 {
				t.Errorf("a call under way gave %v, %d sessions were closed", err, d.closed)
			}
		})
		synctest.Wait()
		table.End(ID{1})
		close(opening)
		calling.Wait()
		if _, err := table.Use(ID{1}, time.Time{}); !errors.Is(err, ErrEnded) {
			t.Errorf("the next call gave %v", err)
		}
		place.Leave()
		synctest.Wait()
		if d.closed != 1 || table.Len() != 0 {
			t.Errorf("after the call, %d sessions were closed, %d clients have some", d.closed, table.Len())
		}
	})
}

// TestSessionsEndInTurn: a server that is slow to end sessions is asked to end all of them.
func TestSessionsEndInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, table := new(desk), NewTable()
		table.SetLimit(100)
		server := d.server("a", 1)
		end := server.End
		server.End = func(s *client.Session) {
			time.Sleep(300 * time.Millisecond)
			end(s)
		}
		for id := range byte(100) {
			s := use(t, table, id)
			if _, err := s.Dial(t.Context(), server); err != nil {
				t.Fatal(err)
			}
			s.Leave()
		}
		for id := range byte(100) {
			table.End(ID{id})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if d.closed != 100 {
			t.Errorf("%d of 100 sessions were ended with the server", d.closed)
		}
	})
}

// TestSessionsExpire: what is open at servers ends with the client's session, once nobody uses that any more.
func TestSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, table := new(desk), NewTable()
		table.SetLimit(3)
		opened := func(id byte, until time.Time) *Entry {
			s, err := table.Use(ID{id}, until)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Dial(t.Context(), d.server("a", 1)); err != nil {
				t.Fatal(err)
			}
			return s
		}
		over := time.Now().Add(time.Hour)
		opened(1, over).Leave()
		busy := opened(2, over)
		opened(3, time.Time{}).Leave()
		for _, tt := range []struct {
			after        time.Duration
			closed, left int
		}{{time.Hour - 1, 0, 3}, {1, 1, 2}, {time.Hour, 1, 2}} {
			time.Sleep(tt.after)
			synctest.Wait()
			if d.closed != tt.closed || table.Len() != tt.left {
				t.Errorf("%d were closed, %d clients have some, want %d and %d", d.closed, table.Len(), tt.closed, tt.left)
			}
		}
		busy.Leave()
		synctest.Wait()
		if d.closed != 2 || table.Len() != 1 {
			t.Errorf("after the last use %d were closed, %d clients have some", d.closed, table.Len())
		}
	})
}

// TestEnd: what is used once keeps its place until the server has ended its session.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, table := new(desk), NewTable()
		table.SetLimit(1)
		ending := make(chan struct{})
		server := d.server("a", 1)
		end := server.End
		server.End = func(s *client.Session) {
			<-ending
			end(s)
		}
		one := use(t, table, 1)
		if _, err := one.Dial(t.Context(), server); err != nil {
			t.Fatal(err)
		}
		one.End()
		synctest.Wait()
		if _, err := table.Use(ID{2}, time.Time{}); !errors.Is(err, ErrFull) {
			t.Errorf("before the session has ended, another gives %v", err)
		}
		close(ending)
		synctest.Wait()
		if d.closed != 1 || table.Len() != 0 {
			t.Errorf("%d were closed, %d clients have some", d.closed, table.Len())
		}
		use(t, table, 2).End() // nothing was opened
		synctest.Wait()
		if table.Len() != 0 {
			t.Errorf("%d clients have some", table.Len())
		}
		if a, b := table.Number(), table.Number(); a == b {
			t.Errorf("two requests have the number %d", a)
		}
	})
}
