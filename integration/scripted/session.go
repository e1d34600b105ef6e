package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// historyLength is how many events a session keeps for resumption.
const historyLength = 4096

// session is what a legacy client has opened.
type session struct {
	id       string
	revision string
	auth     string
	feed     bool
	events   int      // how many have been sent on GET streams
	history  []string // the last of them
	waiting  map[string]chan Message
}

// answer hands a client's response to who asked for it. The server's lock is
// held.
func (s *session) answer(m Message) {
	if c := s.waiting[string(m.ID)]; c != nil {
		delete(s.waiting, string(m.ID))
		c <- m
	}
}

// remember keeps an event and returns its ID. The server's lock is held.
func (s *session) remember(data string) string {
	s.events++
	s.history = append(s.history, data)
	if len(s.history) > historyLength {
		s.history = s.history[len(s.history)-historyLength:]
	}
	return strconv.Itoa(s.events)
}

func (x *Exchange) initialize() {
	latest := x.server.legacy()
	requested, _ := x.param("protocolVersion")
	if latest == "" {
		x.unsupported(requested)
		return
	}
	revision := latest
	if requested < Modern && x.server.speaks(requested) {
		revision = requested
	}
	s := x.server
	s.mu.Lock()
	if s.settings.sessions {
		s.minted++
		opened := &session{
			id: fmt.Sprintf("session-%d", s.minted), revision: revision, auth: x.Auth, feed: x.Feed,
			waiting: make(map[string]chan Message),
		}
		s.sessions[opened.id] = opened
		x.W.Header().Set("Mcp-Session-Id", opened.id)
	}
	capabilities := s.settings.capabilities
	s.mu.Unlock()
	x.Result(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"scripted","version":"1"}}`,
		revision, capabilities))
}

// validLegacy answers the request and reports false if it is not valid.
func (x *Exchange) validLegacy() bool {
	if x.Revision != "" && !x.server.speaks(x.Revision) {
		x.Error(http.StatusBadRequest, -32000, "Bad Request: unsupported protocol version")
		return false
	}
	if status := x.server.sessionStatus(x.Session); status != 0 {
		x.Error(status, -32001, "session not found")
		return false
	}
	return true
}

// sessionStatus is 0 for a session that lives, else the status that says so.
func (s *Server) sessionStatus(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.settings.sessions:
		return 0
	case id == "":
		return http.StatusBadRequest
	case s.sessions[id] == nil:
		return http.StatusNotFound
	}
	return 0
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	if status := s.sessionStatus(id); status != 0 {
		http.Error(w, "no such session", status)
		return
	}
	s.EndSession(id)
	w.WriteHeader(http.StatusNoContent)
}

// EndSession ends one session, of which the server knows nothing any more.
func (s *Server) EndSession(id string) {
	s.mu.Lock()
	delete(s.sessions, id)
	s.mu.Unlock()
	s.EndStreams(func(info StreamInfo) bool { return info.Session == id })
}

// ForgetSessions does what a restart of the server does to its sessions.
func (s *Server) ForgetSessions() {
	s.mu.Lock()
	s.sessions = make(map[string]*session)
	s.mu.Unlock()
	s.EndStreams(func(info StreamInfo) bool { return !info.Modern })
}

// Lives reports whether a session is open.
func (s *Server) Lives(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id] != nil
}

// Sessions returns how many sessions of clients and of feeds live.
func (s *Server) Sessions() (clients, feeds int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		if session.feed {
			feeds++
		} else {
			clients++
		}
	}
	return clients, feeds
}

const (
	metaRevision     = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// validModern answers the request and reports false if it is not valid
// (2026-07-28, "Request Metadata").
func (x *Exchange) validModern() bool {
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	// Params that are no object have no _meta either.
	_ = json.Unmarshal(x.Params, &params)
	revision := x.meta(metaRevision)
	name, named := x.param("name")
	if x.Method == "resources/read" {
		name, named = x.param("uri")
	}
	h := x.R.Header
	switch {
	case x.ID == nil:
		return true
	case revision == "" || params.Meta[metaCapabilities] == nil:
		x.Error(http.StatusBadRequest, -32602, "missing _meta")
	case x.Revision != revision:
		x.Error(http.StatusBadRequest, -32020, "header mismatch: protocol version")
	case !x.server.speaks(revision):
		x.unsupported(revision)
	case h.Get("Mcp-Method") != x.Method:
		x.Error(http.StatusBadRequest, -32020, "header mismatch: method")
	case named && h.Get("Mcp-Name") != name && slices.Contains(namedMethods, x.Method):
		x.Error(http.StatusBadRequest, -32020, "header mismatch: name")
	default:
		return true
	}
	return false
}

// namedMethods are those whose name is mirrored into a header.
var namedMethods = []string{"tools/call", "resources/read", "prompts/get"}

func (x *Exchange) unsupported(requested string) {
	x.server.mu.Lock()
	supported, err := json.Marshal(x.server.settings.revisions)
	x.server.mu.Unlock()
	if err != nil {
		panic(err) // strings always marshal
	}
	x.Error(http.StatusBadRequest, -32022, "unsupported protocol version",
		fmt.Sprintf(`{"supported":%s,"requested":%q}`, supported, requested))
}

func (s *Server) discover() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	supported, err := json.Marshal(s.settings.revisions)
	if err != nil {
		panic(err) // strings always marshal
	}
	result := fmt.Sprintf(`{"resultType":"complete","supportedVersions":%s,"capabilities":%s,`+
		`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"scripted","version":"1"}}`,
		supported, s.settings.capabilities)
	if s.settings.hints != "" {
		result += "," + s.settings.hints
	}
	return result + "}"
}
