package program

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// narrow are limits under which one message of the size long has room, and no second one.
var narrow = func() Limits {
	limits := usual
	limits.Memory = 1 << 20
	return limits
}()

const long = 600 << 10

// held returns how many bytes messages on their way have.
func (x *tested) held() int64 { return x.memory.Load().Used() }

// endless is a request's body, of which it counts what is read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += len(p)
	return len(p), nil
}

// Of a long message, no more than the beginning is read if its sender has no session.
func TestLongMessagesOfStrangers(t *testing.T) {
	x := newProgramOf(t, Kind{Era: "legacy"}, usual)
	modern := newProgramOf(t, Kind{Era: "modern"}, usual)
	for name, tt := range map[string]struct {
		program           *tested
		session, revision string
		status            int
	}{
		"no session":       {x, "", "", http.StatusRequestEntityTooLarge},
		"unknown session":  {x, "x", "", http.StatusNotFound},
		"unknown revision": {x, "x", "1999-01-01", http.StatusBadRequest},
		"modern":           {x, "", "2026-07-28", http.StatusBadRequest},
		"legacy":           {modern, "x", "2025-11-25", http.StatusBadRequest},
	} {
		body := new(endless)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://program/mcp", io.NopCloser(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(sessionHeader, tt.session)
		r.Header.Set(revisionHeader, tt.revision)
		res, err := tt.program.RoundTrip(r)
		if err != nil || res.StatusCode != tt.status || body.read > uncounted+1 {
			t.Errorf("%s: %v, %v, and %d bytes are read, want status %d", name, res, err, body.read, tt.status)
		}
	}
}

// A message for which there is no memory is refused before it is read, and its client may try again.
func TestMessagesWithoutRoom(t *testing.T) {
	v := newProgram(t, narrow).visit()
	message := func(size int) string {
		return v.toolCall("pid", `{"text":"`+strings.Repeat("x", size)+`"}`)
	}
	slow, writes := io.Pipe()
	answers := make(chan *http.Response)
	go func() {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://program/mcp", slow)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(sessionHeader, v.session)
		res, err := v.RoundTrip(r)
		if err != nil {
			t.Error(err)
		}
		answers <- res
	}()
	upload := message(long)
	if _, err := io.WriteString(writes, upload[:long/2]); err != nil {
		t.Fatal(err)
	}
	await(t, "the upload has memory", func() bool { return v.held() > long/2-uncounted })
	refused := v.send(http.MethodPost, message(long))
	if body := read(t, refused); refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" || !strings.Contains(body, noRoom) {
		t.Errorf("another one: %d, %v, %s", refused.StatusCode, refused.Header, body)
	}
	if pid := v.call("pid", `{"text":"short"}`); pid == "" {
		t.Error("a short one has no answer")
	}
	if _, err := io.WriteString(writes, upload[long/2:]); err != nil {
		t.Fatal(err)
	}
	writes.Close()
	pid := text(t, read(t, <-answers))
	if again := read(t, v.send(http.MethodPost, message(long))); text(t, again) != pid {
		t.Errorf("then, another one: %.300s", again)
	}
	larger := v.send(http.MethodPost, message(1<<20))
	if body := read(t, larger); larger.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(body, "768 KiB") {
		t.Errorf("one larger than the memory: %d, %s", larger.StatusCode, body)
	}
}

// An answer waits for memory that slow clients have.
func TestAnswersWaitForRoom(t *testing.T) {
	for name, kind := range map[string]Kind{"legacy": {}, "shared": {Share: true}} {
		t.Run(name, func(t *testing.T) {
			x := newProgramOf(t, kind, narrow)
			size := fmt.Sprintf(`{"size":%d}`, long)
			v, other := x.visit(), x.visit()
			slow := v.send(http.MethodPost, v.toolCall("long", size))
			if held := x.held(); held < long {
				t.Errorf("an answer that is not read has %d bytes", held)
			}
			texts := make(chan string)
			go func() { texts <- other.call("long", size) }()
			await(t, "the other answer waits", func() bool { return len(x.memory.Load().Queue) == 1 })
			if slow.Body.Close(); len(<-texts) != long {
				t.Error("the other answer is not whole")
			}
		})
	}
}

// A call whose answer cannot have memory has an error, and its process goes on. If it does not say early to which
// call it belongs, the process ends.
func TestAnswersLargerThanTheMemory(t *testing.T) {
	v := newProgram(t, narrow).visit()
	pid := v.call("pid", `{}`)
	if body := read(t, v.send(http.MethodPost, v.toolCall("long", `{"size":1000000}`))); !strings.Contains(body, "more than 768 KiB") || !strings.Contains(body, `"id":"c2"`) {
		t.Errorf("got %.300s", body)
	}
	if again := v.call("pid", `{}`); again != pid {
		t.Errorf("process %s has taken the place of %s", again, pid)
	}
	late := `{"jsonrpc":"2.0","result":{"text":"<long>"},"id":ID}`
	if body := read(t, v.send(http.MethodPost, v.toolCall("raw", `{"text":`+fmt.Sprintf("%q", late)+`}`))); !strings.Contains(body, "ended before it answered") {
		t.Errorf("got %.300s", body)
	}
}

