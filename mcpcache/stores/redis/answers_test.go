package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

func TestFollower(t *testing.T) {
	deep := strings.Repeat("*1\r\n", maxDepth)
	for text, want := range map[string]struct {
		whole int64
		wrong bool
	}{
		"+OK\r\n": {1, false}, "-ERR x\r\n:12\r\n:-1\r\n": {3, false}, "$3\r\na\nb\r\n": {1, false}, "$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n": {4, false},
		"*2\r\n$1\r\na\r\n*2\r\n:1\r\n*0\r\n": {1, false}, "*2\r\n+a\r\n": {0, false}, "$5\r\nab": {0, false}, "+OK": {0, false}, "+a\n": {1, false},
		deep + "+a\r\n": {1, false}, "*1\r\n" + deep: {0, true}, fmt.Sprintf("*%d\r\n", maxElements): {0, false}, fmt.Sprintf("*%d\r\n", maxElements+1): {0, true},
		"$268435456\r\n": {0, false}, "$268435457\r\n": {0, true}, "$999999999999\r\n": {0, true}, "$-77\r\n": {0, true}, "*-2\r\n": {0, true}, "$99999999999999999999\r\n": {0, true}, "$x\r\n": {0, true},
		":x\r\n": {0, true}, "\r\n": {0, true}, "\n": {0, true}, "HTTP/1.1 400 Bad Request\r\n": {0, true}, "%1\r\n+a\r\n+b\r\n": {0, true}, "_\r\n": {0, true}, ">1\r\n+a\r\n": {0, true},
		"+" + strings.Repeat("x", maxLine-3) + "\r\n": {1, false}, "+" + strings.Repeat("x", maxLine): {0, true},
	} {
		for _, size := range []int{1, 3, len(text)} {
			var f follower
			var err error
			for rest := text; rest != "" && err == nil; {
				n := min(size, len(rest))
				err, rest = f.follow([]byte(rest[:n])), rest[n:]
			}
			if f.whole != want.whole || (err != nil) != want.wrong {
				t.Errorf("%.60q in pieces of %d: %d whole, %v; want %+v", text, size, f.whole, err, want)
			}
		}
	}
	var f follower
	if err := f.follow([]byte("*2\r\n$268435456\r\n")); err != nil {
		t.Fatal(err)
	}
	err := error(nil)
	for chunk := make([]byte, 1<<20); err == nil && f.whole == 0; {
		err = f.follow(chunk)
	}
	if err == nil {
		t.Error("a message of any length is followed")
	}
}

// TestAnswersShareTheirRoom: what is on its way on all connections is bounded together, and a message
// that has ended, or broken off, leaves its room to others.
func TestAnswersShareTheirRoom(t *testing.T) {
	memory := budget.New(1000)
	followers := make([]follower, 3)
	for i := range followers {
		share := memory.Share()
		followers[i].room = &share
	}
	for i, tt := range []struct {
		text string
		want error
		used int64
	}{{"$400\r\n", nil, 400}, {"*2\r\n$300\r\n", nil, 732}, {"$300\r\n", errTooLong, 732}} {
		if err := followers[i].follow([]byte(tt.text)); !errors.Is(err, tt.want) || memory.Used() != tt.used {
			t.Errorf("%q: %v, %d bytes are taken", tt.text, err, memory.Used())
		}
	}
	if err := followers[0].follow([]byte(strings.Repeat("x", 400) + "\r\n")); err != nil || memory.Used() != 332 {
		t.Errorf("%v, %d bytes are taken by a half message", err, memory.Used())
	}
	followers[1].room.Release()
	if memory.Used() != 0 {
		t.Errorf("%d bytes are still taken", memory.Used())
	}
}

// TestFollowerKeepsLittle: what passes is not kept, however long it is.
func TestFollowerKeepsLittle(t *testing.T) {
	var f follower
	chunk := []byte("*2\r\n$5\r\nhello\r\n:1\r\n")
	if n := testing.AllocsPerRun(1000, func() {
		if err := f.follow(chunk); err != nil {
			t.Fatal(err)
		}
	}); n > 3 {
		t.Errorf("%v allocations for a message", n)
	}
}

// odd are answers that no Redis gives, and lines that come unasked: proxies send some before they
// close a connection.
var odd = map[string]string{
	"an error unasked": "-ERR max number of clients reached\r\n", "loading unasked": "-LOADING Redis is loading the dataset in memory\r\n", "OK unasked": "+OK\r\n",
	"a length below 0": "$-77\r\n", "a huge length": "$9223372036854775807\r\n", "a large length": "$1000000000\r\n", "a huge array": "*9223372036854775807\r\n", "an array below 0": "*-5\r\n",
	"deep arrays": strings.Repeat("*1\r\n", 100_000), "a map of arrays": "%1\r\n*0\r\n+v\r\n", "a push": ">2\r\n+invalidate\r\n*1\r\n+a\r\n", "an attribute": "|1\r\n+a\r\n+b\r\n+OK\r\n",
	"HTTP": "HTTP/1.1 400 Bad Request\r\n\r\n", "nothing": "\r\n", "NULs": strings.Repeat("\x00", 1000), "a line without end": "+" + strings.Repeat("x", 1<<20),
	"MOVED": "-MOVED 1 :0\r\n", "MOVED nowhere": "-MOVED\r\n", "ASK": "-ASK 1 x\r\n", "a null": "_\r\n", "a big number": "(3492890328409238509324850943850943825024385\r\n", "a verbatim text": "=3\r\nx\r\n",
	"a message": "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n", "half a subscription": "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n$1\r\nx\r\n", "another array": "*1\r\n*1\r\n*1\r\n:1\r\n",
}

