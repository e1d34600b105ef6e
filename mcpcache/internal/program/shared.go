package program

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// shared is the one process of all sessions, for programs of which there cannot be two. It is
// told of one client, which can do nothing: what it would ask could not be told to whom.
type shared struct {
	program *Program
}

var (
	sharedHello = []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` +
		revision.LatestLegacy.String() + `","capabilities":{},"clientInfo":` + ourName + `}}`)
	initialized = []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
)

// ourName is clientInfo where no client's can be used.
const ourName = `{"name":"caddy-mcp-cache","version":"1"}`

// greet implements [owner].
func (*shared) greet(c *child, timeout time.Duration) ([]byte, error) {
	return c.initialize(sharedHello, timeout)
}

// greeted implements [owner].
func (s *shared) greeted() [][]byte {
	lines := [][]byte{initialized}
	seen := make(map[string]bool)
	for _, session := range s.program.known() {
		session.mu.Lock()
		for uri, request := range session.subscribed {
			if !seen[uri] {
				seen[uri] = true
				lines = append(lines, request)
			}
		}
		session.mu.Unlock()
	}
	return lines
}

// asks implements [owner].
func (*shared) asks(c *child, _ []byte, e message.Envelope) {
	c.refuse(e, "several clients share this process: none can be asked")
}

// hears implements [owner]. Changes of lists concern all sessions, those of a resource the ones that
// have subscribed to it. Of anything else nobody knows whom it concerns.
func (s *shared) hears(c *child, line []byte, method string) {
	uri := ""
	if method == "notifications/resources/updated" {
		uri = message.StringAt(line, "params", "uri")
	} else if !revision.IsListChanged(method) {
		return
	}
	for _, session := range s.program.known() {
		if uri == "" || session.subscribesTo(uri) {
			session.put(c, line, true)
		}
	}
}

// subscribesTo reports whether a session has subscribed to a resource, or to one that it is a part of
// (2025-11-25, schema, "ResourceUpdatedNotification").
func (s *session) subscribesTo(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for subscribed := range s.subscribed {
		if strings.HasPrefix(uri, subscribed) {
			return true
		}
	}
	return false
}

// left ends the subscriptions of a session that has ended and that no other one has.
func (s *shared) left(gone *session) {
	c := gone.slot.running()
	if c == nil {
		return
	}
	gone.mu.Lock()
	uris := slices.Collect(maps.Keys(gone.subscribed))
	gone.mu.Unlock()
	for _, uri := range uris {
		if !s.isSubscribed(uri) {
			c.repeat(unsubscribe(uri))
		}
	}
}

// isSubscribed reports whether a session has that subscription.
func (s *shared) isSubscribed(uri string) bool {
	return slices.ContainsFunc(s.program.known(), func(session *session) bool { return session.subscription(uri) != nil })
}

// unsubscribe returns a request.
func unsubscribe(uri string) []byte {
	line, _ := message.WithString([]byte(`{"jsonrpc":"2.0","id":0,"method":"resources/unsubscribe","params":{"uri":""}}`), uri, "params", "uri")
	return line
}

// lost implements [owner].
func (*shared) lost(*child) {}

// sharedResult returns the result of initialize for a client, of what the process has said. The
// client is answered at the revision that it knows, if that is older than the process's.
func sharedResult(result, initialize []byte) ([]byte, error) {
	wanted := message.StringAt(initialize, "params", "protocolVersion")
	if known := revision.Parse(wanted); known == revision.Unknown || known.Era() != revision.Legacy ||
		wanted >= message.StringAt(result, "protocolVersion") {
		return result, nil
	}
	return message.WithString(result, wanted, "protocolVersion")
}

// shares reports whether the session's process is that of all sessions.
func (s *session) shares() bool { return s.slot.owner != owner(s) }

// keptFromProcess answers what must not reach a process that others share: a subscription ends when
// the last session that has it ends it. It returns nil if the process is asked.
func (s *session) keptFromProcess(request *message.Request, body []byte) []byte {
	if !s.shares() || string(request.Method) != "resources/unsubscribe" {
		return nil
	}
	uri := message.StringAt(body, "params", "uri")
	for _, other := range s.program.known() {
		if other != s && other.subscription(uri) != nil {
			_ = s.remember(string(request.Method), body) // it forgets
			return bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","id":`), request.ID, []byte(`,"result":{}}`)}, nil)
		}
	}
	return nil
}
