package program

import (
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/programtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/process"
)

// What operators are told of a program follows its processes from their start to their end.
func TestStatus(t *testing.T) {
	x := newProgram(t, usual)
	if s := x.Status(); s.Starts != 0 || len(s.Processes) != 0 || s.LastExit != nil || s.Failure != nil {
		t.Errorf("of a program that was not used: %+v", s)
	}
	before := time.Now()
	v := x.visit()
	v.call("junk", `{}`)
	v.call("complain", `{}`)
	waiting := v.send(http.MethodPost, v.toolCall("ask", `{}`))
	waiting.Body.Close() // nobody waits, but the process
	s := x.Status()
	s.MeasureMemory()
	if s.Sessions != 1 || s.Starts != 1 || s.Skipped != 2 || len(s.Processes) != 1 {
		t.Fatalf("of a program that is used: %+v", s)
	}
	p := s.Processes[0]
	if p.PID != x.started()[0] || p.Serves != ServesSession || p.Calls != 1 || p.Since.Before(before) {
		t.Errorf("of its process: %+v", p)
	}
	if runtime.GOOS == "linux" && p.Memory < 1<<20 {
		t.Errorf("its process has %d bytes", p.Memory)
	}
	const line = "complaint complaint"
	await(t, "what it has complained of", func() bool { return strings.Contains(x.Status().Processes[0].StandardError, line) })
	if n := len(x.Status().Processes[0].StandardError); n > maxLastWords {
		t.Errorf("%d bytes of its complaints are told", n)
	}
	read(t, v.send(http.MethodPost, v.toolCall("die", `{}`)))
	await(t, "it to end", func() bool { return x.Status().LastExit != nil })
	s = x.Status()
	if e := s.LastDeath; s.Died != 1 || s.Stopped != 0 || len(s.Processes) != 0 || e != s.LastExit ||
		!e.Died || e.How != "exit status 7" || e.PID != p.PID || !strings.Contains(e.StandardError, line) {
		t.Errorf("of a process that has died: %+v, %+v", s, s.LastExit)
	}
	await(t, "the log says so", func() bool { return x.logs.FilterMessage("program died").Len() == 1 })
	v.call("pid", `{}`)
	v.send(http.MethodDelete, "")
	await(t, "the other one to end", func() bool { return x.Status().Stopped == 1 })
	if s = x.Status(); s.Died != 1 || s.LastExit.Died || s.LastDeath.PID != p.PID || s.Sessions != 0 || s.Starts != 2 {
		t.Errorf("of a process that was stopped: %+v, %+v", s, s.LastExit)
	}
	if x.logs.FilterMessage("program died").Len() != 1 {
		t.Error("the log has it that it died")
	}
}

// A process says whose it is, and a program what it speaks.
func TestWhomProcessesServe(t *testing.T) {
	for name, tt := range map[string]struct {
		kind   Kind
		traits []string
		serves []string
		era    string
	}{
		"each its own": {Kind{}, nil, []string{ServesSession}, ""},
		"shared":       {Kind{Share: true}, nil, []string{ServesSessions}, "legacy"},
		"both":         {Kind{}, []string{"dual"}, []string{ServesSession, ServesOthers}, "modern"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newProgramOf(t, tt.kind, usual, tt.traits...)
			x.visit().call("pid", `{}`)
			if slices.Contains(tt.serves, ServesOthers) {
				(&passer{tested: x}).call("pid")
			}
			var serves []string
			s := x.Status()
			for _, p := range s.Processes {
				serves = append(serves, p.Serves)
			}
			if !slices.Equal(serves, tt.serves) || s.Era != tt.era {
				t.Errorf("they serve %q, and speak %q", serves, s.Era)
			}
		})
	}
}

