//go:build unix

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell starts a script, with a launcher of its own.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	l := NewLauncher()
	p, err := l.Start(Command{Path: "sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Terminate(0)
		l.Close()
	})
	return p
}

// always is a memory in which each line has room.
func always(int) bool { return true }

func lines(t *testing.T, p *Process) (all []string) {
	t.Helper()
	for {
		line, err := p.ReadLine(always)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			return all
		}
		all = append(all, string(line))
	}
}

func TestLinesGoBothWays(t *testing.T) {
	p := shell(t, `read a; echo "got $a"; printf 'with a return\r\n\nwithout an end'`)
	if err := p.Write([]byte("th"), []byte("is")); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, p); strings.Join(got, "|") != "got this|with a return|" {
		t.Errorf("got %q", got)
	}
	if <-p.Done(); p.Exit() != "exit status 0" {
		t.Errorf("it ended with %s", p.Exit())
	}
}

// What a process wrote before its end is read; what has left its group does not keep anybody
// waiting, though it holds the pipe.
func TestEndsAreSeen(t *testing.T) {
	p := shell(t, `setsid sleep 30 & echo last; echo oops >&2; exit 9`)
	if got := lines(t, p); len(got) != 1 || got[0] != "last" {
		t.Errorf("got %q", got)
	}
	if <-p.Done(); p.Exit() != "exit status 9" || p.Errors() != "oops\n" {
		t.Errorf("it ended with %s and %q", p.Exit(), p.Errors())
	}
}

// A process is asked to end in ever clearer words, and takes along what it has started.
func TestStopping(t *testing.T) {
	const loop = `while :; do sleep 0.01; done`
	for name, tt := range map[string]struct {
		script string
		stop   func(*Process)
		exit   string
	}{
		"it has ended":         {`echo ready; exit 5`, func(p *Process) { p.Stop(time.Minute) }, "exit status 5"},
		"the end of its input": {`echo ready; cat >/dev/null`, func(p *Process) { p.Stop(time.Minute) }, "exit status 0"},
		"SIGTERM":              {`trap 'exit 4' TERM; echo ready; ` + loop, func(p *Process) { p.Terminate(time.Minute) }, "exit status 4"},
		"SIGKILL":              {`trap '' TERM; echo ready; ` + loop, func(p *Process) { p.Stop(10 * time.Millisecond) }, "signal: killed"},
		"others": {`(trap '' TERM; echo ready; ` + loop + `) & wait`,
			func(p *Process) { p.Terminate(time.Minute) }, "signal: terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			p := shell(t, tt.script)
			if line, err := p.ReadLine(always); string(line) != "ready" || err != nil {
				t.Fatalf("got %q, %v", line, err)
			}
			tt.stop(p)
			if <-p.Done(); p.Exit() != tt.exit {
				t.Errorf("it ended with %s, want %s", p.Exit(), tt.exit)
			}
			lines(t, p) // nobody holds the pipe any more
		})
	}
}

func TestLongLine(t *testing.T) {
	p := shell(t, `head -c 33554433 /dev/zero; echo; echo more`)
	if _, err := p.ReadLine(always); !errors.Is(err, ErrLine) {
		t.Errorf("got %v", err)
	}
	p = shell(t, `head -c 33554431 /dev/zero; echo`)
	if line, err := p.ReadLine(always); err != nil || len(line) != MaxLine-1 {
		t.Errorf("got %d bytes, %v", len(line), err)
	}
}

// The reader skips a line for which there is no memory, and reads the next one.
func TestLineWithoutRoom(t *testing.T) {
	p := shell(t, `printf beginning; head -c 1000000 /dev/zero; echo; echo more`)
	var asked []int
	line, err := p.ReadLine(func(size int) bool {
		asked = append(asked, size)
		return size < 4*Beginning
	})
	if !errors.Is(err, ErrSkipped) || len(line) != Beginning || !strings.HasPrefix(string(line), "beginning") {
		t.Errorf("got %d bytes, %v", len(line), err)
	}
	if len(asked) == 0 || asked[0] <= Beginning || asked[len(asked)-1] < 4*Beginning {
		t.Errorf("it was asked whether there is memory for %d", asked)
	}
	if line, err := p.ReadLine(always); err != nil || string(line) != "more" {
		t.Errorf("then got %q, %v", line, err)
	}
}

// A long line is written whole, in whatever parts it comes.
func TestLongInput(t *testing.T) {
	p := shell(t, `read -r line; echo "${#line} $(printf %s "$line" | tr -d x)"`)
	long := []byte(strings.Repeat("x", 3*Beginning))
	if err := p.Write([]byte("a"), long, []byte("b"), long, long, []byte("c")); err != nil {
		t.Fatal(err)
	}
	if line, err := p.ReadLine(always); err != nil || string(line) != fmt.Sprintf("%d abc", 9*Beginning+3) {
		t.Errorf("got %q, %v", line, err)
	}
}

func TestProgramsThatCannotBeStarted(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + dir
	for want, c := range map[string]Command{
		"finding program absent: executable file not found in $PATH":      {Path: "absent", Env: []string{path}},
		"finding program file: executable file not found in $PATH":        {Path: "file", Env: []string{path}},
		"finding program " + file + ": permission denied":                 {Path: file},
		"finding program ./absent: no such file or directory":             {Path: "./absent", Dir: dir},
		"finding directory " + dir + "/absent: no such file or directory": {Path: "/bin/sh", Dir: dir + "/absent"},
		file + " is not a directory":                                      {Path: "/bin/sh", Dir: file},
		"there is no user nobody-at-all":                                  {Path: "/bin/sh", User: "nobody-at-all"},
	} {
		if err := c.Check(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	here := Command{Path: "sh", Env: []string{"PATH=relative:" + dir + ":/bin:/usr/bin"}}
	if err := here.Check(); err != nil {
		t.Error(err)
	}
}

// The log has neither repetitions nor too many lines; the end of all is kept.
func TestStandardErrorIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []string
		var skipped int
		w := newTail(func(line string, n int) { logged = append(logged, line); skipped += n })
		write := func(text string) {
			if n, err := io.WriteString(w, text); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
		}
		write("one\r\ntw")
		write("o\ntwo\ntwo\n\nthree\n")
		if strings.Join(logged, "|") != "one|two|three" || skipped != 3 {
			t.Errorf("logged %q, without %d", logged, skipped)
		}
		for n := range 100 {
			write(strings.Repeat("x", n+1) + "\n")
		}
		if len(logged) != burst {
			t.Errorf("%d lines are logged", len(logged))
		}
		time.Sleep(interval)
		skipped = 0
		write("later\n")
		if len(logged) != burst+1 || skipped != 100+3-burst {
			t.Errorf("%d lines are logged, without %d", len(logged), skipped)
		}
		write(strings.Repeat("y", 2*maxLogged) + "\n")
		if got := logged[len(logged)-1]; len(got) != maxLogged {
			t.Errorf("a line of %d bytes is logged", len(got))
		}
		write(strings.Repeat("z", maxTail-1) + "\xff")
		if got := w.String(); len(got) != maxTail-1+len("\uFFFD") || !strings.HasSuffix(got, "z\uFFFD") {
			t.Errorf("%d bytes are kept", len(got))
		}
	})
}
