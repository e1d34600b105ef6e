package programs

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// everythingProgram is the command of the reference server on standard input and output.
func everythingProgram(o caddytest.Others) []string {
	return []string{o.Node(), filepath.Join(o.Dir, "node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "stdio"}
}

const (
	echoParams = `{"name":"echo","arguments":{"message":"hi"}}`
	echoed     = "Echo: hi"
)

// BenchmarkProgramCalls has one session call a tool of the reference server, one call after another:
// through Caddy, and through bridges of others.
//
//	MCP_CLIENTS=DIR go test -run '^$' -bench ProgramCalls -benchtime 2s -count 5 ./integration/programs
func BenchmarkProgramCalls(b *testing.B) {
	o := caddytest.InstalledOthers(b)
	command := everythingProgram(o)
	upstream := caddytest.ProgramUpstream(command)
	p := caddytest.StartProxy(b, "handle_path /plain/* {\n"+upstream+"\n}\nhandle_path /cache/* {\nmcp_cache {\n"+upstream+"\n}\n}")
	site := strings.TrimSuffix(p.URL, "/mcp")
	urls := map[string]string{"reverse_proxy": site + "/plain/mcp", "mcp_cache": site + "/cache/mcp"}
	for bridge, commandAt := range map[string]func(addr string) []string{
		"supergateway": func(addr string) []string { return supergateway(o, "4", addr, command...) },
		"mcp-proxy":    func(addr string) []string { return mcpProxy(o, addr, command...) },
	} {
		addr := fixture.FreeAddr(b)
		caddytest.StartOther(b, addr, commandAt(addr)...)
		urls[bridge] = "http://" + addr + "/mcp"
	}
	for _, name := range []string{"mcp_cache", "reverse_proxy", "supergateway", "mcp-proxy"} {
		b.Run(name, func(b *testing.B) {
			c := fixture.NewLegacy(b, urls[name], scripted.LatestLegacy, "")
			c.Call("tools/call", echoParams)
			for b.Loop() {
				if a := c.Call("tools/call", echoParams); !strings.Contains(string(a.Message()), echoed) {
					b.Fatalf("the call is answered %s", a)
				}
			}
		})
	}
}

// BenchmarkProgramStarts has a session call a tool of the reference server that sleeps, and compares
// that with a client of its own that starts it and calls the tool.
//
//	MCP_CLIENTS=DIR go test -run '^$' -bench ProgramStarts -benchtime 10x -count 5 ./integration/programs
func BenchmarkProgramStarts(b *testing.B) {
	command := everythingProgram(caddytest.InstalledOthers(b))
	b.Run("asleep", func(b *testing.B) {
		p := caddytest.StartProxy(b, "mcp_cache {\n"+caddytest.ProgramUpstream(command, "idle 100ms")+"\n}")
		caddytest.AwaitReady(b, "mcp_cache")
		c := fixture.NewLegacy(b, p.URL, scripted.LatestLegacy, "")
		for range b.N {
			b.StopTimer()
			fixture.Await(b, "the program sleeps", func() bool {
				return caddytest.Metric(b, `program_processes{handler="mcp_cache"}`) == 0
			})
			b.StartTimer()
			if a := c.Call("tools/call", echoParams); !strings.Contains(string(a.Message()), echoed) {
				b.Fatalf("the call is answered %s", a)
			}
		}
	})
	b.Run("started by its client", func(b *testing.B) {
		for b.Loop() {
			startAndCall(b, command)
		}
	})
}

// startAndCall starts a program as a client does, calls a tool, and stops it.
func startAndCall(b *testing.B, command []string) {
	b.Helper()
	run := exec.CommandContext(b.Context(), command[0], command[1:]...)
	in, err := run.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := run.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := run.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewReader(out)
	ask := func(id, request string) string {
		if _, err := fmt.Fprintln(in, request); err != nil {
			b.Fatal(err)
		}
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			if strings.Contains(line, `"id":`+id) {
				return line
			}
		}
	}
	ask("1", caddytest.ProgramHello)
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		b.Fatal(err)
	}
	if line := ask("2", fixture.Message("2", "tools/call", echoParams)); !strings.Contains(line, echoed) {
		b.Fatalf("the call is answered %s", line)
	}
	b.StopTimer()
	_ = run.Process.Kill()
	_ = run.Wait()
	b.StartTimer()
}