// Every process that was started is counted, and every one that has ended, whatever it has said.
func TestCounts(t *testing.T) {
	for name, tt := range map[string]struct {
		traits                        []string
		starts, failed, stopped, died uint64
	}{
		"ends of what it does not know": {nil, 1, 1, 0, 1},
		"speaks both":                   {[]string{"dual"}, 2, 0, 0, 0},
		"refuses initialize":            {[]string{"modern"}, 2, 0, 1, 0},
		"does not say why":              {[]string{"modern", "curt"}, 1, 1, 1, 0},
		"does not start":                {[]string{"exits"}, 0, 2, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			x := newProgram(t, usual, tt.traits...)
			read(t, (&passer{tested: x}).must("server/discover", ""))
			read(t, (&visitor{tested: x}).send(http.MethodPost, hello))
			s := x.Status()
			await(t, "those that end have ended", func() bool { s = x.Status(); return s.Stopped+s.Died == tt.stopped+tt.died })
			if s.Starts != tt.starts || s.Failed != tt.failed || s.Stopped != tt.stopped || s.Died != tt.died {
				t.Errorf("%d started, %d did not, %d were stopped, %d died; want %d, %d, %d, %d",
					s.Starts, s.Failed, s.Stopped, s.Died, tt.starts, tt.failed, tt.stopped, tt.died)
			}
			if s.Starts+s.Failed != s.Stopped+s.Died+uint64(len(s.Processes)) {
				t.Errorf("of %d processes %d run", s.Starts+s.Failed-s.Stopped-s.Died, len(s.Processes))
			}
		})
	}
}

// A start that fails is told until one does not.
func TestFailedStartsAreTold(t *testing.T) {
	x := newProgram(t, usual, "exits")
	if res := (&visitor{tested: x}).send(http.MethodPost, hello); res.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("initialize is answered %d", res.StatusCode)
	}
	s := x.Status()
	if f := s.Failure; f == nil || f.Message != "program tested did not start: it ended while it started (exit status 3)" || !f.Next.After(f.At) {
		t.Errorf("of a start that has failed: %+v", f)
	}
	if e := s.LastExit; e == nil || e.StandardError != "cannot find the database" {
		t.Errorf("of its process: %+v", e)
	}
}

// A restart stops all processes, fails their calls, and has sessions go on with others. What failed
// before is tried at once.
func TestRestart(t *testing.T) {
	store := new(memoryStore)
	x := newStoredProgram(t, store, Kind{}, usual)
	v := x.visit()
	pid := v.call("pid", `{}`)
	other := x.visit()
	other.call("pid", `{}`)
	waiting := v.send(http.MethodPost, v.toolCall("ask", `{}`))
	defer waiting.Body.Close()
	if n := x.Restart(); n != 2 {
		t.Errorf("%d processes were stopped, want 2", n)
	}
	if n := x.running(); n != 0 {
		t.Errorf("%d processes run", n)
	}
	if body := read(t, waiting); !strings.Contains(body, "program tested ended before it answered: it was restarted") {
		t.Errorf("a call under way is answered %s", body)
	}
	if s := x.Status(); s.Stopped != 2 || s.Died != 0 {
		t.Errorf("%d were stopped, %d died", s.Stopped, s.Died)
	}
	started := len(x.started())
	x.visit()
	if n := len(x.started()) - started; n != 1 {
		t.Errorf("%d processes were started to say what the program is, want 1", n)
	}
	if again := v.call("pid", `{}`); again == pid || again == "" {
		t.Errorf("the session goes on with process %q, it had %q", again, pid)
	}
	x.mu.Lock()
	x.starts.failed = tries{n: 9, err: errors.New("it failed"), next: time.Now().Add(time.Hour)}
	x.starts.upkeep = x.starts.failed
	x.mu.Unlock()
	x.Restart()
	if s := x.Status(); s.Failure != nil {
		t.Errorf("what failed before is still told: %+v", s.Failure)
	}
	v.call("pid", `{}`)
}

// A process that hangs in its start is stopped by a restart, and who waits for it gets another one.
func TestRestartOfAStart(t *testing.T) {
	x := newProgram(t, usual)
	command := x.command
	x.command = func() (process.Command, error) {
		c, err := command()
		if len(x.started()) == 0 {
			c.Args = append(slices.Clone(c.Args), "mute")
		}
		return c, err
	}
	pids := make(chan string)
	go func() { pids <- x.visit().call("pid", `{}`) }()
	await(t, "the process hangs", func() bool { return len(x.started()) == 1 && x.running() == 1 })
	x.Restart()
	pid := <-pids
	if running := programtest.Running(t, x.pids); len(x.started()) != 2 || len(running) != 1 || pid != strconv.Itoa(running[0]) {
		t.Errorf("process %s answers; %d run of %d", pid, running, x.started())
	}
	if s := x.Status(); s.Failure != nil || s.Died != 0 || s.Starts != 1 || s.Failed != 1 {
		t.Errorf("that is told as %+v", s)
	}
}
