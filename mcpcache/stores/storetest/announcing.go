package storetest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// patience is how long a test waits for what has to come.
const patience = time.Minute

// short is a life that a test waits for, long one that outlasts every test.
const short, long = 300 * time.Millisecond, time.Hour

// hearing is somebody who listens at a place.
type hearing struct {
	t     *testing.T
	heard chan stores.Announcement
}

// listen listens until the test ends.
func listen(t *testing.T, s stores.Fleet, place string) *hearing {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	h := &hearing{t, make(chan stores.Announcement, 100)}
	listening, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Listen(ctx, place, func() { close(listening) }, func(a stores.Announcement) { h.heard <- a })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err == nil {
			t.Error("what has ended listening is no error")
		}
	})
	select {
	case <-listening:
	case err := <-ended:
		ended <- err
		t.Fatalf("listening: %v", err)
	case <-time.After(patience):
		t.Fatal("nobody listens")
	}
	return h
}

// want waits for an announcement.
func (h *hearing) want(number uint64, member, message string) {
	h.t.Helper()
	a := h.next()
	if a.Number != number || a.Member != member || string(a.Message) != message || a.Confirmed {
		h.t.Errorf("heard %d of %q, %q (%v), want %d of %q, %q", a.Number, a.Member, a.Message, a.Confirmed, number, member, message)
	}
}

// wantConfirmed waits until it hears that all have confirmed a number.
func (h *hearing) wantConfirmed(number uint64) {
	h.t.Helper()
	if a := h.next(); !a.Confirmed || a.Number != number {
		h.t.Errorf("heard %+v, want that %d is confirmed", a, number)
	}
}

func (h *hearing) next() (a stores.Announcement) {
	h.t.Helper()
	select {
	case a = <-h.heard:
	case <-time.After(patience):
		h.t.Fatal("nothing is heard")
	}
	return a
}

// settled has a place be known for a life, so that it is sure who is a member.
func settled(t *testing.T, s stores.Fleet, place string) { awaitConfirmed(t, s, place, "first") }

func announce(t *testing.T, s stores.Fleet, place, member, message string, life time.Duration) (uint64, bool) {
	t.Helper()
	number, confirmed, err := s.Announce(t.Context(), place, member, []byte(message), life)
	if err != nil {
		t.Fatalf("announcing: %v", err)
	}
	return number, confirmed
}

func join(t *testing.T, s stores.Fleet, place, member string, life time.Duration) uint64 {
	t.Helper()
	is, err := s.Join(t.Context(), place, member, life)
	if err != nil {
		t.Fatalf("joining: %v", err)
	}
	return is.Last
}

// wantConfirm confirms, and fails unless that says what was announced last.
func wantConfirm(t *testing.T, s stores.Fleet, place, member string, heard, want uint64, life time.Duration) {
	t.Helper()
	if is, err := s.Confirm(t.Context(), place, member, heard, life); err != nil || is.Last != want {
		t.Errorf("%s confirms %d: the last is %d, %v, want %d", member, heard, is.Last, err, want)
	}
}

// wantMembers fails unless those are all members that one is told of.
func wantMembers(t *testing.T, when string, is stores.Standing, err error, want ...string) {
	t.Helper()
	slices.Sort(is.Members)
	if err != nil || !slices.Equal(is.Members, want) {
		t.Errorf("%s, members are %q, %v, want %q", when, is.Members, err, want)
	}
}

// awaitConfirmed announces until that needs to be confirmed by nobody, as all others have ceased to
// be members.
func awaitConfirmed(t *testing.T, s stores.Fleet, place, member string) (number uint64) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		number, confirmed := announce(t, s, place, member, "", short)
		if confirmed {
			return number
		}
		if time.Now().After(deadline) {
			t.Fatal("what nobody has to confirm is not confirmed")
		}
	}
}

