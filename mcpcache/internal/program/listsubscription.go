package program

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// listSubscription is a subscription to changes of lists. It outlasts processes: no process runs for its
// sake, and each process that runs gets its request.
type listSubscription struct {
	call    *call
	request []byte
	lists   map[string]bool // capabilities of the lists that it is about

	// child is the process that got the request last; nil: none did. outlasts is true if the client
	// has an acknowledgement from before. The lock of modern guards both.
	child    *child
	outlasts bool
}

// filters are the members of a subscription by which it is about lists, and their capabilities
// (2026-07-28, schema, "SubscriptionFilter").
var filters = map[string]string{
	"toolsListChanged": revision.Tools.Capability(), "promptsListChanged": revision.Prompts.Capability(),
	"resourcesListChanged": revision.Resources.Capability(),
}

// listsOf returns the capabilities of the lists that a subscription is about; nil if it is about
// anything else, too.
func listsOf(request []byte) map[string]bool {
	raw, _ := message.ValueAt(request, "params", "notifications")
	var wanted map[string]bool
	if json.Unmarshal(raw, &wanted) != nil {
		return nil
	}
	lists := make(map[string]bool)
	for name, wants := range wanted {
		capability := filters[name]
		if capability == "" {
			return nil
		}
		if wants {
			lists[capability] = true
		}
	}
	return lists
}

// hold answers a subscription. If no process runs, and the program has said what it announces, none
// is started: the next one is asked.
func (m *modern) hold(r *http.Request, h *listSubscription) (*http.Response, error) {
	h.call.quiet = true
	m.mu.Lock()
	m.listSubscriptions[h] = struct{}{}
	m.mu.Unlock()
	release := func() { m.release(h) }
	if announced := m.announces(); announced != nil && m.slot.asleep() { // one that wakes from now on is asked
		h.call.acknowledged.Store(true)
		return events(r, h.call.answer, piece{message: h.acknowledgement(announced)}, false, release), nil
	}
	c, _, err := m.slot.awake(r.Context())
	if err != nil {
		release()
		return nil, err
	}
	if m.take(c, h) {
		c.repeat(&again{h.request, h.call})
	}
	first, last := h.call.answer.next(patience, r.Context().Done())
	switch {
	case r.Context().Err() != nil:
		first.share.Release()
		release()
		return nil, context.Cause(r.Context())
	case last && first.message != nil:
		release()
		return single(r, statusOf(first.message), h.call.answer, first), nil
	}
	return events(r, h.call.answer, first, last, release), nil
}

// take reports whether a process is to be asked for a subscription: it has not been.
func (m *modern) take(c *child, h *listSubscription) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.child == c {
		return false
	}
	h.child = c
	return true
}

// release ends a subscription whose client does not listen any more.
func (m *modern) release(h *listSubscription) {
	m.mu.Lock()
	delete(m.listSubscriptions, h)
	c := h.child
	m.mu.Unlock()
	h.call.answer.end()
	if c != nil {
		c.leave(h.call)
	}
}

// endHeld ends all subscriptions.
func (m *modern) endHeld() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for h := range m.listSubscriptions {
		h.call.answer.end()
	}
}

// announces returns the capabilities of the lists of which the program announces changes; nil if it
// has not said what it is.
func (m *modern) announces() map[string]bool {
	known, ok := m.slot.program.records.of(keyOfDiscover(discover))
	if !ok {
		return nil
	}
	info, err := message.ParseServerInfo(known.Result)
	if err != nil {
		return nil
	}
	return info.ListChanged
}

// recorded returns the result with which a client's server/discover was answered before, nil if it
// was not.
func (m *modern) recorded(request []byte) []byte {
	known, _ := m.slot.program.records.of(keyOfDiscover(request))
	return known.Result
}

// record notes the answer to a server/discover.
func (m *modern) record(request, answer []byte) {
	if response, err := message.ParseResponse(answer); err == nil && response.Error == nil {
		key, err := keyOfDiscover(request)
		m.slot.program.records.note(key, err, record{Result: response.Result})
	}
}

// acknowledgement returns the first message of a subscription (2026-07-28, "Subscriptions").
func (h *listSubscription) acknowledgement(announced map[string]bool) []byte {
	granted := make(map[string]bool)
	for name, capability := range filters {
		if h.lists[capability] && announced[capability] {
			granted[name] = true
		}
	}
	text, _ := json.Marshal(granted) // booleans always marshal
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"_meta":{%q:%s},"notifications":%s}}`,
		sse.Acknowledged, message.MetaSubscription, h.call.id, text)
}

// greeted implements [owner].
func (m *modern) greeted(c *child) (messages []*again) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for h := range m.listSubscriptions {
		h.child, h.outlasts = c, h.call.acknowledged.Load()
		messages = append(messages, &again{h.request, h.call})
	}
	return messages
}

// watches implements [owner]: a subscription to a resource is a call under way.
func (*modern) watches() bool { return false }

// replaces implements [owner].
func (m *modern) replaces() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for h := range m.listSubscriptions {
		if h.outlasts {
			return true
		}
	}
	return false
}

// restarted implements [owner].
func (m *modern) restarted(c *child) {
	m.announce(func(h *listSubscription) bool { return h.child == c && h.outlasts }, allChanges...)
}

// announce tells those that are told of changes that the program announces.
func (m *modern) announce(told func(*listSubscription) bool, methods ...string) {
	announced := m.announces()
	m.mu.Lock()
	defer m.mu.Unlock()
	for h := range m.listSubscriptions {
		if !told(h) || !h.call.acknowledged.Load() {
			continue
		}
		about := changesOf(func(capability string) bool { return announced[capability] && h.lists[capability] })
		for _, method := range methods {
			if slices.Contains(about, method) {
				h.call.answer.put(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"_meta":{%q:%s}}}`,
					method, message.MetaSubscription, h.call.id))
			}
		}
	}
}

// handleExit implements [owner]. A subscription that the client does not know to be one ends.
func (m *modern) handleExit(c *child) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for h := range m.listSubscriptions {
		if h.child == c && !h.call.acknowledged.Load() {
			h.call.answer.end()
		}
	}
}
