package promises

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// fleetStatus is what the tests read of a status.
type fleetStatus struct {
	Ready    bool
	Warnings []string
	Fleet    *struct {
		State, Name string
		Members     []string
		Others      []string `json:"other_secrets"`
		Failure     string   `json:"last_failure"`
		Ignored     int
	}
	Kinds []struct {
		Kind string
		Age  float64 `json:"age_seconds"`
	}
}

// TestRedisIsNotThere starts with a Redis that nobody has started: everything works as without,
// one line says so, and the status why.
func TestRedisIsNotThere(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	addr := fixture.FreeAddr(t)
	p := caddytest.StartProxy(t, caddytest.Directive(w.Host.URL, "store redis redis://u:geheim@"+addr))
	caddytest.AwaitReady(t, "mcp_cache")
	for _, revision := range caddytest.Revisions {
		fixture.New(t, p.URL, revision, "").Settle(scripted.ToolsList)
	}
	var status fleetStatus
	caddytest.ReadAdmin(t, "/mcp_cache/mcp_cache", &status)
	if f := status.Fleet; f == nil || f.State != "away" || !strings.Contains(f.Failure, "connection refused") {
		t.Errorf("the fleet is %+v", f)
	}
	const away = "redis is away: this instance keeps its lists by itself until it is back"
	p.Reload(caddytest.Directive(w.Host.URL, "store redis redis://u:geheim@"+addr, "ttl 1h")) // with the same connection
	caddytest.RefreshNow(t, "")
	if n := strings.Count(p.Log(), away); n != 1 {
		t.Errorf("%d lines say that it is away, want 1", n)
	}
	for line := range strings.Lines(p.Log()) {
		if strings.Contains(line, "snapshots failed") || strings.Contains(line, "geheim") {
			t.Errorf("the log has %s", line)
		}
	}
}

// instance is a Caddy of a fleet, a process of its own.
type instance struct {
	*caddytest.Process

	t                testing.TB
	URL, addr, admin string
	binary           string // the Caddy; "": that of the tests
	globals          string // more options of Caddy
}

// startInstance starts an instance whose handler has those options. It has the name of all
// Caddys of the tests, so that a server on loopback is the same to all of them.
func startInstance(t testing.TB, url string, options ...string) *instance {
	t.Helper()
	return startNamed(t, "", url, options...)
}

// startNamed is startInstance of one that has {env.INSTANCE}.
func startNamed(t testing.TB, name, url string, options ...string) *instance {
	t.Helper()
	return startInstanceOf(t, name, caddytest.Directive(url, options...))
}

// startInstanceOf is startNamed of a site with that body.
func startInstanceOf(t testing.TB, name, body string) *instance {
	t.Helper()
	i := newInstance(t)
	i.start(name, body)
	return i
}

// newInstance returns an instance that has not been started.
func newInstance(t testing.TB) *instance {
	t.Helper()
	admin, addr := fixture.FreeAddr(t), fixture.FreeAddr(t)
	return &instance{t: t, URL: "http://" + addr + "/mcp", addr: addr, admin: admin}
}

// start starts the instance, whose site has that body. It may have been stopped before.
func (i *instance) start(name, body string) {
	i.t.Helper()
	caddyfile := filepath.Join(i.t.TempDir(), "Caddyfile")
	if err := os.WriteFile(caddyfile, []byte(i.config(body)), 0o600); err != nil {
		i.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	args := []string{"run", "--config", caddyfile}
	cmd := caddytest.CaddyCommand(ctx, i.t, args...)
	if i.binary != "" {
		cmd = caddytest.BinaryCommand(ctx, i.t, i.binary, args...)
	}
	i.Process = caddytest.StartCommand(i.t, cmd, []string{"INSTANCE=" + name}, cancel)
	fixture.Await(i.t, "an instance", func() bool {
		select {
		case <-i.Ended:
			i.t.Fatalf("it has ended: %s", i.Complaints())
		default:
		}
		return slices.ContainsFunc(i.Lines(), func(line string) bool { return strings.Contains(line, "serving initial configuration") })
	})
}

// config is a configuration with a site of that body.
func (i *instance) config(body string) string {
	return fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n\tauto_https off\n\t%s\n\tlog default {\n\t\toutput stdout\n\t\tformat json\n\t}\n}\nhttp://%s {\n\t%s\n}\n",
		i.admin, i.globals, i.addr, body)
}

// reload replaces the body of its site.
func (i *instance) reload(body string) {
	i.t.Helper()
	if err := caddytest.LoadAt(i.admin, "text/caddyfile", []byte(i.config(body))); err != nil {
		i.t.Fatal(err)
	}
}

