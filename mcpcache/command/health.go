package command

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

// exitCode makes an exit code of what was found.
func exitCode(statuses []report.Status) (int, error) {
	if len(statuses) == 0 {
		return exitNotReady, errors.New("this Caddy runs no mcp_cache handler")
	}
	for _, status := range statuses {
		if !status.Ready {
			return exitNotReady, fmt.Errorf("handler %s %s", status.Name, health(status))
		}
	}
	for _, status := range statuses {
		if worst(status.Feeds) != "" || startsNot(status) {
			return exitFailing, fmt.Errorf("handler %s %s", status.Name, health(status))
		}
	}
	return caddy.ExitCodeSuccess, nil
}

// health says in a few words how a handler is, behind its name: ready, or as its worst
// feed is.
func health(status report.Status) string {
	trouble := map[feed.State]string{
		feed.Down:               "is down",
		feed.NeedsAuthorization: "needs authorization",
		feed.Degraded:           "is degraded",
		feed.Unsupported:        "is offered no revision of MCP by its server",
	}[worst(status.Feeds)]
	switch {
	case status.Ready && trouble == "" && startsNot(status):
		return "is ready, but its program does not start"
	case status.Ready:
		return cmp.Or(trouble, "is ready")
	case trouble == "":
		return "is not ready"
	}
	return "is not ready: it " + trouble
}

// startsNot reports whether the server is a program whose last start failed.
func startsNot(status report.Status) bool {
	return status.Program != nil && status.Program.Failure != nil
}

// troubles are the states of a feed that somebody should look after, the worst first.
var troubles = []feed.State{feed.Down, feed.NeedsAuthorization, feed.Degraded}

// failing reports whether somebody should look after a feed in that state.
func failing(s feed.State) bool { return slices.Contains(troubles, s) }

// worst returns the state of the feed that somebody should look after first; "" if
// nobody has to. That a server does not speak a revision is no trouble, unless it speaks
// none.
func worst(feeds []report.Feed) feed.State {
	for _, state := range troubles {
		if slices.ContainsFunc(feeds, func(f report.Feed) bool { return f.State == state }) {
			return state
		}
	}
	if offersNothing(feeds) {
		return feed.Unsupported
	}
	return ""
}

// offersNothing reports whether the server speaks no revision that it was asked for.
func offersNothing(feeds []report.Feed) bool {
	return len(feeds) > 0 && !slices.ContainsFunc(feeds, func(f report.Feed) bool { return f.State != feed.Unsupported })
}

// stateText is what people are shown of the state of a feed.
func stateText(s feed.State) string {
	if s == feed.Unsupported {
		return "not offered"
	}
	return string(s)
}
