package toolkit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestOutagesAreLoggedOnce has requests fail by a server, and others not. The log has the beginning and the end of each
// trouble. Trouble that begins again at once is logged later, if it lasts.
func TestOutagesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		e, down := &Endpoint{Logger: zap.New(core)}, errors.New("connection refused")
		a, b := &Server{Name: "a"}, &Server{Name: "b"}
		want := func(when string, lines ...string) {
			t.Helper()
			var got []string
			for _, entry := range logs.TakeAll() {
				got = append(got, fmt.Sprint(entry.Level, " ", entry.Message, ": ", entry.ContextMap()["server"]))
			}
			if fmt.Sprint(got) != fmt.Sprint(lines) {
				t.Errorf("%s: the log has %q, want %q", when, got, lines)
			}
		}
		note := func(s *Server, trouble trouble, err error) {
			for range 100 {
				e.note(s, trouble, err)
			}
		}
		note(a, noAnswer, nil)
		note(a, noAnswer, fmt.Errorf("the client has gone: %w", context.Canceled))
		want("at the beginning")
		note(a, noAnswer, down)
		note(a, closedDoor, down)
		note(b, noAnswer, down)
		want("while all fail", "warn server did not answer: a", "warn door does not answer: a", "warn server did not answer: b")
		note(a, noAnswer, nil)
		want("when one is back", "info server answers again: a")
		note(a, noAnswer, down)
		want("when it fails again at once")
		time.Sleep(quiet)
		note(a, noAnswer, down)
		note(b, noAnswer, nil)
		want("when it still does", "warn server did not answer: a", "info server answers again: b")
	})
}

// TestNobodyFillsTheLog has a caller send in turns, for an hour, what fails and what does not.
func TestNobodyFillsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		e, s := &Endpoint{Logger: zap.New(core)}, &Server{Name: "a"}
		for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(time.Second) {
			e.note(s, noAnswer, errors.New("cut off"))
			e.note(s, noAnswer, nil)
		}
		if n, most := logs.Len(), 2*int(time.Hour/quiet); n > most {
			t.Errorf("the log has %d lines, want at most %d", n, most)
		}
	})
}
