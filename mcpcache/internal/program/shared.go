package program

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/version"
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
var ourName = `{"name":"mcp_cache","version":"` + version.Own() + `"}`

// greet implements [owner]. Sessions whose client knows the program as another one end.
func (s *shared) greet(c *child, timeout time.Duration) ([]byte, error) {
	answer, err := s.program.greet(c, sharedHello, timeout)
	_, refused := errors.AsType[*refusal](err)
	if err != nil && !refused {
		return nil, err
	}
	for _, session := range s.program.known() {
		if known := session.introduced(); known != nil && (refused || known.offers != offers(sharedResult(answer, session.initialize))) {
			s.program.forget(session)
		}
	}
	return answer, err
}

// watches implements [owner].
func (s *shared) watches() bool {
	return slices.ContainsFunc(s.program.known(), (*clientSession).watches)
}

// replaces implements [owner].
func (s *shared) replaces() bool {
	return slices.ContainsFunc(s.program.known(), (*clientSession).replaces)
}

// restarted implements [owner].
func (s *shared) restarted(*child) {
	for _, session := range s.program.known() {
		session.announce(allChanges...)
	}
}

// greeted implements [owner].
func (s *shared) greeted(*child) []*again {
	messages := []*again{{line: initialized}}
	seen := make(map[string]bool)
	for _, session := range s.program.known() {
		session.mu.Lock()
		for uri, to := range session.subscribed {
			if !seen[uri] {
				seen[uri] = true
				messages = append(messages, &again{line: to.request})
			}
		}
		session.mu.Unlock()
	}
	return messages
}

// handleRequest implements [owner].
func (*shared) handleRequest(c *child, _ []byte, e message.Envelope) {
	c.refuse(e, "several clients share this process: none can be asked")
}

// handleNotification implements [owner]. Changes of lists concern all sessions, those of a resource the ones that
// have subscribed to it. Of anything else nobody knows whom it concerns.
func (s *shared) handleNotification(c *child, line []byte, method string) {
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

// left ends the subscriptions of a session that has ended and that no other one has.
func (s *shared) left(gone *clientSession) {
	c := gone.slot.running()
	if c == nil {
		return
	}
	gone.mu.Lock()
	uris := slices.Collect(maps.Keys(gone.subscribed))
	gone.mu.Unlock()
	for _, uri := range uris {
		if !s.isSubscribed(uri) {
			c.repeat(&again{line: unsubscribe(uri)})
		}
	}
}

// isSubscribed reports whether a session has that subscription.
func (s *shared) isSubscribed(uri string) bool {
	return slices.ContainsFunc(s.program.known(), func(session *clientSession) bool { return session.subscription(uri) })
}

// unsubscribe returns a request.
func unsubscribe(uri string) []byte {
	line, _ := message.WithString([]byte(`{"jsonrpc":"2.0","id":0,"method":"resources/unsubscribe","params":{"uri":""}}`), uri, "params", "uri")
	return line
}

// handleExit implements [owner].
func (*shared) handleExit(*child) {}

// sharedResult returns the result of initialize for a client, of what the process has said. The
// client is answered at the revision that it knows, if that is older than the process's.
func sharedResult(result, initialize []byte) []byte {
	wanted := message.StringAt(initialize, "params", "protocolVersion")
	if known := revision.Parse(wanted); known == revision.Unknown || known.Era() != revision.Legacy ||
		wanted >= message.StringAt(result, "protocolVersion") {
		return result
	}
	adapted, err := message.WithString(result, wanted, "protocolVersion")
	if err != nil {
		return result // it has none that could be another
	}
	return adapted
}

// shares reports whether the session's process is that of all sessions.
func (s *clientSession) shares() bool { return s.slot.owner != owner(s) }

// keptFromProcess answers what must not reach a process that others share: a subscription ends when
// the last session that has it ends it. It returns nil if the process is asked.
func (s *clientSession) keptFromProcess(request *message.Request, body []byte) []byte {
	if !s.shares() || string(request.Method) != "resources/unsubscribe" {
		return nil
	}
	uri := message.StringAt(body, "params", "uri")
	for _, other := range s.program.known() {
		if other != s && other.subscription(uri) {
			_ = s.remember(string(request.Method), body) // it forgets
			return result(request.ID, []byte("{}"))
		}
	}
	return nil
}
