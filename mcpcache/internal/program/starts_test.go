package program

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/integration/programtest"
)

// A process that nobody waits for sleeps; the session, its level and its stream go on.
func TestIdleProcesses(t *testing.T) {
	limits := usual
	limits.Idle = 50 * time.Millisecond
	x := newProgram(t, limits)
	v := x.visit()
	stream := v.send(http.MethodGet, "")
	defer stream.Body.Close()
	await(t, "the process sleeps", func() bool { return len(x.started()) == 1 && x.running() == 0 })
	if got := v.call("echo", `{"text":"awake"}`); got != "awake" {
		t.Errorf("got %q", got)
	}
	await(t, "the process sleeps again", func() bool { return x.running() == 0 })
	// One that somebody waits for does not.
	ctx, leave := context.WithCancel(t.Context())
	answered := make(chan error)
	go func() {
		res, err := v.sendAs(ctx, http.MethodPost, v.toolCall("cancelled", `{}`), "application/json, text/event-stream")
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		answered <- err
	}()
	await(t, "the call runs", func() bool { return x.running() == 1 })
	time.Sleep(5 * limits.Idle)
	if x.running() != 1 {
		t.Error("a process sleeps that somebody waits for")
	}
	leave()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	await(t, "the process sleeps that everybody has left", func() bool { return x.running() == 0 })
}

// Sessions that were dropped leave nothing, whatever the program does about it.
func TestDroppedSessions(t *testing.T) {
	limits := usual
	limits.Idle, limits.StopGrace = 50*time.Millisecond, 50*time.Millisecond
	children := t.TempDir()
	x := newProgram(t, limits, "stubborn", "forks", children)
	for range 20 {
		x.visit().call("pid", `{}`)
	}
	await(t, "all have ended", func() bool { return x.running() == 0 })
	if n := len(programtest.Started(t, children)); n != len(x.started()) {
		t.Fatalf("%d processes have started %d others", len(x.started()), n)
	}
	await(t, "what they have started has ended", func() bool { return len(programtest.Running(t, children)) == 0 })
}

// If there are as many processes as there may be, the one that was unused for the longest time
// makes room; two of a program that locks a file never run at the same time.
func TestMostProcesses(t *testing.T) {
	limits := usual
	limits.Max = 1
	x := newProgram(t, limits, "locks", filepath.Join(t.TempDir(), "lock"))
	a, b := x.visit(), x.visit()
	for range 3 {
		a.call("pid", `{}`)
		b.call("pid", `{}`)
	}
	busy := a.send(http.MethodPost, a.toolCall("ask", `{}`))
	defer busy.Body.Close()
	got := readMessages(t, b.send(http.MethodPost, b.toolCall("pid", `{}`)))
	if !strings.Contains(got[0], "all 1 processes of program tested are in use") {
		t.Errorf("got %s", got)
	}
	c := &visitor{tested: x}
	res := c.send(http.MethodPost, strings.Replace(hello, `"name":"c"`, `"name":"d"`, 1)) // which was told nothing yet
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") != "1" {
		t.Errorf("initialize: %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
	}
}

// A program that does not start is an error at once, that says why, and is left alone for a while.
func TestFailedStarts(t *testing.T) {
	short := usual
	short.StartTimeout, short.StopGrace = 50*time.Millisecond, 50*time.Millisecond
	for name, tt := range map[string]struct {
		limits Limits
		trait  string
		reason string
	}{
		"it exits": {usual, "exits", "it ended while it started (exit status 3)"},
		"mute":     {short, "mute", "it did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newProgram(t, tt.limits, tt.trait)
			v := &visitor{tested: x}
			for range 2 {
				res := v.send(http.MethodPost, hello)
				body := read(t, res)
				if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") != "1" || !strings.Contains(body, tt.reason) {
					t.Errorf("%d, Retry-After %q: %s", res.StatusCode, res.Header.Get("Retry-After"), body)
				}
			}
			if n := len(x.started()); n > 1 {
				t.Errorf("%d processes were started", n)
			}
			if len(x.sessions) != 0 {
				t.Error("a session is left")
			}
		})
	}
}

// What the program says about a version that it does not know reaches the client.
func TestRefusedInitialize(t *testing.T) {
	v := &visitor{tested: newProgram(t, usual, "refuses")}
	for range 2 {
		want := `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"unsupported version","data":{"supported":["2026-07-28"]}}}`
		if got := read(t, v.send(http.MethodPost, hello)); got != want {
			t.Errorf("got %s", got)
		}
	}
}

