// Package process runs programs that speak in lines on standard input and output. It reads and
// writes their lines, and keeps their standard error. It ends a program with all processes that
// the program has started.
//
// It knows nothing of MCP, of HTTP or of Caddy.
package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// MaxLine is how many bytes a line of a program may have.
const MaxLine = 32 << 20

const (
	// writeTimeout is how long a program may leave a line unread.
	writeTimeout = 30 * time.Second
	// drainTimeout is how long output is read that a process wrote before it ended. What still
	// holds the pipe then has left the program's process group.
	drainTimeout = time.Second
)

var (
	// ErrLine says that a program has written a line of more than [MaxLine] bytes.
	ErrLine = fmt.Errorf("a line has more than %d bytes", MaxLine)
	// ErrSkipped says that there was no memory for a line.
	ErrSkipped = errors.New("there is no memory for a line")
)

// Beginning is how many bytes of a line are read before anybody is asked whether there is memory for it.
const Beginning = 64 << 10

// Command says what to run.
type Command struct {
	// Path is the program: a path, or a name that is looked for in the PATH of Env.
	Path string
	Args []string
	Env  []string // all of it, as "NAME=value"
	Dir  string   // "": that of this process
	User string   // a name or number; "": that of this process. Needs root; not on Windows
	// Log is given lines of standard error, with how many were left out since the last one.
	Log func(line string, skipped int)
}

// Check returns an error if the program, its directory or its user does not exist.
func (c *Command) Check() error {
	_, err := c.prepare()
	return err
}

// prepare returns the command to start.
func (c *Command) prepare() (*exec.Cmd, error) {
	path, err := c.lookPath()
	if err != nil {
		return nil, fmt.Errorf("finding program %s: %w", c.Path, reason(err))
	}
	if c.Dir != "" {
		info, err := os.Stat(c.Dir)
		if err != nil {
			return nil, fmt.Errorf("finding directory %s: %w", c.Dir, reason(err))
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("%s is not a directory", c.Dir)
		}
	}
	cmd := &exec.Cmd{Path: path, Args: append([]string{c.Path}, c.Args...), Env: c.Env, Dir: c.Dir}
	if cmd.SysProcAttr, err = attributes(c.User); err != nil {
		return nil, err
	}
	return cmd, nil
}

// lookPath finds the program as it would find others itself: in its own PATH.
func (c *Command) lookPath() (string, error) {
	if strings.ContainsRune(c.Path, filepath.Separator) || strings.Contains(c.Path, "/") {
		if c.Dir != "" && !filepath.IsAbs(c.Path) {
			return exec.LookPath(filepath.Join(c.Dir, c.Path))
		}
		return exec.LookPath(c.Path)
	}
	var dirs string
	for _, variable := range c.Env {
		if name, value, _ := strings.Cut(variable, "="); strings.EqualFold(name, "PATH") {
			dirs = value
		}
	}
	for _, dir := range filepath.SplitList(dirs) {
		if filepath.IsAbs(dir) {
			if path, err := exec.LookPath(filepath.Join(dir, c.Path)); err == nil {
				return path, nil
			}
		}
	}
	return "", exec.ErrNotFound
}

// reason returns an error without the path that it names once more.
func reason(err error) error {
	if named, ok := errors.AsType[*exec.Error](err); ok {
		err = named.Err
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = path.Err
	}
	return err
}

// Process is a program that runs.
type Process struct {
	cmd     *exec.Cmd
	in, out *os.File
	lines   *bufio.Reader
	errors  *tail
	done    chan struct{}
	exit    string
}

