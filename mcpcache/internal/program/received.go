package program

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/process"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// received is a message of a client.
type received struct {
	body    []byte // without line ends
	request message.Request
	share   budget.Share // of the memory, which the body has if it is long
}

// errNoRoom says that there is no memory for a message.
var errNoRoom = errors.New("there is no memory for a message of that size now: try again")

// receive reads a message of a client, or returns how it is refused. Of a long one, only the beginning
// is read before it is known whether its sender has a session. The share has to be released.
func (p *Program) receive(r *http.Request) (m *received, refused *http.Response, err error) {
	m = &received{share: p.memory.Load().Share()}
	if err = m.read(r.Body, uncounted+1, r.ContentLength+1); err != nil {
		return m, nil, err
	}
	if len(m.body) > uncounted {
		if refused = p.refusesLong(r); refused == nil {
			refused, err = p.readOn(r, m)
		}
	}
	switch {
	case refused != nil || err != nil:
		return m, refused, err
	case !utf8.Valid(m.body):
		return m, refuse(r, nil, jsonrpc.Invalid(jsonrpc.ParseError, "message is not UTF-8")), nil
	}
	if err := message.Decode(m.body, &m.request); err != nil {
		return m, refuse(r, nil, jsonrpc.Refused(http.StatusBadRequest, err.Error())), nil
	}
	for i, b := range m.body { // in JSON they are white space
		if b == '\n' || b == '\r' {
			m.body[i] = ' '
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
func (p *Program) readOn(r *http.Request, m *received) (refused *http.Response, err error) {
	largest := p.memory.Load().Largest()
	most := min(largest-1, process.MaxLine) // a byte more is read to know that there is one
	if r.ContentLength <= most {
		err = m.read(r.Body, most+1, r.ContentLength+1)
	}
	switch {
	case r.ContentLength > most, err == nil && int64(len(m.body)) > most:
		text := "message is larger than 32 MiB"
		if most < process.MaxLine {
			text = fmt.Sprintf("message is larger than %d KiB, for which there is memory at most", largest>>10)
		}
		return refuse(r, nil, jsonrpc.Refused(http.StatusRequestEntityTooLarge, text)), nil
	case errors.Is(err, errNoRoom):
		refused = refuse(r, nil, jsonrpc.Failed(http.StatusServiceUnavailable, err.Error()))
		refused.Header.Set("Retry-After", "1")
		return refused, nil
	}
	return nil, err
}

// read reads on, up to so many bytes in all. Of them, at least so many come as are known. What is beyond the
// beginning counts.
func (m *received) read(from io.Reader, end, known int64) error {
	for int64(len(m.body)) < end {
		if len(m.body) == cap(m.body) {
			size := min(max(2*int64(len(m.body)), firstRead, known), end)
			if size > uncounted+1 && !m.share.Grow(size-m.share.Size()) {
				return errNoRoom
			}
			m.body = append(make([]byte, 0, size), m.body...)
		}
		n, err := from.Read(m.body[len(m.body):cap(m.body)])
		switch m.body = m.body[:len(m.body)+n]; {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// firstRead is how many bytes a message may have until more are made room for.
const firstRead = 512
