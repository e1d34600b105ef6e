// Package scripted is an MCP server of both eras. A test chooses its every byte: fields that no
// SDK knows, numbers that no float holds, odd white space, pages, sessions, and change notices. On
// demand it misbehaves in every way.
//
// It is deliberately built on nothing but net/http, so that the bytes of a test leave unchanged.
package scripted

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Revisions that the server speaks unless told otherwise.
const (
	Modern       = "2026-07-28"
	LatestLegacy = "2025-11-25"
)

// ClientAgent begins the User-Agent of every client of the tests. Whoever
// comes without it is taken for the feed.
const ClientAgent = "mcptest"

// Server is a scripted MCP server. All methods may be called at any time from
// several goroutines.
type Server struct {
	mu       sync.Mutex
	settings settings
	scripts  map[string]Script
	sessions map[string]*session
	streams  map[*stream]struct{}
	minted   int
	opened   map[string]int
}

// settings are what a test may change while the server runs.
type settings struct {
	revisions    []string
	sessions     bool
	sse          bool
	interleaved  []string
	envelope     func(id, result string) string
	hints        string
	members      map[string]string
	lists        map[string][]Page
	private      map[string]map[string][]Page
	sessionLists map[string]map[string][]Page
	contents     map[string]string
	door         func(*http.Request) int
	capabilities string
	batches      bool
	resumable    bool
}

// New returns a server of both eras with sessions, without any items, which
// answers in JSON and gives public lists of one hour.
func New() *Server {
	return &Server{
		settings: settings{
			revisions:    []string{Modern, LatestLegacy, "2025-06-18", "2025-03-26"},
			sessions:     true,
			hints:        `"ttlMs":3600000,"cacheScope":"public"`,
			members:      make(map[string]string),
			lists:        make(map[string][]Page),
			private:      make(map[string]map[string][]Page),
			sessionLists: make(map[string]map[string][]Page),
			contents:     make(map[string]string),
			capabilities: `{"tools":{"listChanged":true},"prompts":{"listChanged":true},` +
				`"resources":{"listChanged":true,"subscribe":true},"logging":{},"completions":{}}`,
		},
		scripts:  make(map[string]Script),
		sessions: make(map[string]*session),
		streams:  make(map[*stream]struct{}),
		opened:   make(map[string]int),
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status := s.refusal(r); status != 0 {
		refuse(w, status)
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.get(w, r)
	case http.MethodDelete:
		s.delete(w, r)
	default:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

// refusal asks the door; 0 lets in.
func (s *Server) refusal(r *http.Request) int {
	s.mu.Lock()
	door := s.settings.door
	s.mu.Unlock()
	if door == nil {
		return 0
	}
	if status := door(r); status >= 400 {
		return status
	}
	return 0
}

func refuse(w http.ResponseWriter, status int) {
	challenge := `Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"`
	if status == http.StatusForbidden {
		challenge = `Bearer error="insufficient_scope", scope="lists"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, http.StatusText(status), status)
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	if messages := s.batch(body); messages != nil {
		s.answerBatch(w, r, messages)
		return
	}
	s.answer(w, r, body)
}

// answer answers one message.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	x := &Exchange{Message: parse(r, body), W: w, R: r, server: s}
	if x.Method == "" && x.ID == nil {
		x.Error(http.StatusBadRequest, -32700, "parse error")
		return
	}
	if x.Method == "" {
		s.accept(w, x.Message)
		return
	}
	if script := s.script(x.Method); script != nil {
		script(x)
		return
	}
	x.Default()
}

// accept takes a client's response to a request of ours.
func (s *Server) accept(w http.ResponseWriter, m Message) {
	s.mu.Lock()
	if found := s.sessions[m.Session]; found != nil {
		found.answer(m)
	}
	s.mu.Unlock()
	w.WriteHeader(http.StatusAccepted)
}

func (s *Server) script(method string) Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	if script := s.scripts[method]; script != nil {
		return script
	}
	return s.scripts["*"]
}

// Message is what a request says.
type Message struct {
	// ID is as the client wrote it; nil for a notification.
	ID       json.RawMessage
	Method   string
	Params   json.RawMessage
	Session  string
	Auth     string
	Revision string
	Modern   bool
	Feed     bool
	Body     []byte
}

func parse(r *http.Request, body []byte) Message {
	m := Message{
		Session:  r.Header.Get("Mcp-Session-Id"),
		Auth:     r.Header.Get("Authorization"),
		Revision: r.Header.Get("Mcp-Protocol-Version"),
		Feed:     !strings.HasPrefix(r.UserAgent(), ClientAgent),
		Body:     body,
	}
	var wire struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(body, &wire) != nil {
		return m
	}
	m.ID, m.Method, m.Params = wire.ID, wire.Method, wire.Params
	m.Modern = m.Revision >= Modern || m.meta(metaRevision) != ""
	return m
}

// meta returns a string member of params._meta.
func (m *Message) meta(key string) string {
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(m.Params, &params) != nil {
		return ""
	}
	var value string
	if json.Unmarshal(params.Meta[key], &value) != nil {
		return ""
	}
	return value
}

// param returns a string member of params, and whether it is there.
func (m *Message) param(key string) (string, bool) {
	var params map[string]json.RawMessage
	if json.Unmarshal(m.Params, &params) != nil {
		return "", false
	}
	var value string
	if json.Unmarshal(params[key], &value) != nil {
		return "", false
	}
	return value, true
}

// speaks reports whether the server has that revision.
func (s *Server) speaks(revision string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.settings.revisions, revision)
}

// legacy returns the newest revision of the legacy era, or "".
func (s *Server) legacy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.settings.revisions {
		if r < Modern {
			return r
		}
	}
	return ""
}
