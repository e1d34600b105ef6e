package stdio

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/program"
)

// A program gets what every program needs of Caddy's environment, and what it is given: nothing
// else.
func TestEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"PATH": "/bin", "LC_TIME": "C", "CADDYS_SECRET": "s3cret", "NAMED": "named", "TOKEN": "t0ken", "LANG": "C",
	} {
		t.Setenv(name, value)
	}
	c, err := (&Transport{
		Command: "{env.NAMED}", Args: []string{"{env.TOKEN}", `{"a":1}`}, Dir: "/{env.NAMED}",
		Env: map[string]string{"KEY": "Bearer {env.TOKEN}", "LANG": "de"}, PassEnv: []string{"NAMED", "ABSENT"},
	}).render()
	if err != nil {
		t.Fatal(err)
	}
	if c.Path != "named" || c.Dir != "/named" || !slices.Equal(c.Args, []string{"t0ken", `{"a":1}`}) {
		t.Errorf("%s is run in %s with %q", c.Path, c.Dir, c.Args)
	}
	for _, want := range []string{"PATH=/bin", "LC_TIME=C", "NAMED=named", "KEY=Bearer t0ken", "LANG=de"} {
		if !slices.Contains(c.Env, want) {
			t.Errorf("%s is missing in %q", want, c.Env)
		}
	}
	for _, variable := range c.Env {
		if name, _, _ := strings.Cut(variable, "="); slices.Contains([]string{"CADDYS_SECRET", "TOKEN", "ABSENT"}, name) {
			t.Errorf("a program gets %s", variable)
		}
	}
}

// A placeholder without a value would have a program run with another argument than was meant.
func TestPlaceholdersWithoutAValue(t *testing.T) {
	t.Setenv("EMPTY", "")
	for want, transport := range map[string]*Transport{
		"command: ": {Command: "{env.EMPTY}"},
		"args: ":    {Command: "sh", Args: []string{"{env.EMPTY}"}},
		"dir: ":     {Command: "sh", Dir: "{env.EMPTY}"},
		"env KEY: ": {Command: "sh", Env: map[string]string{"KEY": "{file./absent}"}},
	} {
		if _, err := transport.render(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// Who a program acts for is in its values: with others it is another program, and has other lists.
func TestIdentities(t *testing.T) {
	t.Setenv("ACCOUNT", "alice")
	t.Setenv("LANG", "C")
	transports := []*Transport{
		{Command: "x"}, {Command: "x", Args: []string{"{env.ACCOUNT}"}}, {Command: "x", Env: map[string]string{"A": "{env.ACCOUNT}"}},
		{Command: "x", PassEnv: []string{"ACCOUNT"}}, {Command: "x", Dir: "/{env.ACCOUNT}"},
	}
	seen := make(map[string]bool)
	note := func() {
		for _, transport := range transports {
			seen[string(transport.Identity())] = true
		}
	}
	note()
	t.Setenv("LANG", "de") // which every program has
	note()
	if len(seen) != len(transports) || seen[""] {
		t.Fatalf("%d transports have %d identities", len(transports), len(seen))
	}
	t.Setenv("ACCOUNT", "bob")
	note()
	if want := 2*len(transports) - 1; len(seen) != want { // the first one has no values
		t.Errorf("there are %d identities, want %d", len(seen), want)
	}
	t.Setenv("ACCOUNT", "")
	if transports[1].Identity() != nil {
		t.Error("what cannot be run has an identity")
	}
}

// What has a reload keep a program is what it is run as, and none of its values can be read in it.
func TestKeys(t *testing.T) {
	same := Transport{Command: "sh", Env: map[string]string{"KEY": "s3cret"}}
	key, err := same.key()
	if err != nil || strings.Contains(key, "s3cret") {
		t.Fatalf("%s, %v", key, err)
	}
	same.Idle, same.Max = caddy.Duration(time.Hour), 7
	if again, _ := same.key(); again != key {
		t.Error("limits make it another program")
	}
	for name, other := range map[string]*Transport{
		"command":  {Command: "bash", Env: same.Env},
		"args":     {Command: "sh", Env: same.Env, Args: []string{"-c"}},
		"env":      {Command: "sh", Env: map[string]string{"KEY": "other"}},
		"pass_env": {Command: "sh", Env: same.Env, PassEnv: []string{"KEY"}},
		"dir":      {Command: "sh", Env: same.Env, Dir: "/"},
		"user":     {Command: "sh", Env: same.Env, User: "root"},
		"share":    {Command: "sh", Env: same.Env, Share: true},
		"era":      {Command: "sh", Env: same.Env, Era: "modern"},
	} {
		if got, _ := other.key(); got == key {
			t.Errorf("another %s is the same program", name)
		}
	}
}

func TestLimits(t *testing.T) {
	want := program.Limits{StartTimeout: 2 * time.Minute, Idle: 5 * time.Minute, StopGrace: 2 * time.Second, Max: 32, Memory: 64 << 20, Lazy: true}
	if got := (&Transport{}).limits(); got != want {
		t.Errorf("without options: %+v", got)
	}
	second := caddy.Duration(time.Second)
	want = program.Limits{StartTimeout: time.Second, StopGrace: time.Second, Max: 1, Memory: 1 << 20}
	if got := (&Transport{StartTimeout: second, Idle: -1, StopGrace: second, Max: 1, Memory: 1 << 20, Lazy: new(bool)}).limits(); got != want {
		t.Errorf("with all of them: %+v", got)
	}
}

// Operators are shown the command as it is configured, not the values of its placeholders.
func TestCommandAsShown(t *testing.T) {
	t.Setenv("MCP_CACHE_TEST_TOKEN", "s3cret")
	for want, shown := range map[string]*Transport{
		"stdio npx -y server": {Command: "npx", Args: []string{"-y", "server"}},
		`stdio "/my programs/server" "a \"b\"" "" {env.MCP_CACHE_TEST_TOKEN}`: {
			Command: "/my programs/server", Args: []string{`a "b"`, "", "{env.MCP_CACHE_TEST_TOKEN}"}, Env: map[string]string{"TOKEN": "s3cret"},
		},
	} {
		if got := shown.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