// TestOddAnswers: whatever comes from Redis, before an answer, instead of one, or behind it, costs
// at most the connection. The next one is as good as new.
func TestOddAnswers(t *testing.T) {
	for name, text := range odd {
		for place, mixed := range map[string]func(answer string) string{
			"before":  func(answer string) string { return text + answer },
			"instead": func(string) string { return text },
			"behind":  func(answer string) string { return answer + text },
		} {
			t.Run(name+" "+place, func(t *testing.T) {
				t.Parallel()
				var wrong atomic.Bool
				answer := good("standalone")
				s := &Redis{URLs: []string{fake(t, func(command []string) string {
					if wrong.Load() {
						return mixed(answer(command))
					}
					return answer(command)
				})}, Timeout: caddy.Duration(200 * time.Millisecond)}
				connect(t, s)
				wrong.Store(true)
				useAll(t, s)
				wrong.Store(false)
				awaitState(t, s, "")
				if got, err := loadSoon(t, s); err != nil || string(got) != "value" {
					t.Errorf("after it, %q is loaded, %v", got, err)
				}
			})
		}
	}
}

// loadSoon loads a value once no connection is left of before.
func loadSoon(t *testing.T, s *Redis) (value []byte, err error) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if value, err = s.Load(t.Context(), "a/b"); err == nil && string(value) == "value" {
			return value, nil
		}
	}
	return value, err
}

// useAll does everything with a store that it can do, whatever comes of it.
func useAll(t testing.TB, s *Redis) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	listened := make(chan error, 1)
	go func() { listened <- s.Listen(ctx, "a", func() {}, func(stores.Announcement) {}) }()
	_, _ = s.Load(ctx, "a/b")
	_, _ = s.Size(ctx, "a/b")
	if l, err := s.Lease(ctx, "a/b", "one", time.Now(), time.Second); err == nil {
		_, _ = l.Extend(ctx, time.Second), l.Release(ctx)
	}
	_, _ = s.Join(ctx, "a", "one", time.Second)
	_, _ = s.Confirm(ctx, "a", "one", 1, time.Second)
	if _, all, err := s.Announce(ctx, "a", "one", []byte("x"), time.Second); all && err != nil {
		t.Errorf("all have confirmed what failed: %v", err)
	}
	_, _ = s.Save(ctx, "a/b", []byte("x")), s.SaveAt(ctx, "a/b", time.Now(), []byte("x"))
	_, _ = s.Delete(ctx, "a/b"), s.Leave(ctx, "a", "one")
	if err := <-listened; err == nil {
		t.Error("listening has ended without a reason")
	}
}

// TestIdleConnections: what comes on a connection that lies idle is no answer to what is asked
// next.
func TestIdleConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := listener.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	dialed, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours := <-accepted, checked(dialed, budget.New(maxMessage))
	defer theirs.Close()
	read := func() (string, error) {
		buffer := make([]byte, 100)
		n, err := ours.Read(buffer)
		return string(buffer[:n]), err
	}
	send := func(from io.Writer, text string) {
		t.Helper()
		if _, err := io.WriteString(from, text); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		send(ours, "*1\r\n$4\r\nping\r\n")
		send(theirs, "+PONG\r\n")
		if got, err := read(); got != "+PONG\r\n" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	send(theirs, "+OK\r\n")
	if got, err := read(); !errors.Is(err, errUnasked) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := read(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after that: %v", err)
	}
}

// FuzzAnswers feeds a store with answers of every shape, on real connections, also as a node of a
// cluster: none ends the process. What panics in the library, where a store waits for that, is an
// error like others (see [link.careful]): go-redis 9.23 takes a message for a text unseen.
func FuzzAnswers(f *testing.F) {
	for _, text := range odd {
		f.Add(text, uint8(3), false)
		f.Add(text, uint8(1), true)
	}
	f.Add("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n", uint8(2), true)
	f.Add("*1\r\n*3\r\n:5\r\n:1\r\n*0\r\n", uint8(2), true)
	f.Add("*2\r\n:1\r\n$0\r\n\r\n", uint8(7), false)
	f.Fuzz(func(t *testing.T, text string, from uint8, cluster bool) {
		var commands atomic.Int64
		mode := map[bool]string{false: "standalone", true: "cluster"}[cluster]
		s := &Redis{URLs: []string{fake(t, func(command []string) string {
			if commands.Add(1) > int64(from%16) {
				return text
			}
			return good(mode)(command)
		})}, Timeout: caddy.Duration(20 * time.Millisecond)}
		if err := provision(t, s); err != nil {
			t.Fatal(err)
		}
		useAll(t, s)
		s.link.cancel()
	})
}
