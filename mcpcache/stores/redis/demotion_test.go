package redis

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

// observed returns what a store logs from now on.
func observed(s *Redis) *observer.ObservedLogs {
	core, logs := observer.New(zap.InfoLevel)
	s.link.logTo(zap.New(core))
	return logs
}

// keepListening has a store listen at a place until the test ends, again and again, and returns
// what it hears.
func keepListening(t *testing.T, s *Redis, place string) <-chan stores.Announcement {
	heard := make(chan stores.Announcement, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = s.Listen(ctx, place, func() {}, func(a stores.Announcement) { heard <- a })
			time.Sleep(time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return heard
}

// listens reports whether somebody listens at a place of a Redis.
func listens(redis *redistest.Server, s *Redis, place string) bool {
	return !strings.HasSuffix(redis.Do("PUBSUB", "NUMSUB", s.channelOf(place)), " 0]")
}

// TestRealDemotion makes a replica of the Redis that a name leads to, while its connections stay
// open. The store is away while the name leads there, which is logged once. It works
// again once the name leads to the new primary, and nothing stays connected to the old one.
func TestRealDemotion(t *testing.T) {
	for name, use := range map[string]func(*Redis) error{
		"saving": func(s *Redis) error { return s.SaveAt(t.Context(), "a/b", time.Now(), []byte("value")) },
		"leasing": func(s *Redis) error {
			_, err := s.Lease(t.Context(), "a/b", "one", time.Now(), time.Millisecond)
			return err
		},
		"deleting":   func(s *Redis) error { return s.Delete(t.Context(), "a/none") },
		"joining":    func(s *Redis) error { _, err := s.Join(t.Context(), "a", "one", time.Hour); return err },
		"confirming": func(s *Redis) error { _, err := s.Confirm(t.Context(), "a", "one", 1, time.Hour); return err },
		"announcing": func(s *Redis) error {
			_, _, err := s.Announce(t.Context(), "a", "one", []byte("x"), time.Hour)
			return err
		},
		"leaving": func(s *Redis) error { return s.Leave(t.Context(), "a", "two") },
	} {
		t.Run(name, func(t *testing.T) {
			first, second := redistest.Start(t), redistest.Start(t)
			between := redistest.NewProxy(t, first.Addr)
			s := connect(t, &Redis{URLs: []string{between.URL}})
			logs := observed(s)
			heard := keepListening(t, s, "a")
			fixture.Await(t, "it to listen", func() bool { return listens(first, s, "a") })
			if _, err := s.Join(t.Context(), "a", "one", time.Hour); err != nil {
				t.Fatal(err)
			}
			second.Succeed(first)
			if err := use(s); !errors.Is(err, stores.ErrAway) || !strings.Contains(err.Error(), "redis is a read-only replica") {
				t.Errorf("at a replica: %v", err)
			}
			awaitState(t, s, "redis is a read-only replica, and its name is asked for again until it leads to the primary")
			between.Lead(second.Addr)
			awaitState(t, s, "")
			fixture.Await(t, "it to listen to the new primary", func() bool { return listens(second, s, "a") })
			fixture.Await(t, "the old connections to end", func() bool {
				return !listens(first, s, "a") && !strings.Contains(first.Do("CLIENT", "LIST"), "cmd=time")
			})
			wantUsable(t, s, heard)
			if away, there := logs.FilterMessageSnippet("redis is away").Len(), logs.FilterMessage("redis is there").Len(); away != 1 || there != 1 {
				t.Errorf("%d lines of the log say that it is away, and %d that it is there, want 1 and 1", away, there)
			}
		})
	}
}

// wantUsable does with a store what instances do.
func wantUsable(t *testing.T, s *Redis, heard <-chan stores.Announcement) {
	t.Helper()
	if err := s.SaveAt(t.Context(), "a/b", time.Now(), []byte("value")); err != nil {
		t.Error(err)
	}
	if _, err := s.Lease(t.Context(), "a/c", "one", time.Now(), time.Hour); err != nil {
		t.Error(err)
	}
	is, err := s.Join(t.Context(), "a", "one", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Confirm(t.Context(), "a", "one", is.Last, time.Hour); err != nil {
		t.Error(err)
	}
	number, _, err := s.Announce(t.Context(), "a", "one", []byte("after"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case a := <-heard:
			if a.Number == number && string(a.Message) == "after" {
				return
			}
		case <-time.After(patience):
			t.Fatal("what is announced is not heard")
		}
	}
}

// TestRealLostReplica is a replica that has lost its primary and shows nothing old. It answers
// MASTERDOWN to scripts, as long as it is one.
func TestRealLostReplica(t *testing.T) {
	first, second := redistest.Start(t), redistest.Start(t)
	between := redistest.NewProxy(t, first.Addr)
	s := connect(t, &Redis{URLs: []string{between.URL}})
	heard := keepListening(t, s, "a")
	fixture.Await(t, "it to listen", func() bool { return listens(first, s, "a") })
	if _, err := s.Join(t.Context(), "a", "one", time.Hour); err != nil {
		t.Fatal(err)
	}
	first.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
	second.Succeed(first)
	between.Lead(second.Addr)
	first.Do("REPLICAOF", "127.0.0.1", "1") // where nobody is
	if _, err := s.Join(t.Context(), "a", "one", time.Hour); !errors.Is(err, stores.ErrAway) {
		t.Errorf("at a replica: %v", err)
	}
	fixture.Await(t, "it to join at the new primary", func() bool {
		_, err := s.Join(t.Context(), "a", "one", time.Hour)
		return err == nil
	})
	fixture.Await(t, "it to listen to the new primary", func() bool { return listens(second, s, "a") })
	wantUsable(t, s, heard)
}

// TestReplicaOfAnotherRelease has a replica answer to a script as Redis 6 does, and as others may.
// It is asked ever more seldom.
func TestReplicaOfAnotherRelease(t *testing.T) {
	for _, answer := range []string{
		"-ERR Error running script (call to f_4a): @user_script:15: @user_script: 15: -READONLY You can't write against a read only replica.\r\n",
		"-READONLY You can't write against a read only replica. script: 4a, on @user_script:15.\r\n",
		"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
	} {
		var replica atomic.Bool
		var dialled atomic.Int64
		s := connect(t, &Redis{URLs: []string{fake(t, func(command []string) string {
			switch {
			case command[0] == "HELLO":
				dialled.Add(1)
			case !replica.Load():
			case command[0] == "EVALSHA":
				return answer
			case command[0] == "DEL":
				return "-READONLY You can't write against a read only replica.\r\n"
			}
			return good("standalone")(command)
		})}})
		logs := observed(s)
		replica.Store(true)
		before := dialled.Load()
		if _, err := s.Join(t.Context(), "a", "one", time.Hour); !errors.Is(err, stores.ErrAway) {
			t.Errorf("%q is %v", answer, err)
		}
		fixture.Await(t, "it to be dialled again and again", func() bool { return dialled.Load() > before+3 })
		awaitState(t, s, "redis is a read-only replica")
		replica.Store(false)
		awaitState(t, s, "")
		if n := logs.FilterMessageSnippet("redis is away").Len(); n != 1 {
			t.Errorf("%d lines of the log say that it is away, want 1", n)
		}
	}
}
