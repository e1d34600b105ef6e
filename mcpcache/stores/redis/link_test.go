package redis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/goleak"

	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// patience is how long tests wait for what has to come.
const patience = time.Minute

// awaitState waits until the store is there, or away for a reason that has that text.
func awaitState(t testing.TB, s *Redis, failure string) {
	t.Helper()
	var state stores.State
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		state = s.State()
		if failure == "" && state.Failure == nil || failure != "" && state.Failure != nil && strings.Contains(state.Failure.Error(), failure) {
			if state.Since.IsZero() {
				t.Error("nobody knows since when")
			}
			return
		}
	}
	t.Fatalf("the store is %+v, want %q", state, failure)
}

// wantAway asks a store that is away for everything.
func wantAway(t *testing.T, s *Redis) {
	t.Helper()
	_, loading := s.Load(t.Context(), "a/b")
	_, sizing := s.Size(t.Context(), "a/b")
	_, _, asking := s.Now(t.Context())
	_, leasing := s.Lease(t.Context(), "a/b", "one", time.Time{}, time.Hour)
	saving := s.SaveAt(t.Context(), "a/b", time.Time{}, nil)
	for i, err := range []error{loading, sizing, asking, leasing, saving, s.Save(t.Context(), "a/b", []byte("x")), s.Delete(t.Context(), "a/b")} {
		if !errors.Is(err, stores.ErrAway) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d: %v, want ErrAway", i, err)
		}
	}
}

// fake is a server whose answers a test makes up: a Redis does not do such things on demand.
func fake(t testing.TB, answer func(command []string) string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					command, err := readCommand(r)
					if err != nil {
						return
					}
					if _, err := io.WriteString(c, answer(command)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "redis://" + listener.Addr().String()
}

// bulk writes a string of RESP2.
func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// good is the answer of a Redis to a command.
func good(mode string) func(command []string) string {
	return func(command []string) string {
		switch command[0] {
		case "HELLO":
			return "*2\r\n" + bulk("proto") + ":2\r\n"
		case "INFO":
			return bulk("# Server\r\nredis_version:7.0.15\r\nredis_mode:" + mode + "\r\n")
		case "TIME":
			return "*2\r\n" + bulk("1700000000") + bulk("1")
		case "HGET":
			return bulk("value")
		case "DEL":
			return ":0\r\n"
		case "HSTRLEN":
			return ":5\r\n"
		case "SUBSCRIBE":
			return "*3\r\n" + bulk("subscribe") + bulk(command[1]) + ":1\r\n"
		}
		return "+OK\r\n"
	}
}

// readCommand reads an array of strings, as clients send commands.
func readCommand(r *bufio.Reader) ([]string, error) {
	length := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	parts, err := length()
	if err != nil {
		return nil, err
	}
	command := make([]string, parts)
	for i := range command {
		size, err := length()
		if err != nil {
			return nil, err
		}
		data := make([]byte, size+2)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, err
		}
		command[i] = string(data[:size])
	}
	command[0] = strings.ToUpper(command[0])
	return command, nil
}

// A Redis that does not want us is away, for a reason in words.
func TestRefusals(t *testing.T) {
	for want, answer := range map[string]func(command []string) string{
		"redis is too old: it is 5.0.14, and 6 or later is needed": func(command []string) string {
			switch command[0] {
			case "HELLO":
				return "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n"
			case "CLUSTER":
				return "-ERR This instance has cluster support disabled\r\n"
			case "INFO":
				return bulk("# Server\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\n")
			}
			return "+OK\r\n"
		},
		"redis refuses the username or the password": func([]string) string {
			return "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
		},
		"redis wants a password: set password or password_file": func([]string) string {
			return "-NOAUTH HELLO must be called with the client already authenticated\r\n"
		},
	} {
		s := &Redis{URLs: []string{fake(t, answer)}}
		if err := provision(t, s); err != nil {
			t.Fatal(err)
		}
		wantAway(t, s)
		awaitState(t, s, want)
	}
}

// A Redis that closes connections at once has said why, and that is why it is away.
func TestClosedAtOnce(t *testing.T) {
	for want, said := range map[string]string{
		"redis has no password, so it takes clients of its own machine only": "-DENIED Redis is running in protected mode because protected mode is enabled",
		"ERR max number of clients reached":                                  "-ERR max number of clients reached",
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			for c, err := listener.Accept(); err == nil; c, err = listener.Accept() {
				_, _ = io.WriteString(c, said+"\r\n")
				_ = c.Close()
			}
		}()
		s := &Redis{URLs: []string{"redis://" + listener.Addr().String()}}
		if err := provision(t, s); err != nil {
			t.Fatal(err)
		}
		wantAway(t, s)
		awaitState(t, s, want)
	}
}

// Nothing is dialled before somebody asks, and nobody waits for one that does not answer for
// longer than the time limit.
func TestSilentServer(t *testing.T) {
	var asked atomic.Bool
	silence := make(chan struct{})
	t.Cleanup(func() { close(silence) })
	s := &Redis{URLs: []string{fake(t, func([]string) string {
		asked.Store(true)
		<-silence
		return ""
	})}, Timeout: caddy.Duration(50 * time.Millisecond)}
	if err := provision(t, s); err != nil {
		t.Fatal(err)
	}
	if asked.Load() {
		t.Error("it was dialled while the configuration was loaded")
	}
	awaitState(t, s, errUntried.Error())
	wantAway(t, s)
	awaitState(t, s, "redis does not answer in time")
	if !asked.Load() {
		t.Error("it was never asked")
	}
}

// Of a Redis that is not there, everything ends that was begun.
func TestNobodyListens(t *testing.T) {
	before := goleak.IgnoreCurrent()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Redis{URLs: []string{"redis://" + listener.Addr().String()}}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := provision(t, s); err != nil {
		t.Fatal(err)
	}
	wantAway(t, s)
	awaitState(t, s, "connection refused")
	s.link.cancel()
	awaitState(t, s, "the connection has ended")
	wantAway(t, s)
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		left := goleak.Find(before)
		if left == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(left)
		}
	}
}

// Configurations with the same settings have one connection; it lives as long as any of them.
func TestOneConnectionForAll(t *testing.T) {
	first, second, other := &Redis{URLs: []string{"redis://h"}}, &Redis{URLs: []string{"redis://h"}}, &Redis{URLs: []string{"redis://h/1"}}
	for _, s := range []*Redis{first, second, other} {
		if err := provision(t, s); err != nil {
			t.Fatal(err)
		}
	}
	if first.link != second.link || first.link == other.link {
		t.Errorf("the connections are %p, %p and %p", first.link, second.link, other.link)
	}
	if err := errors.Join(first.Cleanup(), first.Cleanup()); err != nil {
		t.Error(err)
	}
	named, otherwise := &Redis{URLs: []string{"rediss://h"}, TLS: &TLS{ServerName: "a"}}, &Redis{URLs: []string{"rediss://h"}, TLS: &TLS{ServerName: "b"}}
	if err := errors.Join(provision(t, named), provision(t, otherwise)); err != nil || named.link == otherwise.link {
		t.Errorf("with other names, the connections are %p and %p, %v", named.link, otherwise.link, err)
	}
	third := &Redis{URLs: []string{"redis://h"}}
	if err := provision(t, third); err != nil || third.link != second.link {
		t.Errorf("after the first has gone, the connections are %p and %p, %v", third.link, second.link, err)
	}
}