// ask returns what its admin endpoint answers.
func (i *instance) ask(path string) []byte {
	i.t.Helper()
	r, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, "http://"+i.admin+path, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	res, err := caddytest.Running.HTTP.Do(r)
	if err != nil {
		i.t.Fatalf("asking an instance: %v", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		i.t.Fatalf("reading an instance's answer: %v", err)
	}
	return body
}

// status returns how its handler is; nil before it answers.
func (i *instance) status() *fleetStatus { return i.statusOf("mcp_cache") }

// statusOf is status of a handler, or of a server of it.
func (i *instance) statusOf(name string) *fleetStatus {
	i.t.Helper()
	status := new(fleetStatus)
	if err := json.Unmarshal(i.ask("/mcp_cache/"+name), status); err != nil || status.Fleet == nil {
		return nil // it has just begun
	}
	return status
}

// awaitFleet waits until the instance and Redis are in a state.
func (i *instance) awaitFleet(state string) { i.awaitFleetOf("mcp_cache", state) }

// awaitFleetOf is awaitFleet of a handler, or of a server of it.
func (i *instance) awaitFleetOf(name, state string) {
	i.t.Helper()
	fixture.Await(i.t, "an instance to be "+state, func() bool {
		s := i.statusOf(name)
		return s != nil && s.Fleet.State == state
	})
}

// TestFleetSharesLists starts an instance after the server has gone: it has what the other one
// has fetched, with its age. One that has other secrets has nothing.
func TestFleetSharesLists(t *testing.T) {
	redis := redistest.Start(t)
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	store := "store redis " + redis.URL
	first := startInstance(t, w.Host.URL, store, "admit all", "scope public always")
	const lists = 4 + 5 // of both eras
	first.awaitFleet("together")
	fixture.Await(t, "the lists in Redis", func() bool { return redis.Do("DBSIZE") == strconv.Itoa(lists+1) }) // and the members
	w.Host.Kill()

	second := startInstance(t, w.Host.URL, store, "admit all", "scope public always")
	// A client of the other era would need a session, which the server alone opens.
	a := fixture.NewModern(t, second.URL, "").AwaitList(scripted.ToolsList, "the other's list", caddytest.IsStale)
	if got := a.Items("tools"); len(got) != 3 {
		t.Errorf("the tools are %v", got)
	}
	fixture.Await(t, "all lists", func() bool { s := second.status(); return s != nil && len(s.Kinds) == lists })
	one, other := first.status(), second.status()
	for n, k := range other.Kinds {
		if k.Kind != one.Kinds[n].Kind || k.Age < one.Kinds[n].Age {
			t.Errorf("%s is %v s old at the second instance, %v at the first, asked before", k.Kind, k.Age, one.Kinds[n].Age)
		}
	}

	secrets := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(secrets, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	stranger := startInstance(t, w.Host.URL, store, "admit all", "scope public always", "secret_file "+secrets)
	fixture.Await(t, "the lists to be ignored", func() bool { s := stranger.status(); return s != nil && s.Fleet.Ignored == lists })
	if s := stranger.status(); len(s.Kinds) != 0 {
		t.Errorf("with other secrets there are lists: %+v", s.Kinds)
	}
}

// TestRedisComesAndGoes has a Redis start after an instance, and be frozen for a while: once the lists
// are asked for again, as others may have told of changes, they are hits. Each change is a line of the log.
func TestRedisComesAndGoes(t *testing.T) {
	redis := redistest.NewDown(t)
	w := caddytest.NewUpstream(t)
	w.Host.Start()
	one := startInstance(t, w.Host.URL, "store redis "+redis.URL)
	fixture.Await(t, "the lists", func() bool { s := one.status(); return s != nil && s.Ready })
	session := fixture.New(t, one.URL, scripted.LatestLegacy, "")
	one.awaitFleet("away")
	session.Settle(scripted.ToolsList)
	redis.Start()
	one.awaitFleet("together")
	session.Settle(scripted.ToolsList)
	redis.Freeze()
	one.awaitFleet("away")
	session.Settle(scripted.ToolsList)
	redis.Thaw()
	one.awaitFleet("together")
	session.Settle(scripted.ToolsList)
	log := strings.Join(one.Lines(), "\n")
	for text, want := range map[string]int{"redis is away": 2, "redis is there": 2} {
		if got := strings.Count(log, text); got != want {
			t.Errorf("%d lines say %q, want %d", got, text, want)
		}
	}
}

// sharing is several instances in front of an upstream, whose requests say which of them has
// sent them.
type sharing struct {
	*caddytest.World

	redis     *redistest.Server
	options   []string
	instances map[string]*instance
}

// startSharing starts three instances, and returns them once they share their lists, each of
// which is due in that many milliseconds at most.
func startSharing(t *testing.T, ttl int, revisions ...string) *sharing {
	redis := redistest.Start(t)
	return startSharingAt(t, redis, redis.URL, ttl, revisions...)
}

// startSharingAt is startSharing with the URL that leads to their Redis.
func startSharingAt(t *testing.T, redis *redistest.Server, url string, ttl int, revisions ...string) *sharing {
	s := newSharing(t, redis, ttl, revisions...)
	s.options[0] = "store redis " + url
	for _, name := range []string{"a", "b", "c"} {
		s.startOne(name)
	}
	return s
}

// newSharing starts the upstream of instances, and none of them.
func newSharing(t *testing.T, redis *redistest.Server, ttl int, revisions ...string) *sharing {
	w := caddytest.NewUpstream(t)
	w.SetRevisions(revisions...)
	w.SetHints(fmt.Sprintf(`"ttlMs":%d,"cacheScope":"public"`, ttl))
	w.Host.Start()
	return &sharing{World: w, redis: redis, instances: make(map[string]*instance), options: []string{
		"store redis " + redis.URL, "refresh 10ms", "reverse_proxy {\n\t\theader_up X-Instance {env.INSTANCE}\n\t}",
	}}
}

func (s *sharing) startOne(name string) { s.startOf(name, "") }

// startOf is startOne of an instance of that binary.
func (s *sharing) startOf(name, binary string) {
	s.T.Helper()
	one := newInstance(s.T)
	one.binary = binary
	one.start(name, caddytest.Directive(s.Host.URL, s.options...))
	one.awaitFleet("together")
	fixture.Await(s.T, "its lists", func() bool { status := one.status(); return status != nil && status.Ready })
	s.instances[name] = one
}

// TestFleetAsksOnce has lists come due: one of three instances asks for each, and all have what
// it was given.
func TestFleetAsksOnce(t *testing.T) {
	s := startSharing(t, 1000, scripted.Modern)
	var mu sync.Mutex
	var asked []time.Time
	byName := make(map[string]int)
	s.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		mu.Lock()
		asked = append(asked, time.Now())
		byName[x.R.Header.Get("X-Instance")]++
		mu.Unlock()
		x.Default()
	})
	rounds := caddytest.Pick(20, 100)
	fixture.Await(t, "each to take turns", func() bool { mu.Lock(); defer mu.Unlock(); return len(asked) > 3 })
	mu.Lock()
	first := len(asked)
	mu.Unlock()
	fixture.AwaitFor(t, 10*fixture.Deadline, "the lists to be due", func() bool { mu.Lock(); defer mu.Unlock(); return len(asked) > first+rounds })
	mu.Lock()
	for n := first; n < len(asked); n++ {
		if gap := asked[n].Sub(asked[n-1]); gap < time.Second/2 {
			t.Errorf("list %d of %d was asked for again after %v", n, len(asked), gap)
		}
	}
	t.Logf("%d lists of three instances: %v", len(asked), byName)
	mu.Unlock()
	s.Mark(scripted.ToolsList, "v2")
	for name, one := range s.instances {
		c := fixture.NewModern(t, one.URL, "")
		c.AwaitList(scripted.ToolsList, "the new list at "+name, func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v2") })
	}
}

// TestFleetReplacesItsHolder kills the instance that asks for a list, before it has an answer:
// another asks in its place.
func TestFleetReplacesItsHolder(t *testing.T) {
	s := startSharing(t, 1000, scripted.Modern)
	var worst time.Duration
	for range caddytest.Pick(2, 10) {
		asking, others := make(chan string, 10), make(chan string, 10)
		s.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
			asking <- x.R.Header.Get("X-Instance")
			<-x.Done()
		})
		holder := <-asking
		s.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
			x.Default()
			others <- x.R.Header.Get("X-Instance")
		})
		if err := syscall.Kill(s.instances[holder].PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		died := time.Now()
		select {
		case next := <-others:
			worst = max(worst, time.Since(died))
			if next == holder || len(asking) > 0 {
				t.Errorf("%s, which was killed, was replaced by %s; %d more asked before", holder, next, len(asking))
			}
		case <-time.After(fixture.Deadline):
			t.Fatal("nobody asks in its place")
		}
		s.SetScript(scripted.ToolsList, nil)
		s.startOne(holder)
	}
	if t.Logf("another asked within %v", worst.Round(time.Millisecond)); worst > 4*time.Second {
		t.Error("which is more than four seconds")
	}
}
