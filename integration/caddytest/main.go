// Package caddytest runs tests in front of and behind a real Caddy. [Main] starts the
// Caddy of a test process, and several processes share the tests of a package.
//
// A test starts with one of these. [NewWorld] starts a server behind a site of that Caddy,
// and the test decides about every byte of the server. [StartProxy] starts a site for any
// server. [NewMember] and [ToolkitOf] are for several servers behind one endpoint.
// [StartProcess] starts another Caddy, in a process of its own.
package caddytest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/programtest"
)

var long = flag.Bool("long", false, "run the full numbers: rounds, sessions, reloads, seconds")

// Long reports whether the tests are to run as long as the promises are stated for.
func Long() bool { return *long }

// Pick returns how often a test does something: less often unless [Long].
func Pick(usual, full int) int {
	if *long {
		return full
	}
	return usual
}

// Main runs the tests of a package, as its TestMain. It does not return. Where a test has
// started its own program as a Caddy, as a program on standard input and output, or as a
// server of an SDK, this process is that instead.
func Main(m *testing.M) {
	if os.Getenv(AsCaddy) != "" {
		caddycmd.Main()
		os.Exit(0)
	}
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
