package feed

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

// call is a request that has reached the server.
type call struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params struct {
		Cursor          *string         `json:"cursor"`
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ClientInfo      json.RawMessage `json:"clientInfo"`
		Meta            json.RawMessage `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`

	header http.Header
}

// script answers a call instead of the server.
type script func(w http.ResponseWriter, r *http.Request, c call) error

// server is an MCP server in memory that does as its script says: any method,
// "GET" and "DELETE" may have an answer of its own.
type server struct {
	mu       sync.Mutex
	speaks   []string // revisions
	kinds    []revision.Kind
	items    map[revision.Kind][]string
	pageSize int    // 0: all on one page
	hints    string // members of each result, such as `"ttlMs":0`
	quiet    bool   // announces no changes
	scripts  map[string]script
	calls    map[string][]time.Time
	headers  []http.Header // of all requests
	said     []call        // all requests
	posted   []call        // answers to the server's own requests
	opened   int           // sessions
	sessions map[string]bool
	streams  map[chan string]bool
}

var errRefused = caddyhttp.Error(http.StatusBadGateway, errors.New("connection refused"))

func newServer(speaks ...revision.Revision) *server {
	s := &server{
		kinds: []revision.Kind{revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates},
		items: make(map[revision.Kind][]string), scripts: make(map[string]script),
		calls: make(map[string][]time.Time), sessions: make(map[string]bool), streams: make(map[chan string]bool),
	}
	for _, r := range speaks {
		s.speaks = append(s.speaks, r.String())
	}
	for _, k := range s.kinds {
		s.items[k] = []string{k.String() + "_a", k.String() + "_b"}
	}
	return s
}

// do changes the server while it runs.
func (s *server) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// on sets the answer to a method, or takes it away.
func (s *server) on(method string, answer script) {
	s.do(func() {
		if answer == nil {
			delete(s.scripts, method)
			return
		}
		s.scripts[method] = answer
	})
}

// onAll sets the answer to everything.
func (s *server) onAll(answer script) {
	for _, k := range revision.Kinds() {
		s.on(k.Method(), answer)
	}
	for _, method := range []string{"initialize", "notifications/initialized", "subscriptions/listen", "GET", "DELETE"} {
		s.on(method, answer)
	}
}

// times returns when a method was called.
func (s *server) times(method string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls[method])
}

// bodies returns what was said in the calls of a method.
func (s *server) bodies(method string) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.said), func(c call) bool { return c.Method != method })
}

func (s *server) count(method string) int { return len(s.times(method)) }

// set changes a list.
func (s *server) set(k revision.Kind, items ...string) { s.do(func() { s.items[k] = items }) }

// send sends a message on every stream.
func (s *server) send(message string) {
	s.do(func() {
		for stream := range s.streams {
			stream <- message
		}
	})
}

func (s *server) notify(method string) { s.send(`{"jsonrpc":"2.0","method":"` + method + `"}`) }

// cut ends every stream.
func (s *server) cut() {
	s.do(func() {
		for stream := range s.streams {
			close(stream)
		}
		clear(s.streams)
	})
}

// forget ends every session without a word.
func (s *server) forget() { s.do(func() { clear(s.sessions) }) }

func (s *server) listening() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	c := call{header: r.Header}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &c); err != nil {
			return err
		}
	}
	if r.Method != http.MethodPost {
		c.Method = r.Method
	}
	s.mu.Lock()
	s.calls[c.Method] = append(s.calls[c.Method], time.Now())
	s.headers = append(s.headers, r.Header.Clone())
	s.said = append(s.said, c)
	if c.Method == "" {
		s.posted = append(s.posted, c)
	}
	answer := s.scripts[c.Method]
	s.mu.Unlock()
	if answer == nil {
		answer = s.answer
	}
	return answer(w, r, c)
}

