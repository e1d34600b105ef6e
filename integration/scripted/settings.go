package scripted

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Page holds the items of one page of a list, each as it shall leave.
type Page []string

// Script answers a request instead of the server.
type Script func(*Exchange)

func (s *Server) set(change func(*settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.settings)
}

// SetRevisions says which revisions the server speaks, newest first.
func (s *Server) SetRevisions(revisions ...string) {
	s.set(func(t *settings) { t.revisions = slices.Clone(revisions) })
}

// SetSessions says whether initialize opens a session.
func (s *Server) SetSessions(on bool) { s.set(func(t *settings) { t.sessions = on }) }

// SetSSE says whether answers leave as event streams, each after those
// notifications.
func (s *Server) SetSSE(on bool, interleaved ...string) {
	s.set(func(t *settings) { t.sse, t.interleaved = on, slices.Clone(interleaved) })
}

// SetEnvelope says how a result becomes a response to a request of that id; nil: as
// JSON-RPC has it.
func (s *Server) SetEnvelope(envelope func(id, result string) string) {
	s.set(func(t *settings) { t.envelope = envelope })
}

// SetBatches says whether the server answers batches.
func (s *Server) SetBatches(on bool) { s.set(func(t *settings) { t.batches = on }) }

// SetResumable says whether answers in event streams of legacy sessions are
// remembered, so that a GET stream can repeat them.
func (s *Server) SetResumable(on bool) { s.set(func(t *settings) { t.resumable = on }) }

// Hints that servers give, for [Server.SetHints].
const (
	PublicHour  = `"ttlMs":3600000,"cacheScope":"public"`
	PrivateHour = `"ttlMs":3600000,"cacheScope":"private"`
	PublicBrief = `"ttlMs":300,"cacheScope":"public"`
	// PrivateBrief is PublicBrief for lists of single callers.
	PrivateBrief = `"ttlMs":300,"cacheScope":"private"`
)

// SDKDefault is what the TypeScript, Python and FastMCP servers of the modern
// era send unless their author has set hints.
const SDKDefault = `"ttlMs":0,"cacheScope":"private"`

// SetHints sets the caching members of modern results, such as
// `"ttlMs":0,"cacheScope":"private"`; "" leaves them out.
func (s *Server) SetHints(members string) { s.set(func(t *settings) { t.hints = members }) }

// SetMembers adds members to every page of a list, such as `"x-vendor":1.0`.
func (s *Server) SetMembers(method, members string) {
	s.set(func(t *settings) { t.members[method] = members })
}

// SetCapabilities sets what discover and initialize say.
func (s *Server) SetCapabilities(object string) {
	s.set(func(t *settings) { t.capabilities = object })
}

// SetList replaces the list that a method gives to everybody.
func (s *Server) SetList(method string, pages ...Page) {
	s.set(func(t *settings) { t.lists[method] = pages })
}

// SetPrivateList replaces the list that a method gives to those who present
// that Authorization.
func (s *Server) SetPrivateList(authorization, method string, pages ...Page) {
	s.set(func(t *settings) { putList(t.private, authorization, method, pages) })
}

// SetSessionList replaces the list that a method gives to one session.
func (s *Server) SetSessionList(session, method string, pages ...Page) {
	s.set(func(t *settings) { putList(t.sessionLists, session, method, pages) })
}

// putList replaces the inner map, so that a reader may keep the one it has.
func putList(all map[string]map[string][]Page, owner, method string, pages []Page) {
	lists := maps.Clone(all[owner])
	if lists == nil {
		lists = make(map[string][]Page)
	}
	lists[method] = pages
	all[owner] = lists
}

// SetContents replaces what resources/read gives for a URI: the members of an
// item of contents besides the uri.
func (s *Server) SetContents(uri, members string) {
	s.set(func(t *settings) { t.contents[uri] = members })
}

// SetDoor sets who is let in: a status of 400 or more refuses a request. nil
// lets everybody in.
func (s *Server) SetDoor(door func(*http.Request) int) {
	s.set(func(t *settings) { t.door = door })
}

// SetScript makes script answer the requests of a method, "*" those of all
// methods that have none of their own. nil takes it away.
func (s *Server) SetScript(method string, script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if script == nil {
		delete(s.scripts, method)
		return
	}
	s.scripts[method] = script
}

// Bearers returns a door, for [Server.SetDoor], that lets bearers of those tokens in, and refuses others by 401.
func Bearers(tokens ...string) func(*http.Request) int {
	return func(r *http.Request) int {
		if slices.Contains(tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
			return 0
		}
		return http.StatusUnauthorized
	}
}
