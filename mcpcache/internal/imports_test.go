// Package internal_test tests the order of the packages: which package may import which, and which
// may reach Caddy.
package internal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/caddy-mcp/mcp-cache/"
	rooms  = module + "mcpcache/internal/"
	caddy  = "github.com/caddyserver/caddy"
)

// floors are the packages of this folder, from the ground up. A package imports
// only packages of floors below its own. A new package gets its place here.
var floors = [][]string{
	// One job each, needing nobody.
	{"revision", "sse", "encoded/splice", "qvalue", "redact", "budget", "terminal", "header", "origin", "emptylist", "flight", "announce", "secret", "secretfile", "nearest", "outage", "process", "instance", "warnings", "pace", "version", "exit"},
	// What guests are given in a Caddyfile.
	{"options", "placeholder"},
	// What two rooms agree on, without knowing each other: our client and the
	// transport; those whose requests may be sent elsewhere; what is sealed and what is kept
	// of it by callers.
	{"requesthint", "redirect", "seal"},
	// The errors of the protocol; what has become of a request.
	{"jsonrpc", "outcome"},
	// The protocol's bytes; what is known of compressed bodies; the one way out
	// through Caddy; cursors of our own.
	{"message", "encoded", "upstream", "cursor"},
	// What a client asks, as far as it has been read.
	{"inbound"},
	// Entries and their epochs; how we speak with an upstream; what of its answers a
	// client is given; programs as servers.
	{"cache", "client", "responsefilter", "program"},
	// The site that a request has come to; the bytes of answers from memory.
	{"site", "reply"},
	// The page of people.
	{"landing"},
	// What is known of who asks, of clients that may be shown different lists, of
	// clients that were let in, of what callers may see; the form in which snapshots are
	// stored; header fields by which no caller is known again; who may be given a stale copy.
	{"identity", "variant", "admission", "policy", "snapshot", "volatileheaders", "freshness"},
	// When to fetch; what outlives the process; what instances that share it tell each other.
	{"feed", "persist", "fleet"},
	// Everything of one upstream.
	{"backend"},
	// The list that a caller sees, and who is told of its changes; sessions and eras on both
	// sides.
	{"catalog", "notices", "session", "bridge", "callerlists"},
	// The two ways of a request: to one server, and to several. Neither knows the other.
	{"exchange", "toolkit"},
	// What operators see of all that.
	{"report"},
	// What is counted, traced and told of it; the configuration of the handler that reaches a server;
	// the rules of a configuration.
	{"telemetry", "upstreamconfig", "ruleset"},
	// A live handler, as operators see it.
	{"reported"},
	// What only commands use: a server to try, and the check of one.
	{"demo", "probe"},
}

// throughCaddy are those that may reach Caddy; all others know nothing of it.
var throughCaddy = []string{"instance", "upstream", "options", "placeholder", "site", "landing", "backend", "exchange", "toolkit", "telemetry", "exit", "upstreamconfig", "ruleset", "reported"}

// contracts are the packages above this folder that its packages may import: they
// say what guests are.
var contracts = []string{"mcpcache/guards", "mcpcache/stores"}

// imported is what a package imports without its tests.
type imported struct {
	directly []string
	at       []string // all, however far away
}

// packages returns the packages of this folder by their names, such as "cache".
func packages(t *testing.T) map[string]imported {
	t.Helper()
	readSources(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.ImportPath}}|{{join .Imports " "}}|{{join .Deps " "}}`, "./...").Output()
	if err != nil {
		t.Fatalf("listing the packages: %v", err)
	}
	all := make(map[string]imported)
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		name, ours := strings.CutPrefix(fields[0], rooms)
		if !ours { // the folder itself, which has this test alone
			continue
		}
		all[name] = imported{directly: strings.Fields(fields[1]), at: strings.Fields(fields[2])}
	}
	if len(all) < 10 {
		t.Fatalf("only %d packages were found", len(all))
	}
	return all
}

// readSources reads the code that is looked at, so that go test takes no result
// from before a change of it.
func readSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatalf("reading the code: %v", err)
	}
}

// floorOf returns the number of a package's floor, -1 if it has none.
func floorOf(name string) int {
	return slices.IndexFunc(floors, func(floor []string) bool { return slices.Contains(floor, name) })
}

// isForTests reports whether a package is there for the tests of others.
func isForTests(name string) bool { return strings.HasSuffix(name, "test") }

// Imports point down: from the floors of this list to lower ones, and never out of
// this folder but to what says what a guest is.
func TestImportsPointDown(t *testing.T) {
	for name, p := range packages(t) {
		if isForTests(name) {
			continue
		}
		own := floorOf(name)
		if own < 0 {
			t.Errorf("package %s has no floor yet: give it one above", name)
			continue
		}
		for _, path := range p.directly {
			other, inside := strings.CutPrefix(path, rooms)
			outside, ours := strings.CutPrefix(path, module)
			switch {
			case inside && isForTests(other):
				t.Errorf("package %s needs %s, which is for tests", name, other)
			case inside && floorOf(other) >= own:
				t.Errorf("package %s imports %s, which is not below it", name, other)
			case !inside && ours && !slices.Contains(contracts, outside):
				t.Errorf("package %s imports %s, which is above all of this folder", name, outside)
			}
		}
	}
}

// What is not said to reach Caddy does not, however indirectly: it can be
// understood, tested and used without.
func TestWhoReachesCaddy(t *testing.T) {
	for name, p := range packages(t) {
		if isForTests(name) || slices.Contains(throughCaddy, name) {
			continue
		}
		for _, path := range p.at {
			if path == caddy || strings.HasPrefix(path, caddy+"/") {
				t.Errorf("package %s reaches %s", name, path)
				break
			}
		}
	}
}

// A Caddy has the store that needs Redis if somebody builds it in, and not otherwise.
func TestRedisIsLeftOut(t *testing.T) {
	readSources(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", strings.TrimSuffix(module, "/")).Output()
	if err != nil {
		t.Fatalf("listing what the module needs: %v", err)
	}
	if text := string(out); !strings.Contains(text, module+"mcpcache/stores/off") || strings.Contains(text, "redis") {
		t.Errorf("the root package needs\n%s", text)
	}
}

// What says what guests are knows nothing of Caddy, nor of the guests.
func TestContractsReachNobody(t *testing.T) {
	readSources(t)
	for _, name := range contracts {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+name).Output()
		if err != nil {
			t.Fatalf("listing what %s needs: %v", name, err)
		}
		for line := range strings.Lines(string(out)) {
			path := strings.TrimSpace(line)
			if strings.HasPrefix(path, caddy) || strings.HasPrefix(path, module) && path != module+name {
				t.Errorf("%s needs %s", name, path)
			}
		}
	}
}
