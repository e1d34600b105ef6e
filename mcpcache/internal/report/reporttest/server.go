package reporttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// ListServer is an upstream of the modern era with lists that a test sets, by
// method. A method without a list is not offered.
type ListServer struct {
	mu    sync.Mutex
	lists map[string][]string
	calls map[string]int
	hold  chan struct{}
	mute  chan struct{}
}

// Set makes it offer a list of items of those names.
func (s *ListServer) Set(method string, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[method] = names
}

// Hold has it wait before it answers lists, until that channel is closed.
func (s *ListServer) Hold(until chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = until
}

// Mute has it answer nothing at all until that channel is closed.
func (s *ListServer) Mute(until chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = until
}

// Count returns how many requests of that method it has got.
func (s *ListServer) Count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (s *ListServer) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	var question struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
		return caddyhttp.Error(http.StatusBadRequest, err)
	}
	s.mu.Lock()
	names, offered := s.lists[question.Method]
	if s.calls == nil {
		s.calls = make(map[string]int)
	}
	s.calls[question.Method]++
	hold, mute := s.hold, s.mute
	s.mu.Unlock()
	if mute != nil {
		select {
		case <-mute:
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if question.Method == "server/discover" {
		_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],`+
			`"capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"s","version":"1"}}}`, question.ID)
		return err
	}
	if !offered {
		w.WriteHeader(http.StatusNotFound)
		_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, question.ID)
		return err
	}
	if hold != nil {
		<-hold
	}
	kind, _ := revision.KindOf(question.Method)
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = fmt.Sprintf(`{%q:%q,"title":"T"}`, kind.IDKey(), name)
	}
	_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%q:[%s]}}`,
		question.ID, kind.ItemsKey(), strings.Join(items, ","))
	return err
}
