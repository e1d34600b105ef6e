package command

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

func newStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Shows how the cache is: its feeds and its lists",
		Long:  statusHelp,
		Args:  cobra.NoArgs,
	}
	running := cmd.Flags().Bool("running", false, "End with 0 if Caddy answers, however the cache is")
	return operator(cmd, func(c *adminClient, out io.Writer, _ []string) (int, error) {
		statuses, err := c.statuses()
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		if c.json {
			err = writeJSONTo(out, statuses)
		} else {
			err = writeStatuses(out, statuses, time.Now())
		}
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		if *running {
			return caddy.ExitCodeSuccess, nil
		}
		return exitCode(statuses)
	})
}

const statusHelp = `
Shows each mcp_cache handler of a running Caddy: its feeds, the background
connections to the upstream at one revision of MCP each, and its lists.

A feed is connecting, hydrating (it fetches everything for the first time),
ready, degraded (the last refresh of some list failed), down,
needs_authorization (the upstream refuses the guard's credential), or not
offered (the upstream does not speak that revision; with --json and elsewhere
unsupported). A handler is as its worst feed is; that a revision is not offered
counts only if none is.

A list that the upstream does not offer is asked for once, to make sure. TTL
LEFT is that of an answer with the list now. HITS counts the answers from
the cache, at each revision. A list is uncacheable while its ttlMs is 0: every
request for it goes to the upstream, for as long as that answers, until min_ttl
says for how long it may be kept.

Where instances share a store, a line says whether it can be reached. Lists of it
are of no use if they are damaged, or sealed with other secrets.

Of a program that Caddy runs, its processes follow: whose requests each serves,
how many requests are under way, and the memory of it and of what it has
started. A program that SPEAKS both eras is modern. STOPPED counts the processes
that were told to end, DIED those that ended by themselves, SKIPPED the lines on
standard output that were no message. What the last one to die has written to
standard error is shown below. While nobody uses it, none runs. If it does not
start, the command ends with 5, or with 4 while there are no lists.

Where there are rules of who may see what, the views follow that are in use. A
view is what all callers are shown to whom the same rules apply: RULES are their
numbers, in the order of the configuration, from 0 on. Warnings are of what is
odd about the server's answers, of patterns that match nothing of the lists, of
matchers that fail, and of kinds that are open though tools are restricted.

With --json, an array of handlers is printed; each is what the admin API
answers at /mcp_cache/{name}.

With --running, the command succeeds whenever Caddy answers, however the cache
is. Use it in the health check of a container: a failing check has Caddy started
anew, and a restart mends no server.
` + exitCodes

