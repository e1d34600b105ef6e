package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// startTimeout is how long a contender may take until it answers as wanted.
const startTimeout = 30 * time.Second

// stage holds the servers for lists of one length. They are started when the
// first contender needs them.
type stage struct {
	folder    string
	core      int // of what is measured; everything else stays with the load
	tools     int
	list      []byte              // the members of the result
	processes map[string]*process // by their role
	addrs     map[string]string   // of sites, by role and block
}

func newStage(tools, core int) (*stage, error) {
	folder, err := os.MkdirTemp("", "mcp-cache-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	made := makeTools(tools, 1)
	s := &stage{folder: folder, core: core, tools: tools, list: toolList(made), processes: make(map[string]*process), addrs: make(map[string]string)}
	content, err := json.Marshal(made)
	if err == nil {
		err = os.WriteFile(s.file("tools.json"), content, 0o600)
	}
	if err == nil {
		err = os.WriteFile(s.file("body.json"), []byte(s.body()), 0o600)
	}
	return s, err
}

func (s *stage) file(name string) string { return filepath.Join(s.folder, name) }

// body is what the handlers of ready bytes answer with: what a hit is, for one
// id.
func (s *stage) body() string {
	return `{"jsonrpc":"2.0","id":` + firstID + `,"result":{` + string(s.list) + `}}`
}

// close ends all servers.
func (s *stage) close() {
	for _, p := range s.processes {
		p.stop()
	}
	_ = os.RemoveAll(s.folder) // what is left is in the system's temporary folder
}

// process returns the server of a role, which starts if it is not there yet.
func (s *stage) process(ctx context.Context, role string) (*process, error) {
	if p := s.processes[role]; p != nil {
		return p, nil
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	var p *process
	switch tools := s.file("tools.json"); role {
	case caddyRole, metricsRole, fleetRole:
		if err = s.writeCaddyfile(ctx, role); err == nil {
			p, err = start(ctx, addr, self, caddyRole, addr, s.file(role))
		}
	case typeScriptRole:
		p, err = startTypeScript(ctx, addr, tools)
	case fastMCPRole, fastMCPCachingRole:
		var upstream *process
		if upstream, err = s.process(ctx, upstreamRole); err == nil {
			p, err = startFastMCP(ctx, addr, upstream.addr, role == fastMCPCachingRole)
		}
	case fastMCPServerRole:
		p, err = startFastMCPServer(ctx, addr, tools)
	case redisRole:
		p, err = startRedis(ctx, addr)
	case changingRole:
		p, err = start(ctx, addr, self, upstreamRole, addr, tools, "100ms")
	default:
		p, err = start(ctx, addr, self, role, addr, tools)
	}
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", role, err)
	}
	s.processes[role] = p
	if role == redisRole {
		return p, nil
	}
	_, err = p.usage() // it answers when it is there
	if err == nil && role != upstreamRole && role != changingRole {
		err = pin(p.cmd.Process.Pid, s.core)
	}
	return p, err
}

// writeCaddyfile writes a Caddyfile with all sites. One Caddy has all of them,
// so that garbage is collected equally often for each.
func (s *stage) writeCaddyfile(ctx context.Context, role string) error {
	words := []string{"BODY", s.file("body.json"), "TEXT", s.body()}
	others := map[string]string{"UPSTREAM": upstreamRole, "CHANGING": changingRole}
	if role == fleetRole {
		others["REDIS"] = redisRole
	}
	for name, upstream := range others {
		p, err := s.process(ctx, upstream)
		if err != nil {
			return err
		}
		words = append(words, name, p.addr)
	}
	more := ""
	if role == metricsRole {
		more = "\tmetrics\n"
	}
	file := caddyfile(s.file("storage-"+role), more)
	for _, c := range contenders {
		if c.role == role && s.addrs[role+c.site] == "" {
			addr, err := freeAddr()
			if err != nil {
				return err
			}
			s.addrs[role+c.site] = addr
			file = append(file, site(addr, strings.NewReplacer(words...).Replace(c.site))...)
		}
	}
	return os.WriteFile(s.file(role), file, 0o600)
}

// target is a contender that is there.
type target struct {
	contender

	process *process
	addr    string
	request *request
	tools   int
}

// set makes a target of a contender: its answers must be as wanted.
func (s *stage) set(ctx context.Context, c contender) (*target, error) {
	p, err := s.process(ctx, c.role)
	if err != nil {
		return nil, err
	}
	t := &target{contender: c, process: p, addr: p.addr, tools: s.tools}
	if c.site != "" {
		t.addr = s.addrs[c.role+c.site]
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		session, err := openSession(ctx, t.addr)
		if err == nil {
			t.request = t.newRequest(session)
			_, err = ask(ctx, t.request) // then the server has accepted the session
		}
		if err == nil {
			err = t.verify(ctx)
		}
		if err == nil && c.role == fleetRole {
			err = verifyRedis(ctx, s.processes[redisRole].addr)
		}
		if err == nil {
			return t, nil
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (t *target) newRequest(session string) *request {
	if t.call != "" {
		// A session of its own: for a moment after a call, its caller's lists are
		// the server's.
		return newRequest(t.addr, session+"-calls", "tools/call",
			`"name":"`+t.call+`","arguments":{"text":"`+strings.Repeat("x", t.size)+`"}`)
	}
	r := newRequest(t.addr, session, "tools/list", "")
	if t.encoding != "" {
		r.header["Accept-Encoding"] = []string{t.encoding}
	}
	return r
}

// verify asks once and returns an error unless the answer is what the contender
// stands for.
func (t *target) verify(ctx context.Context) error {
	a, err := ask(ctx, t.request)
	if err != nil {
		return err
	}
	if t.call != "" {
		if !bytes.Contains(a.body, []byte("done")) {
			return fmt.Errorf("call was answered with %.200q", a.body)
		}
		return nil
	}
	if n := bytes.Count(a.body, []byte(`"inputSchema":`)); n != t.tools {
		return fmt.Errorf("list has %d tools instead of %d", n, t.tools)
	}
	if encoding := a.header.Get("Content-Encoding"); encoding != t.encoding {
		return fmt.Errorf("answer is encoded with %q instead of %q", encoding, t.encoding)
	}
	if t.hit && !strings.Contains(a.header.Get("Cache-Status"), "; hit") {
		return errors.New("answer is no hit but " + a.header.Get("Cache-Status"))
	}
	return nil
}
