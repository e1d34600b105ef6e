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

// describeToolkit adds the servers of a toolkit, their conflicts, and its clients.
func (status *Status) describeToolkit(t Toolkit) {
	status.Sessions, status.Listeners = t.Sessions(), t.Listeners()
	conflicts := t.Conflicts()
	status.Conflicts = conflicts[:min(len(conflicts), maxConflicts)]
	status.MoreConflicts = len(conflicts) - len(status.Conflicts)
	for _, server := range t.Servers() {
		status.Servers = append(status.Servers, Server{Name: server.Name(), LeftOut: leftOut(server)})
	}
}

// leftOut returns why clients see nothing of a server of a toolkit; "" if they do.
func leftOut(server Source) string {
	for _, r := range revision.All() {
		for _, k := range revision.Kinds() {
			if server.Pinned(r, k) != nil {
				return ""
			}
		}
	}
	for _, f := range server.Feeds().All() {
		if status := f.Status(); status.Failure != nil && status.State != feed.Unsupported {
			return "it has not been reached yet: " + plainly(server, status.Failure.Err)
		}
	}
	return "it has not been reached yet"
}