func testAnnounces(t *testing.T, s stores.Fleet) {
	here, too, elsewhere := listen(t, s, "here"), listen(t, s, "here"), listen(t, s, "elsewhere")
	last := join(t, s, "here", "one", long)
	for n, message := range []string{"a", "", "with spaces  and\r\nlines", string([]byte{0, 1, 0xff, '"'}), string(bytes.Repeat([]byte("x"), stores.MaxMessage))} {
		number, _ := announce(t, s, "here", "one", message, long)
		if want := last + uint64(n) + 1; number != want {
			t.Errorf("announcement %d has number %d, want %d", n, number, want)
		}
		here.want(number, "one", message)
		too.want(number, "one", message)
	}
	number, _ := announce(t, s, "elsewhere", "another", "there", long)
	elsewhere.want(number, "another", "there") // and nothing before
}

func testConfirms(t *testing.T, s stores.Fleet) {
	settled(t, s, "a")
	h := listen(t, s, "a")
	join(t, s, "a", "one", long)
	join(t, s, "a", "two", long)
	last := join(t, s, "a", "three", long)
	number, confirmed := announce(t, s, "a", "one", "x", long)
	if number != last+1 || confirmed {
		t.Errorf("after %d, %d is confirmed: %v", last, number, confirmed)
	}
	h.want(number, "one", "x")
	wantConfirm(t, s, "a", "two", last, number, long) // it has not heard it
	wantConfirm(t, s, "a", "two", number, number, long)
	wantConfirm(t, s, "a", "two", number, number, long)
	wantConfirm(t, s, "a", "three", number, number, long)
	h.wantConfirmed(number)

	// Who announces has not heard what another has announced before.
	second, _ := announce(t, s, "a", "one", "y", long)
	third, _ := announce(t, s, "a", "two", "z", long)
	wantConfirm(t, s, "a", "one", third, third, long)
	wantConfirm(t, s, "a", "three", third, third, long)
	fourth, _ := announce(t, s, "a", "stranger", "", long)
	h.want(second, "one", "y")
	h.want(third, "two", "z")
	h.want(fourth, "stranger", "")
	for _, member := range []string{"one", "two", "three"} { // all at once
		wantConfirm(t, s, "a", member, fourth, fourth, long)
	}
	h.wantConfirmed(fourth)
}

// testForeignNumbers tests that a member confirms nothing if it confirms a number that the store has not
// given out yet.
func testForeignNumbers(t *testing.T, s stores.Fleet) {
	settled(t, s, "a")
	h := listen(t, s, "a")
	join(t, s, "a", "one", long)
	last := join(t, s, "a", "two", long)
	for _, foreign := range []uint64{last + 100, last + 1<<40, math.MaxUint64} {
		wantConfirm(t, s, "a", "two", foreign, last, long)
		number, confirmed := announce(t, s, "a", "one", "x", long)
		if number != last+1 || confirmed {
			t.Errorf("after %d, by one who has heard %d, %d is confirmed: %v", last, foreign, number, confirmed)
		}
		h.want(number, "one", "x") // and nothing is confirmed before
		wantConfirm(t, s, "a", "two", foreign, number, long)
		last, confirmed = announce(t, s, "a", "one", "y", long)
		if confirmed {
			t.Errorf("who has heard %d has confirmed %d", foreign, last)
		}
		h.want(last, "one", "y")
		wantConfirm(t, s, "a", "two", last, last, long)
		h.wantConfirmed(last)
	}
}

// testMembers tests that a member learns of all members of its place. It learns of none that has left,
// whose life has ended, or that is elsewhere.
func testMembers(t *testing.T, s stores.Fleet) {
	join(t, s, "a", "two-2.example", long)
	join(t, s, "b", "elsewhere", long)
	is, err := s.Join(t.Context(), "a", "one", long)
	wantMembers(t, "having joined", is, err, "one", "two-2.example")
	announce(t, s, "a", "stranger", "x", long)
	is, err = s.Confirm(t.Context(), "a", "two-2.example", is.Last, long)
	wantMembers(t, "once another has joined", is, err, "one", "two-2.example")
	join(t, s, "a", "one", short)
	for deadline := time.Now().Add(patience); len(is.Members) > 1 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		is, err = s.Confirm(t.Context(), "a", "two-2.example", is.Last, long)
	}
	wantMembers(t, "once the other's life has ended", is, err, "two-2.example")
	join(t, s, "a", "three", long)
	if err := s.Leave(t.Context(), "a", "two-2.example"); err != nil {
		t.Error(err)
	}
	is, err = s.Confirm(t.Context(), "a", "three", is.Last, long)
	wantMembers(t, "once the other has left", is, err, "three")
}

