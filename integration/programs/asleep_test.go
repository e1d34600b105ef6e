package programs

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/programtest"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// sleeper is a site in front of a program that is stopped soon after it was used.
type sleeper struct {
	*caddytest.Proxy
	t    *testing.T
	site string
	dir  string // has a file for each process
	// grown is a file by which the program has one more tool.
	grown    string
	revision string
}

// sleepers are the ways to use a program.
var sleepers = map[string]struct {
	traits            []string
	options, revision string
}{
	"with sessions": {nil, "", scripted.LatestLegacy},
	"shared":        {nil, "share", scripted.LatestLegacy},
	"announcing":    {[]string{"announces"}, "", scripted.LatestLegacy},
	"modern":        {[]string{"modern"}, "", scripted.Modern},
	"never fresh":   {[]string{"modern", "curt", "fleeting"}, "", scripted.Modern},
}

// eachSleeper runs a test with each of them, with these options of the cache.
func eachSleeper(t *testing.T, options string, test func(*testing.T, *sleeper)) {
	for name, tt := range sleepers {
		t.Run(name, func(t *testing.T) {
			grown := filepath.Join(t.TempDir(), "grown")
			command, dir := caddytest.MisbehavingProgram(t, append(tt.traits, "grows", grown)...)
			site := "mcp_cache {\n" + options + "\n" + caddytest.ProgramUpstream(command, tt.options, "idle 100ms") + "\n}"
			test(t, &sleeper{caddytest.StartProxy(t, site), t, site, dir, grown, tt.revision})
		})
	}
}

// client returns a new one.
func (s *sleeper) client() *fixture.Raw { return fixture.New(s.t, s.URL, s.revision, "") }

// awaitSleep waits until no process runs, and no feed is about to start one, and returns how many
// were started.
func (s *sleeper) awaitSleep() int {
	s.t.Helper()
	started := 0
	fixture.Await(s.t, "all processes end", func() bool {
		var status struct {
			Program struct{ Processes []any }
			Feeds   []struct {
				Next *time.Time `json:"next_refresh"`
			}
		}
		_, body := caddytest.AskAdmin(s.t, http.MethodGet, "/mcp_cache/mcp_cache", nil)
		if err := json.Unmarshal(body, &status); err != nil {
			s.t.Fatalf("%v: %s", err, body)
		}
		for _, f := range status.Feeds {
			if f.Next != nil {
				return false
			}
		}
		started = len(programtest.Started(s.t, s.dir))
		return len(status.Program.Processes) == 0 && strings.Count(s.Log(), `"program ended"`) == started
	})
	return started
}

// wantAsleep has new clients list, and fails if that starts a process, or does not bring that many
// tools from memory.
func (s *sleeper) wantAsleep(tools int) {
	s.t.Helper()
	started := s.awaitSleep()
	for range 10 {
		c := s.client()
		for range 2 {
			if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit || len(a.Items("tools")) != tools {
				s.t.Fatalf("a list of a program that sleeps is %s", a)
			}
		}
	}
	if n := len(programtest.Started(s.t, s.dir)); n != started {
		s.t.Errorf("20 lists of a program that sleeps have started %d processes", n-started)
	}
}

