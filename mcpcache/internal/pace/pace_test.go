package pace

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errTooSlow = errors.New("too slow")

// slow is the connection of a client that sends so many bytes each second.
type slow struct {
	*httptest.ResponseRecorder

	left, rate int
	ended      chan struct{}
	once       sync.Once
	deadline   time.Time // as it was set last
}

func (s *slow) SetReadDeadline(at time.Time) error {
	if s.deadline = at; !at.IsZero() {
		s.once.Do(func() { close(s.ended) })
	}
	return nil
}

func (s *slow) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(time.Second):
	case <-s.ended:
		return 0, os.ErrDeadlineExceeded
	}
	n := min(s.rate, s.left, len(p))
	s.left -= n
	return copy(p, bytes.Repeat([]byte("x"), n)), nil
}

// readAll reads what the client sends, at a pace.
func (s *slow) readAll() (n int, err error) {
	p := Reading(s)
	for buffer := make([]byte, 1<<20); err == nil; {
		var more int
		more, err = s.Read(buffer)
		n += more
		p.Have(n)
	}
	if p.End(errors.Is(err, io.EOF)) {
		return n, errTooSlow
	}
	return n, err
}

// TestSlowRequestsAreNotWaitedForEndlessly has clients send long requests ever more slowly.
func TestSlowRequestsAreNotWaitedForEndlessly(t *testing.T) {
	const size = 1 << 20
	for name, c := range map[string]struct {
		size, rate int
		whole      bool
	}{
		"fast":              {size, size, true},
		"as fast as needed": {size, leastRate, true},
		"slow":              {size, leastRate / 2, false},
		"nothing at all":    {size, 0, false},
		"slow and short":    {29, 1, true},
		"slow for too long": {40, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{ResponseRecorder: httptest.NewRecorder(), left: c.size, rate: c.rate, ended: make(chan struct{})}
				began := time.Now()
				n, err := s.readAll()
				took := time.Since(began) // of the test's own clock
				switch {
				case c.whole && (!errors.Is(err, io.EOF) || n != c.size || !s.deadline.IsZero()):
					t.Errorf("read %d bytes, %v, in %s", n, err, took)
				case !c.whole && (!errors.Is(err, errTooSlow) || took < grace || took > 2*grace+size/leastRate*time.Second):
					t.Errorf("read %d bytes, %v, in %s", n, err, took)
				}
			})
		})
	}
}

// TestRequestIsWholeInTheLastMoment has the last of a request come when it has just been
// given up: nothing else on its connection is to be given up with it.
func TestRequestIsWholeInTheLastMoment(t *testing.T) {
	s := &slow{ResponseRecorder: httptest.NewRecorder(), ended: make(chan struct{})}
	p := Reading(s)
	p.interrupt()
	if p.End(true) || !s.deadline.IsZero() {
		t.Errorf("the deadline is %s", s.deadline)
	}
	p.interrupt()
	if !s.deadline.IsZero() {
		t.Error("what is over is interrupted")
	}
}

// TestDeadlinesOfOthers has something else set deadlines on the connection all the time.
func TestDeadlinesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := make(chan time.Time, 100)
		p := Writing(deadlines{httptest.NewRecorder(), ends}, 0)
		for range 3 { // each is ended, although the one before was overridden
			if at := <-ends; !at.Before(time.Now()) {
				t.Fatalf("the deadline is %s", at)
			}
		}
		if !p.End(false) {
			t.Error("it is not said to have been too slow")
		}
		time.Sleep(time.Hour)
		if len(ends) > 0 {
			t.Error("what is over is ended again")
		}
	})
}

// deadlines is a connection that tells of the deadlines of what is written.
type deadlines struct {
	*httptest.ResponseRecorder

	set chan<- time.Time
}

func (d deadlines) SetWriteDeadline(at time.Time) error {
	d.set <- at
	return nil
}
