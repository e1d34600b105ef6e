package redis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores/storetest"
)

// connect returns a store that is connected.
func connect(t testing.TB, s *Redis) *Redis {
	t.Helper()
	if err := provision(t, s); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Size(t.Context(), "none") // it is dialled when it is first asked
	awaitState(t, s, "")
	return s
}

func TestRealStore(t *testing.T) {
	redis := redistest.Start(t)
	storetest.Run(t, func(t *testing.T) stores.Store {
		return connect(t, &Redis{URLs: []string{redis.URL}, Prefix: t.Name() + ":"})
	})
	storetest.RunFleet(t, func(t *testing.T) stores.Fleet {
		return connect(t, &Redis{URLs: []string{redis.URL}, Prefix: t.Name() + ":"})
	})
	for name, forget := range map[string]func(*Redis){
		"emptied": func(*Redis) { redis.Do("FLUSHALL") },
		"comes back as it was": func(s *Redis) {
			redis.Do("SAVE")
			redis.Kill()
			awaitState(t, s, "connection")
			redis.Start()
			awaitState(t, s, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := connect(t, &Redis{URLs: []string{redis.URL}, Prefix: t.Name() + ":"})
			storetest.RunForgetful(t, s, func() { forget(s) })
		})
	}
}

// Of members that have died, nothing is left.
func TestRealMembers(t *testing.T) {
	redis := redistest.Start(t)
	s := connect(t, &Redis{URLs: []string{redis.URL}})
	for n := range 5 {
		if _, err := s.Join(t.Context(), "a", fmt.Sprint("member", n), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	for deadline, gone := time.Now().Add(patience), false; !gone; time.Sleep(time.Millisecond) {
		if _, gone, _ = s.Announce(t.Context(), "a", "other", nil, time.Second); time.Now().After(deadline) {
			t.Fatal("who has died is waited for")
		}
	}
	if fields := redis.Do("HKEYS", "mc1:{a}:members"); strings.Contains(fields, "member") {
		t.Errorf("there are %s", fields)
	}
	if left, err := strconv.Atoi(redis.Do("PTTL", "mc1:{a}:members")); err != nil || left <= 0 {
		t.Errorf("it is kept for %d ms more", left)
	}
}

// What nobody saves again is forgotten, databases and prefixes are apart, the clock is
// that of Redis, and what another program has written is not ours.
func TestRealValues(t *testing.T) {
	redis := redistest.Start(t)
	s := connect(t, &Redis{URLs: []string{redis.URL + "/2"}, Prefix: "p:"})
	if err := s.Save(t.Context(), "a/b.snapshot", []byte("value")); err != nil {
		t.Fatal(err)
	}
	others := connect(t, &Redis{URLs: []string{redis.URL + "/3"}, Prefix: "p:"})
	if _, err := others.Load(t.Context(), "a/b.snapshot"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in another database there is an answer: %v", err)
	}
	if keys := redis.Do("EVAL", "redis.call('SELECT', 2); return redis.call('KEYS', '*')", "0"); keys != "[p:mc1:{a}:b.snapshot]" {
		t.Errorf("the keys are %s", keys)
	}
	week := (7 * 24 * time.Hour).Seconds()
	if left := redis.Do("EVAL", "redis.call('SELECT', 2); return redis.call('TTL', 'p:mc1:{a}:b.snapshot') > tonumber(ARGV[1]) and 1 or 0", "0", fmt.Sprint(week)); left != "1" {
		t.Error("it is forgotten within a week, or never")
	}
	if now, within, err := s.Now(t.Context()); err != nil || time.Until(now).Abs() > time.Minute || within <= 0 {
		t.Errorf("now is %v within %v, %v", now, within, err)
	}
	for key, keep := range map[string]func(key string) error{
		"a/save":  func(key string) error { return s.Save(t.Context(), key, []byte("ours")) },
		"a/fleet": func(key string) error { return s.SaveAt(t.Context(), key, time.Now(), []byte("ours")) },
	} {
		redis.Do("EVAL", "redis.call('SELECT', 2); return redis.call('SET', KEYS[1], 'x')", "1", s.keyOf(key))
		_, loading := s.Load(t.Context(), key)
		_, sizing := s.Size(t.Context(), key)
		if !errors.Is(loading, stores.ErrForeign) || !errors.Is(sizing, stores.ErrForeign) {
			t.Errorf("of a text: %v, %v", loading, sizing)
		}
		if _, err := s.Lease(t.Context(), key, "one", time.Time{}, time.Hour); err != nil {
			t.Errorf("it cannot be leased: %v", err)
		}
		if err := keep(key); err != nil {
			t.Errorf("it cannot be replaced: %v", err)
		}
	}
}

// Databases are apart in what is announced, too, though they have all channels in common. In one, nothing
// is heard of the others. Database 0 has the channel of before.
func TestRealDatabases(t *testing.T) {
	redis := redistest.Start(t)
	var all []*Redis
	var heard []<-chan stores.Announcement
	for _, at := range []struct{ database, listens string }{
		{"", "p:mc1:{a}:members 1"}, {"/1", "p:mc1:{a}:members:1 1"}, {"/2", "p:mc1:{a}:members:2 1"}, {"/0", "p:mc1:{a}:members 2"},
	} {
		s := connect(t, &Redis{URLs: []string{redis.URL + at.database}, Prefix: "p:"})
		all, heard = append(all, s), append(heard, keepListening(t, s, "a"))
		channel, _, _ := strings.Cut(at.listens, " ")
		fixture.Await(t, "it to listen", func() bool { return redis.Do("PUBSUB", "NUMSUB", channel) == "["+at.listens+"]" })
	}
	for n, s := range all {
		if _, _, err := s.Announce(t.Context(), "a", "one", []byte{'0' + byte(n)}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range []string{"03", "1", "2", "03"} {
		var got string
		for range want {
			select {
			case a := <-heard[n]:
				got += string(a.Message)
			case <-time.After(patience):
				t.Fatalf("at %d, nothing is heard after %q", n, got)
			}
		}
		if got != want {
			t.Errorf("at %d, %q is heard, want %q", n, got, want)
		}
	}
}

// A user who may do what the page says, and nothing else, can do all that a store does.
func TestRealUser(t *testing.T) {
	redis := redistest.Start(t)
	rules := []string{"ACL", "SETUSER", "app", "on", ">secret", "~p:mc1:*", "&p:mc1:*", "-@all"}
	for _, command := range strings.FieldsFunc(commands, func(r rune) bool { return r == ',' || r == ' ' }) {
		if command != "and" {
			rules = append(rules, "+"+strings.ToLower(command))
		}
	}
	redis.Do(rules...)
	s := connect(t, &Redis{URLs: []string{redis.URL}, Username: "app", Password: "secret", Prefix: "p:"})
	for _, database := range []string{"", "/1"} {
		if database != "" {
			redis.Do("ACL", "SETUSER", "app", "+select")
		}
		storetest.RunFleet(t, func(t *testing.T) stores.Fleet {
			return connect(t, &Redis{URLs: []string{redis.URL + database}, Username: "app", Password: "secret", Prefix: "p:mc1:" + t.Name()})
		})
	}
	client, err := s.link.membersClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listens := client.Subscribe(t.Context(), s.channelOf("a"))
	defer listens.Close()
	for _, want := range []string{"*redis.Subscription", "*redis.Pong"} {
		if got, err := listens.Receive(t.Context()); err != nil || fmt.Sprintf("%T", got) != want {
			t.Errorf("got %T, %v, want %s", got, err, want)
		}
		if err := listens.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if denied := redis.Do("ACL", "LOG"); denied != "[]" {
		t.Errorf("the user was denied %s", denied)
	}
}

// A Redis whose memory is used up keeps nothing more, and what the user may not do is said.
func TestRealRefusals(t *testing.T) {
	redis := redistest.Start(t)
	s := connect(t, &Redis{URLs: []string{redis.URL}})
	keep := func() error { return s.SaveAt(t.Context(), "a/b", time.Now(), []byte("value")) }
	if err := keep(); err != nil {
		t.Fatal(err)
	}
	redis.Do("CONFIG", "SET", "maxmemory", "1")
	if err := keep(); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("with no memory left, saving gives %v", err)
	}
	redis.Do("CONFIG", "SET", "maxmemory", "0")
	redis.Do("ACL", "SETUSER", "default", "-expire")
	if err := keep(); err == nil || !strings.Contains(err.Error(), "its user needs EVAL, EVALSHA,") {
		t.Errorf("without a command, saving gives %v", err)
	}
}

// A frozen Redis, and one that is killed, is away until it is back.
func TestRealTrouble(t *testing.T) {
	redis := redistest.Start(t)
	s := connect(t, &Redis{URLs: []string{redis.URL}})
	redis.Freeze()
	awaitState(t, s, "redis does not answer in time")
	wantAway(t, s)
	redis.Thaw()
	awaitState(t, s, "")
	redis.Kill()
	awaitState(t, s, "refused")
	wantAway(t, s)
	redis.Start()
	awaitState(t, s, "")
	if err := s.Save(t.Context(), "a/b", []byte("x")); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// A password that is replaced in its file is used for the next connection.
func TestRealPasswords(t *testing.T) {
	redis := redistest.Start(t, "--requirepass", "first")
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	connect(t, &Redis{URLs: []string{"redis://:first@" + redis.Addr}})
	connect(t, &Redis{URLs: []string{redis.URL}, Username: "default", Password: "first"})
	s := connect(t, &Redis{URLs: []string{redis.URL}, PasswordFile: file})
	redis.Kill()
	redis.Configure("--requirepass", "second")
	redis.Start()
	wrong := &Redis{URLs: []string{redis.URL}, Password: "first"}
	if err := provision(t, wrong); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, "refuse") // by the port, or for the password
	write("second")
	awaitState(t, s, "")
	wantAway(t, wrong)
	awaitState(t, wrong, "redis refuses the username or the password")
}

// awaitCluster waits until nodes are one cluster.
func awaitCluster(t *testing.T, nodes ...*redistest.Server) {
	t.Helper()
	for _, node := range nodes {
		fixture.Await(t, "a cluster", func() bool {
			return strings.Contains(node.Do("CLUSTER", "INFO"), "cluster_state:ok") && strings.Count(node.Do("CLUSTER", "SLOTS"), "[127.0.0.1 ") > 0
		})
	}
}

// Keys are where the nodes of a cluster say, whichever of them is named.
func TestRealCluster(t *testing.T) {
	first, _ := redistest.NewNode(t)
	second, bus := redistest.NewNode(t)
	first.Do("CLUSTER", "ADDSLOTSRANGE", "0", "8000")
	second.Do("CLUSTER", "ADDSLOTSRANGE", "8001", "16383")
	first.Do("CLUSTER", "MEET", "127.0.0.1", second.Port, bus)
	awaitCluster(t, first, second)
	s := connect(t, &Redis{URLs: []string{first.URL, second.URL}})
	one := connect(t, &Redis{URLs: []string{second.URL}})
	for i := range 20 {
		key, value := fmt.Sprintf("%d/x", i), fmt.Sprint(i)
		if err := s.Save(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
		if got, err := one.Load(t.Context(), key); err != nil || string(got) != value {
			t.Errorf("%s: %q, %v", key, got, err)
		}
		if _, err := one.Lease(t.Context(), key, "one", time.Time{}, time.Hour); err != nil {
			t.Errorf("the lease of %s: %v", key, err)
		}
	}
	none := &Redis{URLs: []string{redistest.Start(t).URL, redistest.Start(t).URL}}
	if err := provision(t, none); err != nil {
		t.Fatal(err)
	}
	wantAway(t, none)
	awaitState(t, none, "several URLs are nodes of one cluster, and this redis is none")
}