// A client that leaves does not end a start; what it has begun helps the next one.
func TestStartThatIsLeft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "now")
	x := newProgram(t, usual, "waits", file)
	v := &visitor{tested: x}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := v.sendAs(ctx, http.MethodPost, hello, "application/json")
		left <- err
	}()
	await(t, "the start has begun", func() bool { return x.running() == 1 })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if x.running() != 1 {
		t.Error("the start was ended")
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "what nobody can use ends", func() bool { return x.running() == 0 })
	x.visit().call("pid", `{}`)
}

// Until a start has succeeded, there is one at a time.
func TestFirstStartIsAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "now")
	x := newProgram(t, usual, "waits", file)
	opened := make(chan *visitor)
	for range 3 {
		go func() { opened <- x.visit() }()
	}
	await(t, "the first start has begun", func() bool { return x.running() == 1 })
	time.Sleep(50 * time.Millisecond)
	if n := len(x.started()); n != 1 {
		t.Errorf("%d starts at the same time", n)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		(<-opened).call("pid", `{}`)
	}
}

// A call that is cancelled while the process starts does not reach it.
func TestCancelledWhileStarting(t *testing.T) {
	limits := usual
	limits.Idle = 10 * time.Millisecond
	file := filepath.Join(t.TempDir(), "now")
	create := func() {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	create()
	x := newProgram(t, limits, "waits", file)
	v := x.visit()
	await(t, "the process sleeps", func() bool { return x.running() == 0 })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string)
	go func() { answered <- read(t, v.send(http.MethodPost, v.toolCall("echo", `{"text":"done"}`))) }()
	await(t, "the process starts", func() bool { return x.running() == 1 })
	v.send(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c1"}}`)
	create()
	if got := <-answered; !strings.Contains(got, `"id":"c1","error"`) || !strings.Contains(got, "cancelled") {
		t.Errorf("got %s", got)
	}
}

// A program that ends before it has answered anything but the greeting is left alone for a while, longer each time, by
// those who keep lists right. Clients may use it. Its lines are logged once.
func TestStartsThatComeToNothing(t *testing.T) {
	for name, kind := range map[string]Kind{"a process for each session": {Era: "legacy"}, "one for all": {Share: true}} {
		t.Run(name, func(t *testing.T) {
			x := newProgramOf(t, kind, usual, "leaves")
			for failures := range 2 {
				await(t, "the next start fails", func() bool { x.fetches(); return int(x.Status().Failed) > failures })
				failed := x.Status().Failure
				if pause := failed.Next.Sub(failed.At); pause != time.Second<<failures || !strings.Contains(failed.Message, "it ended before it answered a request (exit status 3)") {
					t.Errorf("after %d failures the pause is %v: %s", failures+1, pause, failed.Message)
				}
				if n := len(x.started()); n != failures+1 {
					t.Errorf("%d processes were started, want %d", n, failures+1)
				}
			}
			v := &visitor{tested: x}
			res := v.send(http.MethodPost, hello) // which what is recorded answers
			v.session = res.Header.Get(sessionHeader)
			_ = read(t, v.send(http.MethodPost, string(initialized)))
			started := len(x.started())
			_ = read(t, v.send(http.MethodPost, v.toolCall("pid", `{}`)))
			if n := len(x.started()); n == started {
				t.Error("no process is started for a client")
			}
			for message, want := range map[string]int{
				"program did not start": 1, "program started": 1, "program wrote to standard error": 1, "program ended": 0,
			} {
				lines := x.logs.FilterMessage(message).Filter(func(e observer.LoggedEntry) bool { return e.Level >= zap.InfoLevel })
				if lines.Len() != want {
					t.Errorf("%q is logged %d times, want %d", message, lines.Len(), want)
				}
			}
		})
	}
}

// fetches opens a session and asks for a list, as feeds do.
func (x *tested) fetches() {
	v := &visitor{tested: x}
	res := v.upkeep(hello)
	if v.session = res.Header.Get(sessionHeader); v.session == "" {
		_ = read(x.t, res)
		return
	}
	for _, body := range []string{string(initialized), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`} {
		_ = read(x.t, res)
		res = v.upkeep(body)
	}
	_ = read(x.t, res)
}

// A program that a client's first request ends has started: others may use it at once.
func TestEndedByACall(t *testing.T) {
	x := newProgram(t, usual)
	v := x.visit()
	if answer := read(t, v.send(http.MethodPost, v.toolCall("die", `{}`))); !strings.Contains(answer, "ended before it answered") {
		t.Errorf("got %s", answer)
	}
	x.visit().call("pid", `{}`)
	if failed := x.Status().Failed; failed != 0 {
		t.Errorf("%d starts have failed", failed)
	}
}
