package program

import (
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/process"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// noRoom is what a client is told whose message there is no memory for.
const noRoom = "there is no memory for a message of that size now: try again"

// receive reads a message of a client, or returns how it is refused. Of a long one, only the beginning
// is read before it is known whether its sender has a session. The share has to be released.
func (p *Program) receive(r *http.Request) (m *inbound.Request, refused *http.Response, err error) {
	m = &inbound.Request{Share: p.memory.Load().Share()}
	if err = m.ReadBeginning(r, uncounted); err != nil {
		return m, nil, err
	}
	m.Body.Keep() // the process reads the message when it likes
	if !m.Body.Whole {
		if refused = p.refusesLong(r); refused == nil {
			refused, err = p.readOn(r, m)
		}
	}
	body := m.Body.Bytes
	switch {
	case refused != nil || err != nil:
		return m, refused, err
	case !utf8.Valid(body):
		return m, refuse(r, nil, jsonrpc.Invalid(jsonrpc.ParseError, "message is not UTF-8")), nil
	}
	if _, err := m.Decode(nil); err != nil {
		return m, refuse(r, nil, jsonrpc.Refused(http.StatusBadRequest, err.Error())), nil
	}
	for i, b := range body { // in JSON they are white space
		if b == '\n' || b == '\r' {
			body[i] = ' '
		}
	}
	return m, nil, nil
}

// refusesLong refuses a message, of which the body is not known yet, if it has no session and needs one.
// That which opens a session is short.
func (p *Program) refusesLong(r *http.Request) *http.Response {
	version := r.Header.Get(revisionHeader)
	switch {
	case revision.Parse(version).Era() == revision.Modern:
		if p.modern.era.is(isLegacy) {
			return refuse(r, nil, jsonrpc.Refused(http.StatusBadRequest, notModern))
		}
		return nil
	case !known(version):
		return unknownVersion(r, version)
	case p.modern.alone():
		return refuse(r, nil, jsonrpc.Refused(http.StatusBadRequest, noSessions))
	case r.Header.Get(sessionHeader) == "":
		return refuse(r, nil, jsonrpc.Refused(http.StatusRequestEntityTooLarge, "initialize is larger than 64 KiB, or Mcp-Session-Id is missing"))
	}
	_, refused := p.sessionOf(r, nil)
	return refused
}

// readOn reads the rest of a long message.
func (p *Program) readOn(r *http.Request, m *inbound.Request) (refused *http.Response, err error) {
	largest := p.memory.Load().Largest()
	most := min(largest-1, process.MaxLine) // a byte more is read to know that there is one
	d, err := m.ReadRest(nil, r, most)
	switch d {
	case inbound.TooLarge:
		text := "message is larger than 32 MiB"
		if most < process.MaxLine {
			text = fmt.Sprintf("message is larger than %d KiB, for which there is memory at most", largest>>10)
		}
		return refuse(r, nil, jsonrpc.Refused(http.StatusRequestEntityTooLarge, text)), nil
	case inbound.NoRoom:
		refused = refuse(r, nil, jsonrpc.Failed(http.StatusServiceUnavailable, noRoom))
		refused.Header.Set("Retry-After", "1")
		return refused, nil
	default:
		return nil, err
	}
}