// TestSleepingProgramsAreListed has clients list what a program has that sleeps: nothing of that
// starts it, also after a restart of Caddy. A call does, and the lists are fetched anew then.
func TestSleepingProgramsAreListed(t *testing.T) {
	eachSleeper(t, "", func(t *testing.T, s *sleeper) {
		caddytest.AwaitReady(t, "mcp_cache")
		s.settle(1)
		s.wantAsleep(1)
		caddytest.GoIdle(t)
		s.Reload(s.site)
		caddytest.AwaitReady(t, "mcp_cache")
		s.wantAsleep(1)
		if err := os.WriteFile(s.grown, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.wantAsleep(1)
		started := s.awaitSleep()
		if got := callProgram(s.client(), "echo").Text(); got == "" {
			t.Error("a call is not answered")
		}
		if n := len(programtest.Started(t, s.dir)); n <= started {
			t.Error("a call has started no process")
		}
		s.settle(2)
		s.wantAsleep(2)
	})
}

// settle waits until clients are answered that many tools while the program sleeps, and nothing starts
// it: what a kind of client is given has to be found out once after a change.
func (s *sleeper) settle(tools int) {
	s.t.Helper()
	fixture.Await(s.t, "clients are answered from memory", func() bool {
		started := s.awaitSleep()
		a := s.client().List(scripted.ToolsList)
		return a.CacheStatus().Hit && len(a.Items("tools")) == tools && s.awaitSleep() == started
	})
}

// TestRefreshWakesPrograms has lists of a program that sleeps fetched by an operator.
func TestRefreshWakesPrograms(t *testing.T) {
	eachSleeper(t, "", func(t *testing.T, s *sleeper) {
		caddytest.AwaitReady(t, "mcp_cache")
		s.awaitSleep()
		if err := os.WriteFile(s.grown, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, r := range caddytest.RefreshNow(t, "tools") {
			if r.Error != "" || r.Items != 2 {
				t.Errorf("refreshing gave %+v", r)
			}
		}
	})
}

// TestTTLWakesPrograms says how long lists are fresh: that counts, also of a program that sleeps.
func TestTTLWakesPrograms(t *testing.T) {
	eachSleeper(t, "ttl 200ms\nmax_ttl 200ms", func(t *testing.T, s *sleeper) {
		caddytest.AwaitReady(t, "mcp_cache")
		fixture.Await(t, "the program to sleep", func() bool { return strings.Contains(s.Log(), `"program ended"`) })
		if err := os.WriteFile(s.grown, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		fixture.Await(t, "the list is fetched anew", func() bool { return len(s.client().List(scripted.ToolsList).Items("tools")) == 2 })
	})
}

// TestChangesOfSleepingPrograms has clients listen: what has changed while a program slept they are
// told once it wakes, and nothing if nothing has.
func TestChangesOfSleepingPrograms(t *testing.T) {
	eachSleeper(t, "", func(t *testing.T, s *sleeper) {
		caddytest.AwaitReady(t, "mcp_cache")
		s.settle(1)
		c := s.client()
		stream := c.Notices()
		s.wantAsleep(1)
		if err := os.WriteFile(s.grown, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		callProgram(s.client(), "echo")
		stream.Await("notifications/tools/list_changed")
		s.settle(2)
	})
}

// TestSleepingProgramsBehindALogin has callers with credentials of their own list: the program cannot
// tell them apart, so nobody wakes it.
func TestSleepingProgramsBehindALogin(t *testing.T) {
	eachSleeper(t, "", func(t *testing.T, s *sleeper) {
		caddytest.AwaitReady(t, "mcp_cache")
		s.settle(1)
		started := s.awaitSleep()
		for _, token := range []string{"Bearer one", "Bearer two"} {
			c := fixture.New(t, s.URL, s.revision, token)
			if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit || len(a.Items("tools")) != 1 {
				t.Errorf("%s: %s", token, a)
			}
		}
		if n := s.awaitSleep(); n != started {
			t.Errorf("%d processes were started", n-started)
		}
	})
}

// TestReloadsLetProgramsSleep changes how long processes run on: the lists of a program that sleeps
// stay, and nothing starts it.
func TestReloadsLetProgramsSleep(t *testing.T) {
	eachSleeper(t, "", func(t *testing.T, s *sleeper) {
		caddytest.AwaitReady(t, "mcp_cache")
		s.settle(1)
		started := s.awaitSleep()
		s.Reload(strings.Replace(s.site, "idle 100ms", "idle 200ms", 1))
		s.wantAsleep(1)
		if n := s.awaitSleep(); n != started {
			t.Errorf("%d processes were started", n-started)
		}
	})
}
