package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/metrics"
	"time"
)

// stopTimeout is how long a process may take to end.
const stopTimeout = 5 * time.Second

// usage is what a process has used so far.
type usage struct {
	CPU     time.Duration // 0 if the system does not tell
	Mallocs uint64        // objects on the heap; 0 if nobody counts
}

// serveUsage answers each line of standard input with what the process has used,
// until the parent closes it or is gone.
func serveUsage() error {
	lines, answers := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		samples := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/tiny/allocs:objects"}}
		metrics.Read(samples)
		u := usage{CPU: cpuTime(), Mallocs: samples[0].Value.Uint64() + samples[1].Value.Uint64()}
		if err := answers.Encode(u); err != nil {
			return fmt.Errorf("answering the parent: %w", err)
		}
	}
	return lines.Err()
}

// process is a server, which ends when its standard input does.
type process struct {
	addr    string
	cmd     *exec.Cmd
	lines   io.WriteCloser
	answers *json.Decoder
}

// start starts a program that is to serve at an address.
func start(ctx context.Context, addr, program string, args ...string) (*process, error) {
	p := &process{addr: addr, cmd: exec.CommandContext(ctx, program, args...)}
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	p.cmd.Stderr = os.Stderr
	p.cmd.WaitDelay = stopTimeout
	lines, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines, p.answers = lines, json.NewDecoder(answers)
	return p, p.cmd.Start()
}

// usage asks for what the process has used.
func (p *process) usage() (u usage, err error) {
	if _, err := io.WriteString(p.lines, "\n"); err != nil {
		return u, fmt.Errorf("asking %s: %w", p.cmd, err)
	}
	if err := p.answers.Decode(&u); err != nil {
		return u, fmt.Errorf("reading the answer of %s: %w", p.cmd, err)
	}
	return u, nil
}

// stop ends the process and waits until it has ended.
func (p *process) stop() {
	_ = p.lines.Close()
	late := time.AfterFunc(stopTimeout, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	_ = p.cmd.Wait() // how it ended is no news
}

// givenAddrs are those that freeAddr has returned.
var givenAddrs = make(map[string]bool)

// freeAddr returns an address on loopback nobody listens on. It returns none twice: the system may, before a site that
// is still to be written listens there.
func freeAddr() (string, error) {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", fmt.Errorf("finding a free port: %w", err)
		}
		addr := l.Addr().String()
		if err := l.Close(); err != nil {
			return "", fmt.Errorf("giving back a free port: %w", err)
		}
		if !givenAddrs[addr] {
			givenAddrs[addr] = true
			return addr, nil
		}
	}
}
