package report_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/program"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Why a feed has failed, is what the program says of its start, if it has none; else what the feed
// was answered.
func TestFailuresOfPrograms(t *testing.T) {
	const reason = "program files did not start: no such file"
	unavailable := func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusServiceUnavailable)
		return nil
	}
	for name, tt := range map[string]struct {
		failure *program.Failure
		way     handler
		want    string
	}{
		"did not start": {&program.Failure{Message: reason}, unavailable, reason},
		"is all in use": {nil, unavailable, "answered 503"},
		"was to blame for no other answer": {
			&program.Failure{Message: reason},
			func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(502, errors.New("EOF")) }, "EOF",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := reporttest.New(t, "files")
				source.Runs = &reporttest.Program{Is: program.Status{Failure: tt.failure}}
				source.Through(tt.way)
				source.Feeds().Start(revision.LatestModern)
				time.Sleep(client.RequestTimeout)
				synctest.Wait()
				if got := report.Describe(source, time.Now()).Feeds[0].Failure; got == nil || got.Message != tt.want {
					t.Errorf("told is %+v, want %q", got, tt.want)
				}
			})
		})
	}
}

// A status has everything of a program; one of another server has nothing of the kind.
func TestProgramsAreDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		source := reporttest.New(t, "files")
		if got := report.Describe(source, now).Program; got != nil {
			t.Errorf("of no program: %+v", got)
		}
		source.Runs = &reporttest.Program{Is: program.Status{
			Era: "modern", Sessions: 1, Starts: 2, Failed: 3, Stopped: 4, Died: 5, Skipped: 6,
			Failure:   &program.Failure{Message: "no", At: now, Next: now.Add(1)},
			LastExit:  &program.Exit{PID: 6, At: now, How: "exit status 0"},
			LastDeath: &program.Exit{PID: 7, At: now, How: "exit status 1", Died: true, StandardError: "oh"},
			Processes: []program.Process{{PID: -8, Since: now, Serves: program.ServesOthers, Calls: 9, StandardError: "well"}},
		}}
		want := &report.ProgramStatus{
			Era: "modern", Sessions: 1, Starts: 2, FailedStarts: 3, Stopped: 4, Died: 5, Skipped: 6,
			Failure:   &report.StartFailure{Message: "no", At: now, Next: now.Add(1)},
			LastExit:  &report.Exit{PID: 6, At: now, How: "exit status 0"},
			LastDeath: &report.Exit{PID: 7, At: now, How: "exit status 1", Died: true, StandardError: "oh"},
			Processes: []report.Process{{PID: -8, Since: now, Serves: "requests without a session", Calls: 9, StandardError: "well"}},
		}
		if got := report.Describe(source, now).Program; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// A restart stops what runs, and has the lists fetched anew. There is none of what is no program.
func TestRestart(t *testing.T) {
	hydrated(t, func(t *testing.T, source *reporttest.Source) {
		_, err := report.Restart(source)
		if reasonOf(t, err) != report.Invalid || err.Error() != source.Name()+" is in front of no program: there is nothing to restart" {
			t.Errorf("without a program: %v", err)
		}
		runs := &reporttest.Program{Is: program.Status{Processes: []program.Process{{PID: 1}, {PID: 2}}}}
		source.Runs = runs
		before := source.Server.Count("tools/list")
		restarted, err := report.Restart(source)
		if want := fmt.Sprintf("[{%s 2}]", source.Name()); err != nil || fmt.Sprint(restarted) != want || runs.Restarts != 1 {
			t.Errorf("got %v, %v after %d restarts, want %s", restarted, err, runs.Restarts, want)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := source.Server.Count("tools/list") - before; n != 1 {
			t.Errorf("the list was fetched %d times", n)
		}
	})
}