// start starts the program.
func (c *Command) start() (*Process, error) {
	cmd, err := c.prepare()
	if err != nil {
		return nil, err
	}
	var pipes pipes
	defer pipes.close()
	in, ours := pipes.open()
	results, out := pipes.open()
	complaints, stderr := pipes.open()
	if pipes.err != nil {
		return nil, fmt.Errorf("opening pipes for program %s: %w", c.Path, pipes.err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting program %s: %w", c.Path, reason(err))
	}
	pipes.keep(ours, results, complaints)
	p := &Process{
		cmd: cmd, in: ours, out: results, lines: bufio.NewReaderSize(results, Beginning),
		errors: newTail(c.Log), done: make(chan struct{}),
	}
	go p.await(complaints)
	return p, nil
}

// pipes are those of a program that is started.
type pipes struct {
	all []*os.File
	err error
}

func (p *pipes) open() (r, w *os.File) {
	if p.err != nil {
		return nil, nil
	}
	if r, w, p.err = os.Pipe(); p.err == nil {
		p.all = append(p.all, r, w)
	}
	return r, w
}

// keep has close leave those ends alone.
func (p *pipes) keep(ends ...*os.File) {
	for _, end := range ends {
		for i, f := range p.all {
			if f == end {
				p.all[i] = nil
			}
		}
	}
}

func (p *pipes) close() {
	for _, f := range p.all {
		if f != nil {
			f.Close()
		}
	}
}

// await waits for the end of the program, ends what it leaves behind, and reads its standard
// error all the time: a program hangs if nobody does.
func (p *Process) await(complaints *os.File) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(p.errors, complaints)
		complaints.Close()
	}()
	_ = p.cmd.Wait()
	p.exit = p.cmd.ProcessState.String()
	kill(p.cmd, syscall.SIGKILL)
	deadline := time.Now().Add(drainTimeout)
	_ = complaints.SetReadDeadline(deadline)
	_ = p.out.SetReadDeadline(deadline)
	p.in.Close()
	<-read
	close(p.done)
}

// ReadLine returns the next line of standard output, without its end; it is the caller's. It is
// for one goroutine, which has to read until there is an error: io.EOF at the end, or an
// [ErrLine]. A line that the end cuts off is none.
//
// Before a line takes more bytes than its [Beginning], fits is called with that number. If it reports false,
// the rest of the line is skipped: then the error is an [ErrSkipped], and the line its beginning.
func (p *Process) ReadLine(fits func(size int) bool) (line []byte, err error) {
	var parts [][]byte // a slice that grows would leave several times its size to the garbage collector
	size, skips := 0, false
	for {
		part, err := p.lines.ReadSlice('\n')
		size += len(part)
		switch {
		case size > MaxLine:
			p.out.Close()
			return nil, ErrLine
		case skips:
		case size > Beginning && !fits(size):
			parts, skips = parts[:1], true
		default:
			parts = append(parts, bytes.Clone(part))
		}
		switch {
		case err == nil && skips:
			return parts[0], ErrSkipped
		case err == nil:
			return bytes.TrimRight(slices.Concat(parts...), "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			p.out.Close()
			return nil, io.EOF
		}
	}
}

// Write writes a line to standard input, whose parts are given without its end. It fails if the program does not
// read for half a minute: it is of no use any more then.
func (p *Process) Write(line ...[]byte) error {
	_ = p.in.SetWriteDeadline(time.Now().Add(writeTimeout))
	var short []byte // what is short is written at once, and what is long is not copied
	for _, part := range append(line, []byte("\n")) {
		if len(short)+len(part) <= Beginning {
			short = append(short, part...)
			continue
		}
		for _, bytes := range [...][]byte{short, part} {
			if _, err := p.in.Write(bytes); err != nil {
				return err
			}
		}
		short = short[:0]
	}
	_, err := p.in.Write(short)
	return err
}

// Done is closed when the program has ended, and all processes of its group.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the program ended, such as "exit status 1", once it is Done.
func (p *Process) Exit() string { return p.exit }

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Errors returns the end of what the program has written to standard error.
func (p *Process) Errors() string { return p.errors.String() }

// Stop ends the program: it closes its standard input, waits, asks it to end, waits, and ends
// it, each for grace. It returns when the program has ended.
func (p *Process) Stop(grace time.Duration) {
	p.in.Close()
	if p.ended(grace) {
		return
	}
	p.Terminate(grace)
}

// Terminate is Stop without the first wait: for when there is little time.
func (p *Process) Terminate(grace time.Duration) {
	p.in.Close()
	kill(p.cmd, syscall.SIGTERM)
	if p.ended(grace) {
		return
	}
	kill(p.cmd, syscall.SIGKILL)
	<-p.done
}

// ended reports whether the program ends within that time.
func (p *Process) ended(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}
