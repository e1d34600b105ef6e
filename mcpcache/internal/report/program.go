package report

import (
	"sync"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/program"
)

// Program is what a live handler lets operators see and do of an upstream that is a program.
type Program interface {
	// Status is how it is.
	Status() program.Status
	// Restart stops all of its processes, and returns once they have ended how many it has stopped.
	Restart() (stopped int)
}

// ProgramStatus is how a program is. What is counted, is since it was configured.
type ProgramStatus struct {
	// Era is what it speaks, legacy or modern; left out if that is not known. One that speaks both
	// is modern.
	Era string `json:"era,omitempty"`
	// Sessions is how many are known, whether a process runs for them or not.
	Sessions int `json:"sessions"`
	// Starts is how many processes have started, FailedStarts how many starts have failed. A process counts
	// as both that was started for lists, and has ended before it gave any.
	Starts       uint64 `json:"starts"`
	FailedStarts uint64 `json:"failed_starts"`
	// Stopped is how many processes have ended because they were told to; Died, by themselves, or
	// because something was wrong with them.
	Stopped uint64 `json:"stopped"`
	Died    uint64 `json:"died"`
	// Skipped is how many lines on standard output were no message.
	Skipped uint64 `json:"skipped_lines"`
	// Failure is that of the last start; left out if it did not fail.
	Failure *StartFailure `json:"start_failure,omitempty"`
	// LastExit is the end of the process that has ended last, and LastDeath of the one that has died
	// last.
	LastExit  *Exit `json:"last_exit,omitempty"`
	LastDeath *Exit `json:"last_death,omitempty"`
	// Processes are those that run, the oldest first.
	Processes []Process `json:"processes"`
}

// StartFailure is why a program did not start.
type StartFailure struct {
	Message string    `json:"message"`
	At      time.Time `json:"at"`
	// Next is before when no other start is tried.
	Next time.Time `json:"next_try"`
}

// Exit is the end of a process.
type Exit struct {
	PID int       `json:"pid"`
	At  time.Time `json:"at"`
	// How it ended, such as "exit status 1", or why it was ended.
	How string `json:"how"`
	// Died says that it was not told to end, or that something was wrong with it.
	Died bool `json:"died"`
	// StandardError is the end of what it has written there, up to 4 KiB.
	StandardError string `json:"standard_error,omitempty"`
}

// Process is one that runs.
type Process struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	// Serves is whose requests it answers: a session, all sessions, requests without a session.
	Serves string `json:"serves"`
	// Calls is how many requests are under way, also of clients that have left.
	Calls int `json:"calls"`
	// Memory is how many bytes are resident of it and of what it has started; left out where the
	// system does not tell.
	Memory        uint64 `json:"memory_bytes,omitempty"`
	StandardError string `json:"standard_error,omitempty"`
}

// describeProgram tells how a server that is a program is; nil of another one.
func describeProgram(source Source) *ProgramStatus {
	p := source.Program()
	if p == nil {
		return nil
	}
	s := p.Status()
	s.MeasureMemory()
	status := &ProgramStatus{
		Era: s.Era, Sessions: s.Sessions, Starts: s.Starts, FailedStarts: s.Failed,
		Stopped: s.Stopped, Died: s.Died, Skipped: s.Skipped, Processes: []Process{},
	}
	if s.Failure != nil {
		failure := StartFailure(*s.Failure)
		status.Failure = &failure
	}
	status.LastExit, status.LastDeath = describeExit(s.LastExit), describeExit(s.LastDeath)
	for _, running := range s.Processes {
		status.Processes = append(status.Processes, Process(running))
	}
	return status
}

func describeExit(e *program.Exit) *Exit {
	if e == nil {
		return nil
	}
	exit := Exit(*e)
	return &exit
}

// failureOf returns why a server that is a program did not start; nil if it did, or is none.
func failureOf(source Source) *program.Failure {
	if p := source.Program(); p != nil {
		return p.Status().Failure
	}
	return nil
}

// Restarted is what a restart that somebody asked for has ended.
type Restarted struct {
	// Name is what the program's handler is called.
	Name string `json:"name"`
	// Stopped is how many processes were stopped.
	Stopped int `json:"stopped"`
}

// Restart stops the processes of a program, of a toolkit those of all its programs, and has their
// lists fetched anew, which starts others. It returns when the processes have ended. That there is
// no program is an error of the type *[Error].
func Restart(s Source) ([]Restarted, error) {
	var programs []Source
	for _, source := range withServers(s) {
		if source.Program() != nil {
			programs = append(programs, source)
		}
	}
	if len(programs) == 0 {
		return nil, trouble(Invalid, "%s is in front of no program: there is nothing to restart", s.Name())
	}
	restarted := make([]Restarted, len(programs))
	var wg sync.WaitGroup
	for i, source := range programs {
		wg.Go(func() {
			restarted[i] = Restarted{source.Name(), source.Program().Restart()}
			source.Feeds().Anew()
		})
	}
	wg.Wait()
	return restarted, nil
}
