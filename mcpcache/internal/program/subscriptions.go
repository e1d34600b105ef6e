package program

import (
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// subscription is that of a session to a resource.
type subscription struct {
	request []byte // which the next process is sent
	// agreed says that the process has said yes: until then the client is told nothing.
	agreed bool
}

// subscribe keeps a subscription that the process is about to be asked for. It is an error if there is no room for
// it. The lock is held.
func (s *clientSession) subscribe(uri string, request []byte) error {
	to := s.subscribed[uri]
	if to == nil {
		to = new(subscription)
	}
	err := s.keep(&to.request, request)
	if err == nil {
		s.subscribed[uri] = to
	}
	return err
}

// unsubscribe forgets a subscription. The lock is held.
func (s *clientSession) unsubscribe(uri string) {
	if to := s.subscribed[uri]; to != nil {
		s.count(-len(to.request))
		delete(s.subscribed, uri)
	}
}

// subscribing returns what takes the answer to a request for a subscription, which may be none; nil for other
// requests.
func (s *clientSession) subscribing(request *message.Request, body []byte) func(answer []byte) {
	if string(request.Method) != "resources/subscribe" {
		return nil
	}
	uri := message.StringAt(body, "params", "uri")
	return func(answer []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch to := s.subscribed[uri]; {
		case to == nil: // it was taken back meanwhile
		case message.Judge(answer) == message.IsResult:
			to.agreed = true
		case !to.agreed:
			s.unsubscribe(uri)
		}
	}
}

// subscription reports whether the session has a subscription, or has asked for it.
func (s *clientSession) subscription(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscribed[uri] != nil
}

// subscribesTo reports whether a session has subscribed to a resource, or to one that it is a part of
// (2025-11-25, schema, "ResourceUpdatedNotification"): the parts of a resource are behind a slash.
func (s *clientSession) subscribesTo(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for whole, to := range s.subscribed {
		part, is := strings.CutPrefix(uri, whole)
		if to.agreed && is && (part == "" || part[0] == '/' || strings.HasSuffix(whole, "/")) {
			return true
		}
	}
	return false
}