func testAlone(t *testing.T, s stores.Fleet) {
	if _, confirmed := announce(t, s, "a", "one", "x", long); confirmed {
		t.Error("a place that nobody remembers may have members")
	}
	settled(t, s, "b")
	join(t, s, "b", "one", long)
	if _, confirmed := announce(t, s, "b", "one", "x", long); !confirmed {
		t.Error("there is nobody else, and who announces need not confirm it")
	}
	join(t, s, "b", "two", long)
	if err := s.Leave(t.Context(), "b", "two"); err != nil {
		t.Error(err)
	}
	if _, confirmed := announce(t, s, "b", "one", "x", long); !confirmed {
		t.Error("who has left has to confirm")
	}
}

func testMembershipEnds(t *testing.T, s stores.Fleet) {
	settled(t, s, "a")
	for extended := false; !extended; { // unless it has ended before that
		before := join(t, s, "a", "one", short)
		_, err := s.Confirm(t.Context(), "a", "one", before, long)
		extended = err == nil
	}
	last := join(t, s, "a", "two", short)
	settled(t, s, "b")
	join(t, s, "b", "clock", short)
	awaitConfirmed(t, s, "b", "another") // so all whose life was short have ended
	if _, err := s.Confirm(t.Context(), "a", "two", last, long); !errors.Is(err, stores.ErrNoMember) {
		t.Errorf("whose life has ended is a member: %v", err)
	}
	number, confirmed := announce(t, s, "a", "two", "x", short)
	if confirmed {
		t.Error("who was made a member for long is none")
	}
	if again := join(t, s, "a", "two", long); again != number {
		t.Errorf("the last is %d, want %d", again, number)
	}
	wantConfirm(t, s, "a", "one", number, number, long)
	for _, member := range []string{"nobody", "one"} {
		if err := s.Leave(t.Context(), "a", member); err != nil {
			t.Errorf("%s leaves: %v", member, err)
		}
		if _, err := s.Confirm(t.Context(), "a", member, number, long); !errors.Is(err, stores.ErrNoMember) {
			t.Errorf("%s, who is no member: %v", member, err)
		}
	}
}

// RunForgetful tests a [stores.Fleet] that has forgotten all places, once forget is called.
func RunForgetful(t *testing.T, s stores.Fleet, forget func()) {
	t.Helper()
	settled(t, s, "a")
	join(t, s, "a", "one", long)
	last := join(t, s, "a", "two", long)
	forget()
	if _, err := s.Confirm(t.Context(), "a", "one", last, long); !errors.Is(err, stores.ErrNoMember) {
		t.Errorf("who was forgotten is a member: %v", err)
	}
	number, confirmed := announce(t, s, "a", "two", "x", long)
	if number <= last || confirmed {
		t.Errorf("after %d, %d is confirmed: %v", last, number, confirmed)
	}
	if _, err := s.Confirm(t.Context(), "a", "one", last, long); !errors.Is(err, stores.ErrNoMember) {
		t.Errorf("once others are there again, who was forgotten is a member: %v", err)
	}
	h := listen(t, s, "a")
	join(t, s, "a", "one", long)
	number, _ = announce(t, s, "a", "two", "y", long)
	wantConfirm(t, s, "a", "one", number, number, long)
	next, _ := announce(t, s, "a", "two", "z", long)
	h.want(number, "two", "y")
	h.want(next, "two", "z") // and nothing is confirmed, as some may not know that they are none
}
