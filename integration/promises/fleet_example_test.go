package promises

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/redistest"
)

const exampleFolder = "../../examples/cluster"

// exampleCommand is a Caddy that the example's page starts.
var exampleCommand = regexp.MustCompile(`(?m)^((?:[A-Z]+=\S+ )*)caddy run --config Caddyfile$`)

var cacheStatusLine = regexp.MustCompile(`(?mi)^Cache-Status: (.*)$`)

// clusterExample is the example of two Caddys, at addresses that are free.
type clusterExample struct {
	t      *testing.T
	redis  *redistest.Server
	config string   // its Caddyfile
	blocks []string // of commands, on its page
	starts [][]string
	addrs  [2]struct{ site, admin string }
}

// newClusterExample reads the example, in front of the server at that address.
func newClusterExample(t *testing.T, server string) *clusterExample {
	t.Helper()
	x := &clusterExample{t: t, redis: redistest.Start(t), config: filepath.Join(t.TempDir(), "Caddyfile")}
	moves := []string{"127.0.0.1:3001", server, "127.0.0.1:6379", x.redis.Addr}
	for n := range x.addrs {
		a := &x.addrs[n]
		a.site, a.admin = fixture.FreeAddr(t), fixture.FreeAddr(t)
		_, port, _ := strings.Cut(a.site, ":")
		moves = append(moves, fmt.Sprint(8080+n), port, fmt.Sprint("localhost:", 2019+n), a.admin)
	}
	moved := strings.NewReplacer(moves...)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(exampleFolder, name))
		if err != nil {
			t.Fatal(err)
		}
		return moved.Replace(string(text))
	}
	if err := os.WriteFile(x.config, []byte(read("Caddyfile")), 0o600); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(page, []byte(read("README.md")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, block := range caddytest.CodeBlocks(t, page) {
		x.blocks = append(x.blocks, block.Text)
		for _, match := range exampleCommand.FindAllStringSubmatch(block.Text, -1) {
			x.starts = append(x.starts, strings.Fields(match[1]))
		}
	}
	if len(x.starts) != len(x.addrs) {
		t.Fatalf("the page starts %d Caddys, want %d", len(x.starts), len(x.addrs))
	}
	return x
}

// start starts one of the two as the page says, and waits until it shares.
func (x *clusterExample) start(n int) *instance {
	x.t.Helper()
	i := &instance{Process: caddytest.StartProcess(x.t, x.starts[n], "run", "--config", x.config), t: x.t, URL: "http://" + x.addrs[n].site + "/mcp", admin: x.addrs[n].admin}
	fixture.Await(x.t, "a Caddy of the example", func() bool { return strings.Contains(i.Complaints(), "serving initial configuration") })
	i.awaitFleet("together")
	return i
}

// curled is an answer that curl has printed.
type curled struct {
	hit   bool
	tools []string // their names
	whole string
}

// curl runs the command of the page that has that text.
func (x *clusterExample) curl(text string) (answers []curled) {
	x.t.Helper()
	n := slices.IndexFunc(x.blocks, func(block string) bool { return strings.HasPrefix(block, "curl ") && strings.Contains(block, text) })
	if n < 0 {
		x.t.Fatalf("no curl of the page has %s", text)
	}
	out, err := exec.CommandContext(x.t.Context(), "bash", "-c", x.blocks[n]).CombinedOutput()
	if err != nil {
		x.t.Fatalf("%s gave %v: %s", x.blocks[n], err, out)
	}
	for _, whole := range strings.Split(string(out), "HTTP/1.1 ")[1:] {
		a := curled{whole: whole}
		if said := cacheStatusLine.FindAllStringSubmatch(whole, -1); len(said) > 0 {
			a.hit = strings.HasPrefix(said[len(said)-1][1], "mcp_cache; hit") // the demo's own cache comes before
		}
		var body struct {
			Result struct{ Tools []struct{ Name string } }
		}
		_, text, _ := strings.Cut(whole, "\r\n\r\n")
		if err := json.NewDecoder(strings.NewReader(text)).Decode(&body); err != nil || !strings.HasPrefix(whole, "200 ") {
			x.t.Fatalf("curl has printed %s", whole)
		}
		for _, tool := range body.Result.Tools {
			a.tools = append(a.tools, tool.Name)
		}
		answers = append(answers, a)
	}
	return answers
}

// awaitHits asks both with the page's curl until each answers from memory, and the tools,
// which it returns, are the same.
func (x *clusterExample) awaitHits(when string) (tools []string) {
	x.t.Helper()
	fixture.Await(x.t, "hits of the same list at both "+when, func() bool {
		all := x.curl("tools/list")
		tools = all[0].tools
		return len(all) == len(x.addrs) && all[0].hit && all[1].hit && slices.Equal(tools, all[1].tools)
	})
	return tools
}

// toggle has the demo change its tools as the page says, and waits until a client of either
// is told of it. Whoever is asked then has the new ones.
func (x *clusterExample) toggle(told *fixture.Stream, want bool) {
	x.t.Helper()
	if all := x.curl("toggle_tool"); len(all) != 1 {
		x.t.Fatalf("changing the tools gave %+v", all)
	}
	told.Await("notifications/tools/list_changed")
	for _, a := range x.curl("tools/list") {
		if slices.Contains(a.tools, "extra") != want {
			x.t.Errorf("after a client was told of a change, curl has printed %s", a.whole)
		}
	}
	if slices.Contains(x.awaitHits("after a change"), "extra") != want {
		x.t.Errorf("hits after a change have the tool extra: %v", !want)
	}
}

// TestFleetExample does with the example what its page says, in front of the demo, and looks
// for what it says to expect.
func TestFleetExample(t *testing.T) {
	server := fixture.FreeAddr(t)
	x := newClusterExample(t, server)
	first, second := x.start(0), x.start(1)
	first.awaitMembers(first.status().Fleet.Name, second.status().Fleet.Name)
	demo := x.startDemo(server)
	x.awaitHits("at the beginning")
	toldByFirst, toldBySecond := fixture.NewModern(t, first.URL, "").Listen(), fixture.NewModern(t, second.URL, "").Listen()
	x.toggle(toldBySecond, true)
	toldByFirst.Await("notifications/tools/list_changed")
	x.toggle(toldByFirst, false)

	lists := len(first.status().Kinds)
	fixture.Await(t, "the lists in Redis", func() bool { return x.redis.Do("DBSIZE") == fmt.Sprint(lists+1) }) // and the members
	x.kill(second.Process, x.addrs[1].site)
	x.kill(demo, server)
	second = x.start(1)
	fixture.Await(t, "all lists at one that starts", func() bool { s := second.status(); return s != nil && len(s.Kinds) == lists })
	list, complaint, code := caddytest.Run(t, "mcp-cache", "list", "tools", "--address", second.admin)
	if code != 0 || !strings.Contains(list, "toggle_tool") {
		t.Errorf("one that starts while the server is down has %d, %s%s", code, list, complaint)
	}
	x.startDemo(server)
	x.awaitHits("after the server is back")

	x.redis.Kill()
	x.awaitHits("without Redis")
	first.awaitFleet("away")
	second.awaitFleet("away")
	x.awaitHits("when it is known to be away")
	x.curl("toggle_tool")
	fixture.Await(t, "the change to be at both", func() bool {
		return !slices.ContainsFunc(x.curl("tools/list"), func(a curled) bool { return !slices.Contains(a.tools, "extra") })
	})
	x.redis.Start()
	first.awaitFleet("together")
	second.awaitFleet("together")
	x.awaitHits("with Redis again")
}

// startDemo starts the demo at that address, as the page says, and waits until it serves.
func (x *clusterExample) startDemo(addr string) *caddytest.Process {
	x.t.Helper()
	command := "caddy mcp-cache serve --from " + addr
	if !slices.ContainsFunc(x.blocks, func(block string) bool { return strings.TrimSpace(block) == command }) {
		x.t.Fatalf("the page does not say %s", command)
	}
	demo := caddytest.StartProcess(x.t, nil, strings.Fields(command)[1:]...)
	demo.AwaitLine(x.t, "Cached at ")
	return demo
}

// kill ends a process that listens there.
func (x *clusterExample) kill(p *caddytest.Process, addr string) {
	x.t.Helper()
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		x.t.Fatal(err)
	}
	fixture.Await(x.t, "its port to be free", func() bool {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			err = l.Close()
		}
		return err == nil
	})
}
