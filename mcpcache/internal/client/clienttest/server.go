// Package clienttest has an MCP server in memory, and a guard, for tests that speak through our
// client. It knows nothing of feeds.
package clienttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Call is a request that has reached the server.
type Call struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params struct {
		Cursor          *string         `json:"cursor"`
		RequestID       json.RawMessage `json:"requestId"`
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ClientInfo      json.RawMessage `json:"clientInfo"`
		Meta            json.RawMessage `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`

	Header http.Header `json:"-"`
}

// Script answers a call instead of the server.
type Script func(w http.ResponseWriter, r *http.Request, c Call) error

// Server is an MCP server in memory that does as its script says: any method,
// "GET" and "DELETE" may have an answer of its own.
type Server struct {
	// Mu guards all that follows while requests arrive, see Do.
	Mu       sync.Mutex
	Speaks   []string // revisions
	Kinds    []revision.Kind
	Items    map[revision.Kind][]string
	PageSize int    // 0: all on one page
	Hints    string // members of each result, such as `"ttlMs":0`
	Quiet    bool   // announces no changes
	scripts  map[string]Script
	calls    map[string][]time.Time
	Headers  []http.Header // of all requests
	Requests []Call        // all requests
	Posted   []Call        // answers to the server's own requests
	opened   int           // sessions
	Sessions map[string]bool
	streams  map[chan string]bool
}

// ErrRefused is what reverse_proxy returns when a server takes no connection.
var ErrRefused = caddyhttp.Error(http.StatusBadGateway, errors.New("connection refused"))

// New returns a server of those revisions, with two items of each kind of list. The
// first revision is what it proposes instead of one that it does not speak.
func New(speaks ...revision.Revision) *Server {
	s := &Server{
		Kinds: []revision.Kind{revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates},
		Items: make(map[revision.Kind][]string), scripts: make(map[string]Script),
		calls: make(map[string][]time.Time), Sessions: make(map[string]bool), streams: make(map[chan string]bool),
	}
	for _, r := range speaks {
		s.Speaks = append(s.Speaks, r.String())
	}
	for _, k := range s.Kinds {
		s.Items[k] = []string{k.String() + "_a", k.String() + "_b"}
	}
	return s
}

// Do changes the server while it runs.
func (s *Server) Do(f func()) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	f()
}

// On sets the answer to a method, or takes it away.
func (s *Server) On(method string, answer Script) {
	s.Do(func() {
		if answer == nil {
			delete(s.scripts, method)
			return
		}
		s.scripts[method] = answer
	})
}

// Script returns the answer to a method: that which was set, or else the server's own.
func (s *Server) Script(method string) Script {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if answer := s.scripts[method]; answer != nil {
		return answer
	}
	return s.Answer
}

// OnAll sets the answer to everything.
func (s *Server) OnAll(answer Script) {
	for _, k := range revision.Kinds() {
		s.On(k.Method(), answer)
	}
	for _, method := range []string{"initialize", "notifications/initialized", "subscriptions/listen", "GET", "DELETE"} {
		s.On(method, answer)
	}
}

// Times returns when a method was called.
func (s *Server) Times(method string) []time.Time {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return slices.Clone(s.calls[method])
}

// Bodies returns what was said in the calls of a method.
func (s *Server) Bodies(method string) []Call {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.Requests), func(c Call) bool { return c.Method != method })
}

// Count returns how often a method was called.
func (s *Server) Count(method string) int { return len(s.Times(method)) }

// Set changes a list.
func (s *Server) Set(k revision.Kind, items ...string) { s.Do(func() { s.Items[k] = items }) }

// Send sends a message on every stream.
func (s *Server) Send(message string) {
	s.Do(func() {
		for stream := range s.streams {
			stream <- message
		}
	})
}

// Notify sends a notification on every stream.
func (s *Server) Notify(method string) { s.Send(`{"jsonrpc":"2.0","method":"` + method + `"}`) }

// Cut ends every stream.
func (s *Server) Cut() {
	s.Do(func() {
		for stream := range s.streams {
			close(stream)
		}
		clear(s.streams)
	})
}

// Forget ends every session without a word.
func (s *Server) Forget() { s.Do(func() { clear(s.Sessions) }) }

