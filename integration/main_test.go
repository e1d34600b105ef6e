// Package integration tests the mcp_cache handler in a real Caddy, in front of
// real MCP servers, with real MCP clients.
package integration

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/programtest"
)

// long makes the tests run as long as the promises are stated for.
var long = flag.Bool("long", false, "run the full numbers: rounds, sessions, reloads, seconds")

// pick returns how often something is done: a little by default.
func pick(usual, full int) int {
	if *long {
		return full
	}
	return usual
}

func TestMain(m *testing.M) {
	programtest.Main()
	fixture.MainProgram()
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if flagValue("test.list") != "" {
		return m.Run(), nil
	}
	if n := sharers(); n > 1 {
		return 0, runShared(n)
	}
	return runCaddy(m)
}

// runCaddy runs the tests around one Caddy, which is the process's own: its
// admin endpoint and its configuration are global. What they leave behind is
// an error.
func runCaddy(m *testing.M) (code int, err error) {
	home, err := os.MkdirTemp("", "mcp-cache-integration-")
	if err != nil {
		return 1, fmt.Errorf("making Caddy's directory: %w", err)
	}
	defer os.RemoveAll(home)
	// Nothing of the machine's own Caddy may be read or written.
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		if err := os.Setenv(name, home); err != nil {
			return 1, fmt.Errorf("moving Caddy's directory: %w", err)
		}
	}
	// In its first start of all, Caddy may write its name twice, and read what is half written.
	if _, err := caddy.InstanceID(); err != nil {
		return 1, fmt.Errorf("naming this Caddy: %w", err)
	}
	before := goroutines()
	if err := startCaddy(home); err != nil {
		return 1, fmt.Errorf("starting Caddy: %w", err)
	}
	code = m.Run()
	if err := stopCaddy(); err != nil {
		return 1, fmt.Errorf("stopping Caddy: %w", err)
	}
	if left := awaitGoroutines(before); len(left) > 0 {
		return 1, fmt.Errorf("%d goroutines are left, such as:\n\n%s", len(left), left[0])
	}
	return code, nil
}
