package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// stage holds the servers for lists of one length. They are started when the
// first contender needs them.
type stage struct {
	options *options
	cores   cores
	folder  string
	ports   *ports
	tools   int

	list      []byte // the members of the result
	processes map[string]*process
	caddies   map[string]*caddyProcess
	failed    map[string]error
}

// missingError says why a contender cannot be measured here.
type missingError struct{ reason string }

// Error implements [error].
func (e *missingError) Error() string { return e.reason }

func newStage(o *options, c cores, p *ports, tools int) (*stage, error) {
	folder, err := os.MkdirTemp("", "mcp-cache-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	s := &stage{
		options: o, cores: c, folder: folder, ports: p, tools: tools,
		processes: make(map[string]*process), caddies: make(map[string]*caddyProcess),
		failed: make(map[string]error),
	}
	made := makeTools(tools, 1)
	s.list = toolList(made)
	if err := os.WriteFile(s.toolsFile(), encodeTools(made), 0o600); err != nil {
		s.close()
		return nil, fmt.Errorf("writing tools: %w", err)
	}
	return s, nil
}

func (s *stage) toolsFile() string { return filepath.Join(s.folder, "tools.json") }

// close ends all servers.
func (s *stage) close() {
	for _, p := range s.processes {
		p.stop()
	}
	_ = os.RemoveAll(s.folder) // what is left is in the system's temporary folder
}

// server starts a server in a role, once for each name, and returns its process
// and address.
func (s *stage) server(ctx context.Context, name, role string, core int) (*process, string, error) {
	return s.once(name, func(addr string) (*process, error) {
		return start(ctx, core, role, addr, s.toolsFile())
	})
}

// once starts a process if it is not there yet, and waits for one of ours until
// it serves. What has failed once is not tried again.
func (s *stage) once(name string, start func(addr string) (*process, error)) (*process, string, error) {
	if p := s.processes[name]; p != nil {
		return p, p.addr, nil
	}
	if err := s.failed[name]; err != nil {
		return nil, "", err
	}
	p, err := s.launch(name, start)
	if err != nil {
		s.failed[name] = err
		return nil, "", err
	}
	return p, p.addr, nil
}

func (s *stage) launch(name string, start func(addr string) (*process, error)) (*process, error) {
	addr, err := s.ports.free()
	if err != nil {
		return nil, err
	}
	p, err := start(addr)
	if err != nil {
		return nil, err
	}
	p.addr = addr
	s.processes[name] = p
	if p.client == nil {
		return p, nil
	}
	if _, err := p.stats(context.Background()); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// upstream starts the upstream that does not change.
func (s *stage) upstream(ctx context.Context) (*process, string, error) {
	return s.server(ctx, "upstream", "upstream", s.cores.upstream)
}

// body is what the handlers of ready bytes answer with: what a hit is, for one
// id.
func (s *stage) body() string {
	list := string(s.list)
	if s.options.revision == modern {
		list = `"resultType":"complete",` + hints + "," + list
	}
	return `{"jsonrpc":"2.0","id":` + firstID + `,"result":{` + list + `}}`
}

// session opens a session as the revision demands and returns who has it.
func (s *stage) session(ctx context.Context, addr string) (caller, error) {
	c := caller{revision: s.options.revision}
	if c.revision == modern {
		return c, nil
	}
	opening := c.request(addr, "initialize", "",
		`"protocolVersion":"`+legacy+`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}`)
	a, err := await(ctx, addr, opening, startTimeout, func(*answer) bool { return true })
	if err != nil {
		return c, fmt.Errorf("opening session: %w", err)
	}
	c.session = a.header.Get("Mcp-Session-Id")
	if _, err := ask(ctx, addr, c.request(addr, "notifications/initialized", "", "").notification()); err != nil {
		return c, fmt.Errorf("opening session: %w", err)
	}
	return c, nil
}

// listTarget makes a target of a server: its list must have all tools, and be
// as wanted.
func (s *stage) listTarget(ctx context.Context, t target, wanted func(*answer) bool, more ...string) (*target, error) {
	var from caller
	var err error
	if t.bytesOnly {
		from = caller{revision: s.options.revision, session: sessionID}
	} else if from, err = s.session(ctx, t.addr); err != nil {
		return nil, err
	}
	t.request = from.request(t.addr, "tools/list", "", "", more...)
	a, err := await(ctx, t.addr, t.request, settleTimeout, wanted)
	if err != nil {
		return nil, err
	}
	if !wanted(a) {
		return nil, &missingError{fmt.Sprintf("its answers have Cache-Status %q and Content-Encoding %q",
			a.header.Get("Cache-Status"), a.header.Get("Content-Encoding"))}
	}
	n, err := a.tools()
	if err != nil {
		return nil, err
	}
	if n != s.tools {
		return nil, fmt.Errorf("list has %d tools instead of %d", n, s.tools)
	}
	return &t, nil
}

// settleTimeout is how long a list may take until it comes as wanted: a hit,
// and compressed.
const settleTimeout = 5 * time.Second

// isMissing tells a contender that is not there from one that fails.
func isMissing(err error) (string, bool) {
	if missing, ok := errors.AsType[*missingError](err); ok {
		return missing.reason, true
	}
	return "", false
}