func writeStatuses(out io.Writer, statuses []report.Status, now time.Time) error {
	for i, status := range statuses {
		if i > 0 {
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(out, "%s %s, in front of %s\n\n", status.Name, health(status), printable(strings.Join(behind(status), ", "))); err != nil {
			return err
		}
		rows := feedRows(status.Feeds, now)
		if status.Servers != nil {
			rows = serverRows(status.Servers)
		}
		if err := writeTable(out, rows); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
		if err := writeTable(out, kindRows(status)); err != nil {
			return err
		}
		if err := writeFleet(out, status.Fleet, now); err != nil {
			return err
		}
		if err := writeProgram(out, status.Program, now); err != nil {
			return err
		}
		if err := writeConflicts(out, status); err != nil {
			return err
		}
		if err := writeViews(out, status); err != nil {
			return err
		}
	}
	return nil
}

// writeFleet writes how instances are together that share a store.
func writeFleet(out io.Writer, f *report.Fleet, now time.Time) error {
	if f == nil {
		return nil
	}
	text := fmt.Sprintf("Shared store: %s is %s, since %s ago", f.Name, f.State, seconds(now.Sub(f.Since)))
	if len(f.Members) > 0 {
		text += fmt.Sprintf("; members (%d): %s", len(f.Members), strings.Join(f.Members, ", "))
	}
	if f.Failure != "" {
		text += "; what failed last: " + f.Failure
	}
	if f.Ignored > 0 {
		text += fmt.Sprintf("; stored lists of no use: %d", f.Ignored)
	}
	_, err := fmt.Fprintf(out, "\n%s\n", printable(text))
	return err
}

// behind returns the URLs, or of a toolkit the names, of the servers.
func behind(status report.Status) []string {
	if status.Servers == nil && status.Upstreams == nil { // there is one
		return []string{status.Upstream}
	}
	names := slices.Clone(status.Upstreams)
	for _, s := range status.Servers {
		names = append(names, s.Name)
	}
	return names
}

func serverRows(servers []report.Server) [][]string {
	rows := headed(len(servers), "SERVER", "LEFT OUT, AS")
	for _, s := range servers {
		rows = append(rows, []string{s.Name, printable(cmp.Or(s.LeftOut, "-"))})
	}
	return rows
}

// writeConflicts writes what clients of a toolkit are not given as its servers have it.
func writeConflicts(out io.Writer, status report.Status) error {
	if len(status.Conflicts) == 0 {
		return nil
	}
	rows := headed(len(status.Conflicts), "KIND", "SERVER", "CONFLICT")
	for _, c := range status.Conflicts {
		rows = append(rows, []string{c.Kind, c.Server, printable(c.Why)})
	}
	if status.MoreConflicts > 0 {
		rows = append(rows, []string{"", "", fmt.Sprintf("and %d more", status.MoreConflicts)})
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return writeTable(out, rows)
}

// writeViews writes what there is to say of rules, if anything.
func writeViews(out io.Writer, status report.Status) error {
	if len(status.Views) > 0 {
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
		if err := writeTable(out, viewRows(status.Views)); err != nil {
			return err
		}
	}
	separator := "\n"
	for _, warning := range status.Warnings {
		if _, err := fmt.Fprintf(out, "%sWarning: %s\n", separator, printable(warning)); err != nil {
			return err
		}
		separator = ""
	}
	return nil
}

func viewRows(views []report.View) [][]string {
	rows := headed(len(views), "VIEW", "RULES", "KIND", "REVISION", "ITEMS", "BYTES", "HITS")
	for _, v := range views {
		numbers := "-"
		if len(v.Rules) > 0 {
			numbers = strings.Trim(strings.ReplaceAll(fmt.Sprint(v.Rules), " ", ","), "[]")
		}
		for _, list := range v.Lists {
			rows = append(rows, []string{
				v.Key[:min(digestShown, len(v.Key))], numbers, list.Kind, list.Revision, strconv.Itoa(list.Items),
				humanize.IBytes(uint64(list.Bytes)), strconv.FormatUint(list.Hits, 10),
			})
		}
	}
	return rows
}

func feedRows(feeds []report.Feed, now time.Time) [][]string {
	rows := headed(len(feeds), "ERA", "REVISION", "STATE", "SINCE", "LISTENING", "NEXT REFRESH", "LAST FAILURE")
	for _, f := range feeds {
		listening, next, failure := "no", "-", "-"
		if f.Listening {
			listening = "yes"
		}
		if len(f.Silent) > 0 {
			listening += ", not told of " + strings.Join(f.Silent, ", ")
		}
		if len(f.InVain) > 0 {
			listening += ", told in vain of " + strings.Join(f.InVain, ", ")
		}
		if f.Next != nil {
			next = "in " + seconds(max(f.Next.Sub(now), 0))
		}
		// That a server does not speak a revision is no failure of it, unless it speaks none.
		if f.Failure != nil && (f.State != feed.Unsupported || offersNothing(feeds)) {
			failure = fmt.Sprintf("%s, %s ago: %s", f.Failure.Stage, seconds(now.Sub(f.Failure.At)), f.Failure.Message)
		}
		rows = append(rows, []string{
			f.Era, f.Revision, stateText(f.State), seconds(now.Sub(f.Since)) + " ago", listening, next, failure,
		})
	}
	return rows
}

// digestShown is how many characters of a digest are shown to people.
const digestShown = 12

func kindRows(status report.Status) [][]string {
	rows := headed(len(status.Kinds), "KIND", "REVISION", "ITEMS", "BYTES", "DIGEST", "AGE", "TTL LEFT", "HITS")
	for _, k := range status.Kinds {
		ttl := time.Duration(math.Floor(k.TTL)) * time.Second // as Cache-Status has it
		left := ttl.String()
		switch {
		case k.Uncacheable != "":
			left = "uncacheable: " + k.Uncacheable
		case ttl < 0:
			left = "stale for " + (-ttl).String()
		case k.TTL == 0:
			left = "stale"
		}
		rows = append(rows, []string{
			k.Kind, k.Revision, strconv.Itoa(k.Items), humanize.IBytes(uint64(k.Bytes)),
			k.Digest[:min(digestShown, len(k.Digest))], seconds(time.Duration(k.Age * float64(time.Second))),
			left, strconv.FormatUint(k.Hits, 10),
		})
	}
	for _, f := range status.Feeds {
		for _, kind := range f.NotOffered {
			rows = append(rows, []string{kind, f.Revision, "not offered"})
		}
	}
	return rows
}
