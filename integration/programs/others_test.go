package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
)

// step is one of what clients do with a program, see clients/programs.py.
type step struct {
	List      bool           `json:"list,omitempty"`
	Tool      string         `json:"tool,omitempty"`
	Arguments map[string]any `json:"arguments,omitempty"`
	Cancel    bool           `json:"cancel,omitempty"`
	Until     string         `json:"until,omitempty"`
}

type otherProgram struct {
	command []string
	steps   []step
}

// stepsOf returns those of a client. The first SDK of Python tells nobody that a call is cancelled.
func (p *otherProgram) stepsOf(client string) (steps []step) {
	for _, s := range p.steps {
		if client != "python 1" || !s.Cancel && s.Until == "" {
			steps = append(steps, s)
		}
	}
	return steps
}

// otherPrograms are programs that others wrote, and what clients do with them. The list comes
// last: the reference server has tools that depend on the client, once it knows that.
func otherPrograms(o caddytest.Others, t *testing.T) map[string]otherProgram {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	module := func(name string) string {
		return filepath.Join(o.Dir, "node_modules/@modelcontextprotocol", name, "dist/index.js")
	}
	const long = "trigger-long-running-operation"
	return map[string]otherProgram{
		"server-everything": {everythingProgram(o), []step{
			{Tool: "echo", Arguments: map[string]any{"message": "hi"}},
			{Tool: long, Arguments: map[string]any{"duration": 1, "steps": 3}},
			{Tool: "trigger-sampling-request", Arguments: map[string]any{"prompt": "hi", "maxTokens": 10}},
			{Tool: long, Arguments: map[string]any{"duration": 100, "steps": 1000}, Cancel: true},
			{Tool: "echo", Arguments: map[string]any{"message": "again"}},
			{List: true},
		}},
		"server-filesystem": {[]string{o.Node(), module("server-filesystem"), dir}, []step{
			{Tool: "read_text_file", Arguments: map[string]any{"path": filepath.Join(dir, "file")}}, {List: true},
		}},
		"FastMCP": {o.Python("fastmcp", "cancelled.py"), []step{
			{Tool: "slow"}, {Tool: "wait", Cancel: true}, {Tool: "heard", Until: "1"}, {List: true},
		}},
	}
}

// TestProgramsOfOthers has clients of others use programs of others over their own transport,
// through Caddy, and through the cache: what comes of it is the same.
func TestProgramsOfOthers(t *testing.T) {
	o := caddytest.InstalledOthers(t)
	typescript := []string{o.Node(), "../clients/programs.cjs", o.Dir}
	clients := map[string][]string{
		"typescript 1":    append(typescript[:3:3], "ts1"),
		"typescript 2":    append(typescript[:3:3], "ts2"),
		"python 1":        o.Python("mcp1", "programs.py", "mcp1"),
		"python 2":        o.Python("mcp2", "programs.py", "mcp2"),
		"python 2 client": o.Python("mcp2", "programs.py", "mcp2-client"),
		"fastmcp":         o.Python("fastmcp", "programs.py", "fastmcp"),
	}
	for name, program := range otherPrograms(o, t) {
		want := make(map[string]string)
		for client, command := range clients {
			want[client] = useProgram(t, command, program.stepsOf(client), program.command...)
		}
		upstream := caddytest.ProgramUpstream(program.command)
		for way, site := range map[string]string{"plain": upstream, "in front": "mcp_cache {\n" + upstream + "\n}"} {
			t.Run(name+" "+way, func(t *testing.T) {
				p := caddytest.StartProxy(t, site)
				for client, command := range clients {
					if got := useProgram(t, command, program.stepsOf(client), p.URL); got != want[client] {
						t.Errorf("%s:\n%s\nover its own transport:\n%s", client, got, want[client])
					}
				}
			})
		}
	}
}

// useProgram runs a client, and returns what it prints.
func useProgram(t *testing.T, client []string, steps []step, target ...string) string {
	t.Helper()
	plan, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), caddytest.SlowStart)
	defer cancel()
	run := exec.CommandContext(ctx, client[0], append(append(client[1:len(client):len(client)], string(plan)), target...)...)
	var said bytes.Buffer
	run.Stderr = &said
	printed, err := run.Output()
	if err != nil {
		t.Errorf("running %s with %s: %v: %.2000s", strings.Join(client, " "), target[0], err, said.String())
	}
	return string(printed)
}