// answer is how the server answers when it has no script.
func (s *server) answer(w http.ResponseWriter, r *http.Request, c call) error {
	switch c.Method {
	case "initialize":
		return s.initialize(w, c)
	case "server/discover":
		return s.discover(w, c)
	case "GET":
		return s.stream(w, r, "")
	case "subscriptions/listen":
		return s.stream(w, r, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`)
	case "DELETE":
		s.do(func() { delete(s.sessions, r.Header.Get("Mcp-Session-Id")) })
		w.WriteHeader(http.StatusNoContent)
		return nil
	case "", "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if k, ok := revision.KindOf(c.Method); ok {
		return s.list(w, r, c, k)
	}
	return failure(http.StatusOK, -32601, "")(w, r, c)
}

func (s *server) capabilities() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := make(map[string]any)
	for _, k := range s.kinds {
		members[k.Capability()] = map[string]bool{"listChanged": !s.quiet}
	}
	b, _ := json.Marshal(members) // of strings and bools
	return string(b)
}

func (s *server) initialize(w http.ResponseWriter, c call) error {
	version := c.Params.ProtocolVersion
	s.mu.Lock()
	if !slices.Contains(s.speaks, version) {
		version = s.speaks[0]
	}
	s.opened++
	id := fmt.Sprintf("session-%d", s.opened)
	s.sessions[id] = true
	s.mu.Unlock()
	w.Header().Set("Mcp-Session-Id", id)
	return result(w, c, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"s","version":"1"}}`,
		version, s.capabilities()))
}

func (s *server) discover(w http.ResponseWriter, c call) error {
	versions, _ := json.Marshal(s.speaks) // of strings
	return result(w, c, fmt.Sprintf(`{"resultType":"complete","supportedVersions":%s,"capabilities":%s%s}`,
		versions, s.capabilities(), s.withHints()))
}

func (s *server) withHints() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hints == "" {
		return ""
	}
	return "," + s.hints
}

// list answers with one page. Its cursor is the number of its first item.
func (s *server) list(w http.ResponseWriter, r *http.Request, c call, k revision.Kind) error {
	s.mu.Lock()
	id := r.Header.Get("Mcp-Session-Id")
	known := s.sessions[id] || id == "" && len(c.Params.Meta) > 0
	items, from, to := s.items[k], 0, len(s.items[k])
	if c.Params.Cursor != nil {
		_, _ = fmt.Sscan(*c.Params.Cursor, &from)
	}
	if s.pageSize > 0 {
		to = min(from+s.pageSize, to)
	}
	s.mu.Unlock()
	if !known {
		return failure(http.StatusNotFound, -32001, "")(w, r, c)
	}
	next := ""
	if to < len(items) {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, to)
	}
	return result(w, c, fmt.Sprintf(`{%q:%s%s%s}`, k.ItemsKey(), itemsOfKind(k, items[from:to]), next, s.withHints()))
}

func itemsOfKind(k revision.Kind, names []string) string {
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = fmt.Sprintf(`{%q:%q}`, k.IDKey(), name)
	}
	return "[" + strings.Join(items, ",") + "]"
}

// stream is a stream of messages that begins with first.
func (s *server) stream(w http.ResponseWriter, r *http.Request, first string) error {
	messages := make(chan string, 2000)
	s.do(func() { s.streams[messages] = true })
	defer s.do(func() { delete(s.streams, messages) })
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

func result(w http.ResponseWriter, c call, result string) error {
	return reply(w, http.StatusOK, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, result))
}

func reply(w http.ResponseWriter, status int, mediaType, body string) error {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_, err := io.WriteString(w, body)
	return err
}

// gives answers with a result.
func gives(text string) script {
	return func(w http.ResponseWriter, _ *http.Request, c call) error { return result(w, c, text) }
}

// failure answers with a JSON-RPC error.
func failure(status, code int, supported string) script {
	data := ""
	if supported != "" {
		data = fmt.Sprintf(`,"data":{"supported":[%q]}`, supported)
	}
	return func(w http.ResponseWriter, _ *http.Request, c call) error {
		return reply(w, status, "application/json",
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"%s}}`, c.ID, code, data))
	}
}

// status answers with a status alone.
func status(code int, header ...string) script {
	return func(w http.ResponseWriter, _ *http.Request, _ call) error {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		return reply(w, code, "text/html", "<html>")
	}
}

func refuse(http.ResponseWriter, *http.Request, call) error { return errRefused }

// hang never answers.
func hang(_ http.ResponseWriter, r *http.Request, _ call) error {
	<-r.Context().Done()
	return r.Context().Err()
}
