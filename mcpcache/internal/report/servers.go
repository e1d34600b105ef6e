package report

import (
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Server is one of the servers of a toolkit.
type Server struct {
	// Name is what it is called, behind the toolkit's name and a slash.
	Name string `json:"name"`
	// LeftOut is why clients see nothing of it, in plain words.
	LeftOut string `json:"left_out,omitempty"`
}

// Conflict is something that clients of a toolkit are not given as a server has it.
type Conflict struct {
	Kind   string `json:"kind"`
	Server string `json:"server"`
	// Item is what the server calls it; left out if it is about a whole list.
	Item string `json:"item,omitempty"`
	// Why is in plain words.
	Why string `json:"why"`
}

// maxConflicts bounds how many conflicts are named. MoreConflicts says how many are not.
const maxConflicts = 100

// describeServers adds the servers of a toolkit, and what is between them.
func (status *Status) describeServers(servers []Source, conflicts []Conflict) {
	status.Conflicts = conflicts[:min(len(conflicts), maxConflicts)]
	status.MoreConflicts = len(conflicts) - len(status.Conflicts)
	for _, server := range servers {
		status.Servers = append(status.Servers, Server{Name: server.Name(), LeftOut: leftOut(server)})
	}
}

// leftOut returns why clients see nothing of a server of a toolkit, or which do not; "" if
// all see it. As yet, clients see the servers that speak their own era.
func leftOut(server Source) string {
	legacy, modern := shows(server, revision.Legacy), shows(server, revision.Modern)
	switch {
	case legacy && modern:
		return ""
	case legacy:
		return only(server, revision.Modern, revision.LatestModern.String(), "of a revision with sessions")
	case modern:
		return only(server, revision.Legacy, "a revision with sessions", "of "+revision.LatestModern.String())
	}
	for _, f := range server.Feeds().All() {
		if status := f.Status(); status.Failure != nil && status.State != feed.Unsupported {
			return "it has not been reached yet: " + plainly(status.Failure.Err)
		}
	}
	return "it has not been reached yet"
}

// shows reports whether there is a list of a server at a revision of an era.
func shows(server Source, era revision.Era) bool {
	for _, r := range revision.All() {
		for _, k := range revision.Kinds() {
			if r.Era() == era && server.Pinned(r, k) != nil {
				return true
			}
		}
	}
	return false
}

// only returns that a server is seen by clients of the other era alone, if that is known, or "".
func only(server Source, era revision.Era, speaks, clients string) string {
	spoken := false
	for _, f := range server.Feeds().All() {
		spoken = spoken || f.Status().Revision.Era() == era && f.Status().State != feed.Unsupported
	}
	if spoken {
		return "" // it has not been asked yet, or does not answer
	}
	return "only clients " + clients + " see it: it does not speak " + speaks + ", or the option eras leaves that out"
}
