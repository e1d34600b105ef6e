package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	// progressPause is the time between two looks at the progress.
	progressPause = 100 * time.Millisecond
	// lateAfter is how long people wait for a first answer before they are told, and for
	// one in the other era before they are told the rest.
	lateAfter = 4 * time.Second
)

// guide has more to say than how far the handlers have got. Both functions may
// return "".
type guide struct {
	// why is asked when no feed gets any further, and at the end if one fails: what is
	// wrong, in one line. It may take its time.
	why func(context.Context) string
	// late is said once when no feed has got an answer for a while.
	late string
	// then is asked at the end: what follows.
	then func([]report.Status) string
}

// showProgress shows how far the handlers of this process have got, until all
// are ready, but for feeds that are given up, or ctx ends: on a terminal in one line that lives, elsewhere in a
// new line whenever something has changed.
func showProgress(ctx context.Context, out io.Writer, terminal bool, logger *zap.Logger, g guide) {
	defer func() {
		if p := recover(); p != nil {
			logger.Error("showing the progress panicked", zap.Any("panic", p))
		}
	}()
	format, end := "%s\n", ""
	if terminal {
		format, end = "\r\x1b[K%s", "\n" // back to the beginning, erase the line
	}
	ticker := time.NewTicker(progressPause)
	defer ticker.Stop()
	shown, asked, said, late := "", "", "", time.After(lateAfter)
	for {
		all := report.Live.Statuses(time.Now())
		statuses := withFeeds(all)
		text, done := progress(statuses)
		if text != shown {
			fmt.Fprintf(out, format, text)
			shown = text
		}
		if done || givenUp(statuses, time.Now()) {
			fmt.Fprint(out, end)
			g.finish(ctx, out, all, said)
			return
		}
		if text != asked && stuck(statuses) {
			asked = text
			if why := g.newWhy(ctx, said); why != "" {
				fmt.Fprintf(out, "%s%s\n", end, why)
				said = why
				if terminal {
					shown = "" // the line has to be written anew
				}
			}
			continue
		}
		select {
		case <-ticker.C:
		case <-late:
			if g.late != "" && unanswered(withFeeds(report.Live.Statuses(time.Now()))) {
				fmt.Fprintf(out, "%s%s\n", end, g.late)
				if terminal {
					shown = ""
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// finish says what follows, and what is wrong if a feed gets no further.
func (g guide) finish(ctx context.Context, out io.Writer, statuses []report.Status, said string) {
	if g.then != nil {
		fmt.Fprint(out, g.then(statuses))
	}
	fails := slices.ContainsFunc(statuses, func(status report.Status) bool {
		return slices.ContainsFunc(status.Feeds, func(f report.Feed) bool { return f.State != feed.Ready && f.State != feed.Unsupported })
	})
	if !fails {
		return
	}
	if why := g.newWhy(ctx, said); why != "" {
		fmt.Fprintln(out, why)
	}
}

// newWhy returns what is wrong; "" if nothing is but what has been said.
func (g guide) newWhy(ctx context.Context, said string) string {
	if g.why == nil {
		return ""
	}
	if why := g.why(ctx); why != said {
		return why
	}
	return ""
}

// unanswered reports whether no feed has got an answer so far.
func unanswered(statuses []report.Status) bool {
	for _, status := range statuses {
		for _, f := range status.Feeds {
			if f.State != feed.Connecting {
				return false
			}
		}
	}
	return len(statuses) > 0
}

// stuck reports whether no feed gets any further by itself.
func stuck(statuses []report.Status) bool {
	for _, status := range statuses {
		for _, f := range status.Feeds {
			useless := f.State == feed.Degraded && len(status.Kinds) == 0
			if f.State != feed.Unsupported && f.State != feed.Down && f.State != feed.NeedsAuthorization && !useless {
				return false
			}
		}
		if len(status.Feeds) == 0 {
			return false
		}
	}
	return len(statuses) > 0
}

// givenUp reports whether there are lists in one era, of one server, and no feed is about to
// get further: one that has not answered, or failed, for [lateAfter] may never do.
func givenUp(statuses []report.Status, now time.Time) bool {
	usable := false
	for _, status := range statuses {
		for _, f := range status.Feeds {
			usable = usable || f.State == feed.Ready || f.State == feed.Degraded && len(status.Kinds) > 0
			late := now.Sub(f.Since) >= lateAfter && f.State != feed.Hydrating
			if !settled(f.State) && !late {
				return false
			}
		}
	}
	return usable
}

// withFeeds returns the statuses of what has feeds: of a toolkit, its servers.
func withFeeds(statuses []report.Status) []report.Status {
	return slices.DeleteFunc(slices.Clone(statuses), func(s report.Status) bool { return s.Servers != nil })
}

// shownFailure is how many characters of a failure the line shows, so that it
// stays one.
const shownFailure = 60

// progress describes the handlers in one line, and reports whether all of them
// are ready and no feed is about to get further.
func progress(statuses []report.Status) (text string, done bool) {
	done = len(statuses) > 0
	handlers := make([]string, 0, len(statuses))
	for _, status := range statuses {
		done = done && status.Ready
		feeds := make([]string, 0, len(status.Feeds)+1)
		if len(status.Feeds) == 0 {
			feeds, done = append(feeds, "starting"), false
		}
		for _, f := range status.Feeds {
			done = done && settled(f.State)
			feeds = append(feeds, f.Revision+" "+progressOf(f))
		}
		text := strings.Join(append(feeds, counts(status.Kinds)...), ", ")
		if len(statuses) > 1 { // those of a toolkit, behind its name
			_, name, _ := strings.Cut(status.Name, "/")
			text = cmp.Or(name, status.Name) + ": " + text
		}
		handlers = append(handlers, text)
	}
	return "Feeds: " + printable(strings.Join(handlers, "; ")), done
}

// settled reports whether a feed in that state stays there unless somebody
// does something.
func settled(s feed.State) bool {
	return s == feed.Ready || s == feed.Unsupported || s == feed.NeedsAuthorization
}

func progressOf(f report.Feed) string {
	if f.Failure == nil || !failing(f.State) {
		return stateText(f.State)
	}
	return fmt.Sprintf("%s (%s: %s)", stateText(f.State), f.Failure.Stage, shorten(f.Failure.Message, shownFailure))
}

// counts says how many items there are of each kind: the most that any
// revision has.
func counts(kinds []report.Snapshot) []string {
	var texts []string
	for _, k := range revision.Kinds() {
		most, found := 0, false
		for _, status := range kinds {
			if status.Kind == k.String() {
				most, found = max(most, status.Items), true
			}
		}
		if found && k.ItemsKey() != "" {
			texts = append(texts, fmt.Sprintf("%s %d", k, most))
		}
	}
	return texts
}

// isTerminal reports whether a file is one, so that a line can be rewritten.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
