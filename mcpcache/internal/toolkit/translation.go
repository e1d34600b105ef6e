package toolkit

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/bridge"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// inOtherEra fills in the header of a request to a server of the other era than the client.
func (c *call) inOtherEra(h http.Header) {
	h["Accept"] = []string{"application/json, text/event-stream"}
	if c.speaks.Era() == revision.Legacy {
		for field := range h {
			if field == "Mcp-Method" || field == "Mcp-Name" || strings.HasPrefix(field, "Mcp-Param-") {
				delete(h, field)
			}
		}
		return
	}
	h["Mcp-Protocol-Version"] = []string{revision.LatestModern.String()}
	h["Mcp-Method"] = []string{c.in.Method}
	if _, named := message.NamedInHeader(c.in.Method); named {
		h["Mcp-Name"] = []string{message.EncodeHeader(c.name)}
	}
	if c.in.Method == "tools/call" {
		arguments, _ := message.ValueAt(c.body, "params", "arguments")
		for field, value := range message.Mirrored(c.tooled(), arguments) {
			h.Set(field, value)
		}
	}
}

// tooled returns a tool as its server lists it, or nil.
func (c *call) tooled() []byte {
	if list := c.part(c.server, revision.Tools); list != nil {
		for item := range list.Each() {
			if message.NameOf(revision.Tools, item) == c.name {
				return item
			}
		}
	}
	return nil
}

// translation translates the answer of a server of the other era on its way to the client.
type translation struct {
	call   *call
	status int
	filter messageFilter
	by     bridge.Answer
	// whole is a JSON answer; nil: it is an event stream, taken apart by events.
	whole  *budget.Buffer
	events sse.Splitter
	share  budget.Share // of the memory
	room   int          // of it, that an event has
	over   bool         // the client has been given a response, or can be given none
}

// translate begins the translation of an answer.
func (a *answer) translate(status int) *translation {
	c := a.attempt.call
	t := &translation{call: c, status: status, filter: a.attempt.messageFilter(a.watcher.Format == sse.JSON), share: c.endpoint.bridged.Share(), by: bridge.Answer{
		To: c.at.Era(), ID: c.in.Message.ID, Sent: c.sentID(), Method: c.in.Method,
		Level: message.StringAt(c.in.Body.Bytes, "params", "_meta", message.MetaLogLevel),
	}}
	h := c.w.Header()
	delete(h, "Content-Length")
	delete(h, "Content-Encoding")
	if header.Coding(a.header) != "" { // none was asked for
		t.over = true
		_ = c.fail(c.server.unclear())
		return t
	}
	if header.IsJSON(a.header["Content-Type"]) {
		length, err := strconv.ParseInt(a.header.Get("Content-Length"), 10, 64)
		if err != nil || length > c.endpoint.Settings.Limits.List {
			length = -1
		}
		if t.whole, _ = budget.NewBuffer(&t.share, length); t.whole == nil {
			t.tooLarge()
		}
		return t
	}
	t.events = sse.Splitter{MaxEvent: int(c.endpoint.Settings.Limits.List), Comments: true}
	c.w.WriteHeader(status)
	return t
}

// isWhole reports whether nothing is written until all of the answer is there.
func (t *translation) isWhole() bool { return t.whole != nil }

// unclear is the refusal that stands for an answer that cannot be understood.
func (s *Server) unclear() *jsonrpc.Problem {
	return jsonrpc.Failed(http.StatusBadGateway, fmt.Sprintf("the MCP server %q gave no answer that could be understood", s.Name))
}

// tooLarge answers for a server whose answer is too large.
func (t *translation) tooLarge() {
	text := fmt.Sprintf("the answer of the MCP server %q, which speaks another revision than the client, is larger than max_list, or than there is memory left for such answers", t.call.server.Name)
	t.over = true
	if t.events.MaxEvent == 0 {
		_ = t.call.fail(jsonrpc.Failed(http.StatusBadGateway, text))
		return
	}
	_ = t.event(t.by.Fail(text).Bytes)
}

// write takes a part of the answer.
func (t *translation) write(p []byte) error {
	if t.over {
		return nil
	}
	if t.whole != nil {
		if int64(t.whole.Len()+len(p)) > t.call.endpoint.Settings.Limits.List || !t.whole.Write(p) {
			t.tooLarge()
		}
		return nil
	}
	if more := t.events.Held() + len(p) - t.room; more > 0 {
		if !t.share.Grow(int64(more)) {
			t.tooLarge()
			return nil
		}
		t.room += more
	}
	for len(p) > 0 && !t.over {
		event, rest, found, err := t.events.Next(p)
		switch p = rest; {
		case err != nil:
			t.tooLarge()
			return nil
		case !found:
			return nil
		case event.Comment:
			_, err = t.call.w.Write([]byte(":\n\n"))
		default:
			err = t.passMessage(event.Data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// passMessage translates a message of a stream, and writes it.
func (t *translation) passMessage(data []byte) error {
	m := t.translate(data)
	t.over = m.Final
	if m.Bytes == nil {
		return nil
	}
	return t.event(m.Bytes)
}

// translate returns the message that the client gets for a message of the server. It returns none if it
// cannot read the server's message with certainty, and that matters.
func (t *translation) translate(data []byte) bridge.Message {
	left, err := t.filter(data)
	if left == nil || err != nil && !errors.Is(err, message.ErrNoMessage) {
		return bridge.Message{}
	}
	return t.by.Translate(left)
}

func (t *translation) event(data []byte) error {
	_, err := t.call.w.Write(sse.AppendEvent(nil, data))
	return err
}

// finish ends an answer of which nothing more comes.
func (t *translation) finish() {
	if t.over {
		return
	}
	t.over = true
	switch {
	case t.whole == nil && t.call.isCancelled():
		_ = t.event(t.by.Fail(cancelled.Text).Bytes)
		return
	case t.whole == nil:
		_ = t.event(t.by.Fail(fmt.Sprintf("the MCP server %q ended its answer before the result", t.call.server.Name)).Bytes)
		return
	case t.call.isCancelled():
		_ = t.call.fail(cancelled)
		return
	}
	data, ok := t.whole.Bytes()
	if !ok {
		t.tooLarge()
		return
	}
	m := t.translate(data)
	switch {
	case m.Final:
		t.answer(m)
	case t.status >= http.StatusBadRequest:
		_ = t.call.fail(t.call.server.failed(t.status))
	default:
		_ = t.call.fail(t.call.server.unclear())
	}
}

// answer writes a JSON answer. What is wrong with a call has a status of its own in the modern
// era alone (2026-07-28, "Streamable HTTP", "Protocol Version Header").
func (t *translation) answer(m bridge.Message) {
	status := t.status
	switch {
	case status >= http.StatusInternalServerError:
	case t.call.client != nil || m.Code == 0:
		status = http.StatusOK
	case jsonrpc.StatusOf(m.Code) != http.StatusOK:
		status = jsonrpc.StatusOf(m.Code)
	case status == http.StatusNotFound:
		status = http.StatusOK // it says something of the session
	}
	t.call.w.Header()["Content-Length"] = []string{strconv.Itoa(len(m.Bytes))}
	t.call.w.WriteHeader(status)
	_, _ = t.call.w.Write(m.Bytes) // if the client has gone, there is nobody to report that to
}