// A process that pauses in the middle of a long line keeps no other from writing one, and goes on even if the
// other one has the rest of the memory.
func TestHalfALine(t *testing.T) {
	for name, size := range map[string]int{"both have room": 350_000, "one waits for the other": 600_000} {
		t.Run(name, func(t *testing.T) {
			x := newProgram(t, narrow)
			v, other := x.visit(), x.visit()
			answers, others := make(chan string, 1), make(chan string, 1)
			arguments := fmt.Sprintf(`{"size":%d}`, size)
			go func() { answers <- v.call("half", arguments) }()
			await(t, "half a line is there", func() bool { return x.held() > 0 })
			half := x.held()
			go func() { others <- other.call("long", arguments) }()
			if size == 350_000 {
				if text := <-others; len(text) != size {
					t.Errorf("another process answers with %d bytes", len(text))
				}
				others <- strings.Repeat("x", size)
			} else {
				await(t, "the other line has the rest", func() bool { return x.held() > half+200_000 })
			}
			v.call("rest", `{}`)
			if text := <-answers; len(text) != size {
				t.Errorf("then the answer has %d bytes", len(text))
			}
			if text := <-others; len(text) != size {
				t.Errorf("the other one has %d", len(text))
			}
		})
	}
}

// What sessions keep for their next processes is bounded: those that were not used for the longest time are
// forgotten, but not those with a process.
func TestSessionsKeepLittle(t *testing.T) {
	x := newProgram(t, narrow)
	x.visit() // what the program says is known from now on
	first := x.visit()
	first.call("pid", `{}`)
	open := func() string {
		res := x.as("").send(http.MethodPost, strings.Replace(hello, `"capabilities"`, `"pad":"`+strings.Repeat("x", 50_000)+`","capabilities"`, 1))
		if res.StatusCode != http.StatusOK {
			t.Fatalf("initialize: %d %s", res.StatusCode, read(t, res))
		}
		return res.Header.Get(sessionHeader)
	}
	a, b, c := open(), open(), open() // 128 KiB have room
	for session, known := range map[string]bool{first.session: true, a: false, b: true, c: true} {
		res := x.as(session).send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if (res.StatusCode == http.StatusOK) != known {
			t.Errorf("session %s is known: %v", session, !known)
		}
	}
	subscribe := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a","pad":%q}}`, strings.Repeat("x", 60_000))
	if res := first.send(http.MethodPost, subscribe); res.StatusCode != http.StatusOK {
		t.Errorf("subscribing: %d", res.StatusCode)
	}
	if x.session(b) != nil && x.session(c) != nil || x.session(first.session) == nil {
		t.Error("no session has made room for the subscription, or the wrong one")
	}
	for _, s := range x.known() {
		x.forget(s)
	}
	if kept := x.kept.Load(); kept != 0 {
		t.Errorf("%d bytes are kept for no session", kept)
	}
}

// as returns a client with that session.
func (x *tested) as(session string) *visitor { return &visitor{tested: x, session: session} }

// What a client has left is held for nobody.
func TestClientsThatLeave(t *testing.T) {
	x := newProgram(t, usual)
	v := x.visit()
	for _, accept := range []string{"application/json", "application/json, text/event-stream"} {
		res, err := v.sendAs(t.Context(), http.MethodPost, v.toolCall("long", fmt.Sprintf(`{"size":%d}`, long)), accept)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, res.Body, long/2); err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); x.held() != 0 {
			t.Errorf("%s: %d bytes are held", accept, x.held())
		}
	}
}

// An answer that its client does not read for 20 seconds ends.
func TestUnreadAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		pauses []time.Duration
		ends   bool
	}{
		"reads slowly":  {[]time.Duration{leastPace - 1, leastPace - 1, leastPace - 1}, false},
		"does not read": {[]time.Duration{leastPace + 1}, true},
		"stops reading": {[]time.Duration{0, leastPace - 1, leastPace + 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				room := budget.NewRoom(1 << 20)
				s, left := newStream(room), new(atomic.Int32)
				share := room.Share()
				share.Grow(long)
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://program/mcp", nil)
				res := events(r, s, piece{}, false, func() { left.Add(1) })
				time.AfterFunc(10*time.Second, func() { s.finish([]byte(strings.Repeat("x", long)), &share) })
				if got, err := io.CopyN(io.Discard, res.Body, int64(len(comment)+len(sse.Start))); err != nil { // it waits for the message
					t.Fatal(got, err)
				}
				buffer, err := make([]byte, 1), error(nil)
				for _, pause := range tt.pauses {
					if time.Sleep(pause); err == nil {
						_, err = res.Body.Read(buffer)
					}
				}
				synctest.Wait()
				if ended := errors.Is(err, errSlowReader); ended != tt.ends || err != nil && !ended || ended != (left.Load() == 1) || ended != (room.Used() == 0) {
					t.Errorf("%v; it was left %d times, and has %d bytes", err, left.Load(), room.Used())
				}
				if !tt.ends {
					rest, err := io.ReadAll(res.Body)
					if got := string(rest); err != nil || !strings.HasSuffix(got, "x"+sse.End) {
						t.Errorf("the rest are %d bytes, %v", len(rest), err)
					}
				}
				if res.Body.Close(); left.Load() != 1 || room.Used() != 0 {
					t.Errorf("it was left %d times, and has %d bytes", left.Load(), room.Used())
				}
			})
		})
	}
}
