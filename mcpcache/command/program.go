package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

func newRestartCommand() *cobra.Command {
	return operator(&cobra.Command{
		Use:   "restart [NAME]",
		Short: "Stops the processes of a program, for others to take their place",
		Long: `
Stops the processes of the program that the handler of that name is in front of,
such as after it was updated, and waits until they have ended. NAME may be left
out if there is one handler; that of a toolkit means all of its programs, and
TOOLKIT/SERVER one of them.

Sessions of clients go on, with other processes; calls that are under way fail.
A program that did not start is tried again at once. What it has said of itself
is forgotten, and its lists are fetched anew, which starts it: "status" shows
what came of that.
`,
		Args:              wanted(0, 1, "name one handler or none, such as: restart tools/files"),
		ValidArgsFunction: completePrograms,
	}, func(c *adminClient, out io.Writer, args []string) (int, error) {
		restarted, err := c.restart(args)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		if c.json {
			err = writeJSONTo(out, restarted)
			return codeOf(err), err
		}
		for _, r := range restarted {
			if _, err = fmt.Fprintf(out, "%s: processes stopped: %d. Its lists are fetched anew.\n", r.Name, r.Stopped); err != nil {
				break
			}
		}
		return codeOf(err), err
	})
}

// restart has the programs of the handler that is named stopped.
func (c *adminClient) restart(names []string) ([]report.Restarted, error) {
	if len(names) > 0 {
		if c.name != "" && c.name != names[0] {
			return nil, fmt.Errorf("two handlers are named, %s and %s: name one", names[0], c.name)
		}
		c.name = names[0]
	}
	name, err := c.handler()
	if err != nil {
		return nil, err
	}
	answer, err := c.sendRequest(http.MethodPost, "", name, "restart")
	if err != nil {
		return nil, err
	}
	var restarted []report.Restarted
	if err := json.Unmarshal(answer, &restarted); err != nil {
		return nil, fmt.Errorf("reading the answer of the admin API: %w", err)
	}
	return restarted, nil
}

// completePrograms completes the name of a handler, if none is there yet.
func completePrograms(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeHandlers(cmd, args, begun)
}

// maxErrorLines is how many lines of standard error are shown to people.
const maxErrorLines = 10

// writeProgram writes how a program is, if there is one.
func writeProgram(out io.Writer, p *report.ProgramStatus, now time.Time) error {
	if p == nil {
		return nil
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	if err := writeTable(out, programRows(p, now)); err != nil {
		return err
	}
	if len(p.Processes) > 0 {
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
		if err := writeTable(out, processRows(p.Processes, now)); err != nil {
			return err
		}
	}
	if p.Failure != nil {
		text := fmt.Sprintf("%s, %s ago", p.Failure.Message, seconds(now.Sub(p.Failure.At)))
		if wait := p.Failure.Next.Sub(now); wait > 0 {
			text += "; it is tried again in " + seconds(wait) + " at the earliest"
		}
		if _, err := fmt.Fprintf(out, "\n%s\n", printable(text)); err != nil {
			return err
		}
	}
	return writeErrors(out, p.LastDeath, now)
}

func programRows(p *report.ProgramStatus, now time.Time) [][]string {
	exit := "-"
	if p.LastExit != nil {
		verb := "stopped"
		if p.LastExit.Died {
			verb = "died"
		}
		exit = fmt.Sprintf("%s %s ago: %s", verb, seconds(now.Sub(p.LastExit.At)), p.LastExit.How)
	}
	era := p.Era
	if era == "" {
		era = "-"
	}
	rows := headed(1, "SPEAKS", "SESSIONS", "PROCESSES", "STARTS", "FAILED", "STOPPED", "DIED", "SKIPPED", "LAST EXIT")
	return append(rows, []string{
		era, strconv.Itoa(p.Sessions), strconv.Itoa(len(p.Processes)), strconv.FormatUint(p.Starts, 10), strconv.FormatUint(p.FailedStarts, 10),
		strconv.FormatUint(p.Stopped, 10), strconv.FormatUint(p.Died, 10), strconv.FormatUint(p.Skipped, 10), exit,
	})
}

func processRows(processes []report.Process, now time.Time) [][]string {
	rows := headed(len(processes), "PID", "SERVES", "STARTED", "CALLS", "MEMORY")
	for _, p := range processes {
		memory := "-"
		if p.Memory > 0 {
			memory = humanize.IBytes(p.Memory)
		}
		rows = append(rows, []string{
			strconv.Itoa(p.PID), p.Serves, seconds(now.Sub(p.Since)) + " ago", strconv.Itoa(p.Calls), memory,
		})
	}
	return rows
}

// writeErrors writes the last lines that the process which has died last has written to standard
// error.
func writeErrors(out io.Writer, death *report.Exit, now time.Time) error {
	if death == nil || death.StandardError == "" {
		return nil
	}
	lines := strings.Split(death.StandardError, "\n")
	if over := len(lines) - maxErrorLines; over > 0 {
		lines = lines[over:]
	}
	if _, err := fmt.Fprintf(out, "\nThe process that died last, %d, %s ago, wrote to standard error:\n", death.PID, seconds(now.Sub(death.At))); err != nil {
		return err
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, "  "+printable(line)); err != nil {
			return err
		}
	}
	return nil
}