// Listening returns how many streams are open.
func (s *Server) Listening() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.streams)
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	c := Call{Header: r.Header}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &c); err != nil {
			return err
		}
	}
	if r.Method != http.MethodPost {
		c.Method = r.Method
	}
	s.Mu.Lock()
	s.calls[c.Method] = append(s.calls[c.Method], time.Now())
	s.Headers = append(s.Headers, r.Header.Clone())
	s.Requests = append(s.Requests, c)
	if c.Method == "" {
		s.Posted = append(s.Posted, c)
	}
	s.Mu.Unlock()
	return s.Script(c.Method)(w, r, c)
}

// Answer is how the server answers when it has no script.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request, c Call) error {
	switch c.Method {
	case "initialize":
		return s.Initialize(w, c)
	case "server/discover":
		return s.discover(w, c)
	case "GET":
		return s.Stream(w, r, "")
	case "subscriptions/listen":
		return s.Stream(w, r, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`)
	case "DELETE":
		s.Do(func() { delete(s.Sessions, r.Header.Get("Mcp-Session-Id")) })
		w.WriteHeader(http.StatusNoContent)
		return nil
	case "", "notifications/initialized", "notifications/cancelled":
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if k, ok := revision.KindOf(c.Method); ok {
		return s.list(w, r, c, k)
	}
	return Failure(http.StatusOK, -32601, "")(w, r, c)
}

func (s *Server) capabilities() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	members := make(map[string]any)
	for _, k := range s.Kinds {
		members[k.Capability()] = map[string]bool{"listChanged": !s.Quiet}
	}
	b, _ := json.Marshal(members) // of strings and bools
	return string(b)
}

// Initialize opens a session.
func (s *Server) Initialize(w http.ResponseWriter, c Call) error {
	version := c.Params.ProtocolVersion
	s.Mu.Lock()
	if !slices.Contains(s.Speaks, version) {
		version = s.Speaks[0]
	}
	s.opened++
	id := fmt.Sprintf("session-%d", s.opened)
	s.Sessions[id] = true
	s.Mu.Unlock()
	w.Header().Set("Mcp-Session-Id", id)
	return Result(w, c, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"s","version":"1"}}`,
		version, s.capabilities()))
}

func (s *Server) discover(w http.ResponseWriter, c Call) error {
	versions, _ := json.Marshal(s.Speaks) // of strings
	return Result(w, c, fmt.Sprintf(`{"resultType":"complete","supportedVersions":%s,"capabilities":%s%s}`,
		versions, s.capabilities(), s.withHints()))
}

func (s *Server) withHints() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Hints == "" {
		return ""
	}
	return "," + s.Hints
}

// list answers with one page. Its cursor is the number of its first item.
func (s *Server) list(w http.ResponseWriter, r *http.Request, c Call, k revision.Kind) error {
	s.Mu.Lock()
	id := r.Header.Get("Mcp-Session-Id")
	known := s.Sessions[id] || id == "" && len(c.Params.Meta) > 0
	items, from, to := s.Items[k], 0, len(s.Items[k])
	if c.Params.Cursor != nil {
		_, _ = fmt.Sscan(*c.Params.Cursor, &from)
	}
	if s.PageSize > 0 {
		to = min(from+s.PageSize, to)
	}
	s.Mu.Unlock()
	if !known {
		return Failure(http.StatusNotFound, -32001, "")(w, r, c)
	}
	next := ""
	if to < len(items) {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, to)
	}
	return Result(w, c, fmt.Sprintf(`{%q:%s%s%s}`, k.ItemsKey(), itemsOfKind(k, items[from:to]), next, s.withHints()))
}

func itemsOfKind(k revision.Kind, names []string) string {
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = fmt.Sprintf(`{%q:%q}`, k.IDKey(), name)
	}
	return "[" + strings.Join(items, ",") + "]"
}

// Stream is a stream of messages that begins with first.
func (s *Server) Stream(w http.ResponseWriter, r *http.Request, first string) error {
	messages := make(chan string, 2000)
	s.Do(func() { s.streams[messages] = true })
	defer s.Do(func() { delete(s.streams, messages) })
	if first != "" {
		messages <- first
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if err := http.NewResponseController(w).Flush(); err != nil {
		return err
	}
	for {
		select {
		case message, open := <-messages:
			if !open {
				return nil
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", message); err != nil {
				return err
			}
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}
