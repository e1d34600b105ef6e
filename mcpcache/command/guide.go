package command

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/probe"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	// whyTimeout is how long serve waits for one answer when it finds out what
	// is wrong with a server, whyTotal for all of them.
	whyTimeout = 2 * time.Second
	whyTotal   = 15 * time.Second
)

// whyNot says in one line what is wrong with the server at that URL, or with one era of
// it, for those who send it that header, and what to do; "" if nothing is.
func whyNot(ctx context.Context, to string, header http.Header) string {
	found, err := probe.Run(ctx, probe.Options{
		URL: to, Callers: []http.Header{header}, Timeout: whyTimeout, Total: whyTotal, MaxList: feed.DefaultMaxList, MaxPages: feed.DefaultMaxPages,
	})
	switch {
	case err != nil:
		return "Trouble: " + printable(err.Error())
	case found.Trouble == nil && len(found.FailedEras) > 0:
		return "Trouble: " + printable(to+" "+found.FailedEras[0].Words())
	case found.Trouble == nil:
		return ""
	case len(header) == 0 && (found.Trouble.Code == "unauthorized" || found.Trouble.Code == "forbidden"):
		return "Trouble: " + to + " asks for credentials. Clients' own go through to it; for the cache's, write a Caddyfile with a guard, or try --header \"Authorization: Bearer …\", with which all clients act then"
	}
	if found.Trouble.Code == "timeout" {
		return "Trouble: " + to + " does not answer: see whether the server hangs"
	}
	return "Trouble: " + printable(found.Trouble.Text)
}

// summary says in one line what is cached and what is not, and why.
func summary(statuses []report.Status) string {
	statuses = forClients(statuses)
	var kept, not []string
	for _, status := range statuses {
		for _, r := range revisionsOf(status.Kinds) {
			var here, missing []string
			for _, k := range status.Kinds {
				switch {
				case k.Revision != r || k.Kind == revision.Discover.String():
				case k.Uncacheable != "":
					missing = append(missing, k.Kind)
				default:
					here = append(here, fmt.Sprintf("%s %d", k.Kind, k.Items))
				}
			}
			if len(here) > 0 {
				kept = append(kept, r+": "+strings.Join(here, ", "))
			}
			if len(missing) > 0 {
				not = append(not, r+": "+strings.Join(missing, ", "))
			}
		}
	}
	text := ""
	if len(kept) > 0 {
		text = "Cached at " + strings.Join(kept, "; at ") + ". "
	}
	if len(not) > 0 {
		text += "Not cached at " + strings.Join(not, "; at ") +
			": ttlMs is 0, so every request for them goes to the server. With --min-ttl 1m they are kept; clients that keep lists themselves may then miss a change for that minute."
	}
	if text == "" {
		text = "The server has no lists to cache."
	}
	return strings.TrimSpace(text) + "\n"
}

// forClients returns the statuses of what clients see: of a toolkit, not its servers.
func forClients(statuses []report.Status) []report.Status {
	if toolkits := slices.DeleteFunc(slices.Clone(statuses), func(s report.Status) bool { return s.Servers == nil }); len(toolkits) > 0 {
		return toolkits
	}
	return statuses
}

// revisionsOf returns the revisions of lists, in their order.
func revisionsOf(kinds []report.Snapshot) []string {
	var found []string
	for _, k := range kinds {
		if !slices.Contains(found, k.Revision) {
			found = append(found, k.Revision)
		}
	}
	return found
}
