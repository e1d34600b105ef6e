package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

const (
	// startTimeout is how long a server may take until it is there.
	startTimeout = 30 * time.Second
	// stopTimeout is how long a process may take to end.
	stopTimeout = 5 * time.Second
)

// process is a child of the program: a server or the load.
type process struct {
	name   string
	addr   string // where it serves; set by who starts it
	cmd    *exec.Cmd
	stdin  io.Closer
	said   tail
	client *rpc.Client // nil if the program is not ours
	ended  chan struct{}
	once   sync.Once
}

// start starts this program in a role.
func start(ctx context.Context, core int, role string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	p, stdout, err := startProgram(ctx, core, role, append([]string{self, role}, args...)...)
	if err != nil {
		return nil, err
	}
	p.client = jsonrpc.NewClient(pipes{stdout, p.stdin.(io.WriteCloser)})
	return p, nil
}

// startProgram starts any program, on one core. It must end when its standard
// input does.
func startProgram(ctx context.Context, core int, name string, argv ...string) (*process, io.ReadCloser, error) {
	argv = append(pin(core), argv...)
	p := &process{name: name, cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	p.cmd.Stderr = &p.said
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, nil, fmt.Errorf("preparing %s: %w", name, err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, nil, fmt.Errorf("preparing %s: %w", name, err)
	}
	p.stdin = stdin
	p.cmd.WaitDelay = stopTimeout
	if err := p.cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, stdout, nil
}

// call calls a method of the process, within a time.
func (p *process) call(ctx context.Context, limit time.Duration, method string, args, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	call := p.client.Go("Bench."+method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		if call.Error != nil {
			return fmt.Errorf("asking %s for %s: %w%s", p.name, method, call.Error, p.said.quote())
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("asking %s for %s: %w%s", p.name, method, ctx.Err(), p.said.quote())
	}
}

// stats returns what a server's process has done so far.
func (p *process) stats(ctx context.Context) (Stats, error) {
	var s Stats
	return s, p.call(ctx, startTimeout, "Stats", struct{}{}, &s)
}

// stop ends the process and waits until it has ended.
func (p *process) stop() {
	p.once.Do(func() {
		go func() {
			defer close(p.ended)
			_ = p.cmd.Wait() // that it was killed is no news
		}()
		if p.client != nil {
			_ = p.client.Close() // closes its input
		} else {
			_ = p.stdin.Close()
		}
	})
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill() // it may have ended just now
		<-p.ended
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// pin returns the words that make a command run on one core, none where that is
// not possible.
func pin(core int) []string {
	if path, err := exec.LookPath("taskset"); err == nil && core >= 0 {
		return []string{path, "-c", strconv.Itoa(core)}
	}
	return nil
}

// tail keeps the last of what a process has said.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

// quote returns what was said in a form to follow an error.
func (t *tail) quote() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := bytes.TrimSpace(t.text); len(text) > 0 {
		return "; it said:\n" + string(text)
	}
	return ""
}
