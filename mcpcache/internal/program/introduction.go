package program

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// errOther says that a process offers something else than the client learned when it opened its session.
// The session has ended by that.
var errOther = errors.New("the program is another one than before: the client has to open another session with initialize")

// introduction is what the client of a session knows of the program, from the answer to its initialize.
type introduction struct {
	offers  description
	logs    bool     // it takes a level of log messages
	changes []string // the notifications of changes of lists that there may be
}

// noteIntroduction records the result of initialize that the client gets.
func (s *clientSession) noteIntroduction(result []byte) {
	known := &introduction{offers: offers(result)}
	if info, err := message.ParseServerInfo(result); err == nil {
		known.logs = info.Capabilities["logging"]
		known.changes = changesOf(func(capability string) bool { return info.ListChanged[capability] })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.introduction = known
}

// changesOf returns the notifications of changes of the lists that announced reports of their
// capabilities.
func changesOf(announced func(capability string) bool) (methods []string) {
	for _, kind := range [...]revision.Kind{revision.Tools, revision.Prompts, revision.Resources} {
		if announced(kind.Capability()) {
			methods = append(methods, revision.ChangeOf(kind))
		}
	}
	return methods
}

// introduced returns what the client knows of the program; nil before its initialize is answered.
func (s *clientSession) introduced() *introduction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.introduction
}

// Announce sends a notification that a list has changed to all clients that listen for it, if the
// program has said that it does that.
func (p *Program) Announce(method string) {
	for _, s := range p.known() {
		s.announce(method)
	}
	p.modern.announce(func(*listSubscription) bool { return true }, method)
}

// allChanges are the notifications that lists have changed.
var allChanges = []string{
	revision.ChangeOf(revision.Tools), revision.ChangeOf(revision.Prompts), revision.ChangeOf(revision.Resources),
}

// announce sends notifications of changes to a client that listens, if the program announces such
// changes.
func (s *clientSession) announce(methods ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.introduction == nil || s.unrelated == nil {
		return
	}
	for _, method := range methods {
		if slices.Contains(s.introduction.changes, method) {
			s.unrelated.put(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method))
		}
	}
}

// greet has a process answer a request that opens a session, and records what it says.
func (p *Program) greet(c *child, request []byte, timeout time.Duration) ([]byte, error) {
	answer, err := c.initialize(request, timeout)
	said := record{Result: answer}
	if refused, ok := errors.AsType[*refusal](err); ok {
		said.Refusal = refused.answer
	} else if err != nil {
		return nil, err
	}
	key, keyErr := keyOfInitialize(request)
	if p.records.note(key, keyErr, said) {
		p.modern.era.found(unknownEra)
	}
	return answer, err
}

// recorded returns how a process has answered the session's initialize before. It reports false if
// one has to be asked, or is there anyway.
func (s *clientSession) recorded() (known record, ok bool) {
	if !s.program.limits.Load().Lazy || s.slot.running() != nil {
		return record{}, false
	}
	if s.shares() {
		return s.program.records.of(keyOfInitialize(sharedHello))
	}
	return s.program.records.of(keyOfInitialize(s.initialize))
}

// answersAsleep answers what needs no process while none runs. It returns nil if one has to be
// asked.
func (s *clientSession) answersAsleep(request *message.Request, body []byte) ([]byte, error) {
	known := s.introduced()
	if !s.program.limits.Load().Lazy || known == nil {
		return nil, nil
	}
	switch method := string(request.Method); {
	case method == "ping":
	case method == "logging/setLevel" && known.logs && !s.shares() && slices.Contains(message.LogLevels, message.StringAt(body, "params", "level")):
		if err := s.remember(method, body); err != nil { // before the look at the slot: a process that wakes gets it
			return nil, err
		}
	default:
		return nil, nil
	}
	if !s.slot.asleep() {
		return nil, nil
	}
	return result(request.ID, []byte("{}")), nil
}

// result returns an answer with that id.
func result(id, result []byte) []byte {
	return bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"result":`), result, []byte(`}`)}, nil)
}
