package responsefilter

import (
	"bytes"
	"errors"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// event is one event of a stream, as it was written.
type event struct {
	raw []byte
	// line is where the last line begins.
	line int
	// afterCR says that the last byte ended a line, and an LF would belong to it.
	afterCR bool
	// cut says that the beginning of the event has been passed on.
	cut bool
	// looked says that the beginning has been looked at: see [Options.Glance].
	looked bool
}

// isLongResponse reports whether an event that is longer than glance begins as a response
// does. It looks once.
func (e *event) isLongResponse(glance int64) bool {
	if glance == 0 || e.looked || int64(e.size()) <= glance {
		return false
	}
	e.looked = true
	_, data := e.split()
	return message.BeginsAsResponse(data)
}

func (e *event) size() int { return len(e.raw) }

func (e *event) reset() { *e = event{raw: e.raw[:0], afterCR: e.afterCR} }

// passOn returns what there is of an event, which is too long to be kept. What follows
// belongs to it up to its end. It is valid until more is added.
func (e *event) passOn() []byte {
	passed := e.raw
	line := -1 // in a line that is not empty
	if e.line == len(e.raw) {
		line = 0
	}
	*e = event{raw: e.raw[:0], line: line, afterCR: e.afterCR, cut: true}
	return passed
}

// add adds bytes up to the end of the event. It returns how many, and whether the
// event has ended: with an empty line.
func (e *event) add(p []byte) (n int, ended bool) {
	for n < len(p) {
		c := p[n]
		n++
		if c == '\n' && e.afterCR {
			e.afterCR = false
			if e.line = len(e.raw) + 1; len(e.raw) == 0 {
				e.line = 0
				continue // the rest of the line end of the event before
			}
			e.raw = append(e.raw, c)
			continue
		}
		e.raw = append(e.raw, c)
		if e.afterCR = c == '\r'; c != '\r' && c != '\n' {
			continue
		}
		empty := len(e.raw)-1 == e.line
		e.line = len(e.raw)
		if empty {
			if c == '\r' { // an LF that follows is left out, but some clients wait for one
				e.raw = append(e.raw, '\n')
			}
			return n, true
		}
	}
	return n, false
}

// filter returns the event with what is left of its data. What is not changed is
// returned as it was written. Of an event that is left out, its id is what is left: who
// resumes goes on behind it.
func (e *event) filter(filter func(data []byte) ([]byte, error)) ([]byte, error) {
	lines, data := e.split()
	if len(bytes.TrimSpace(data)) == 0 || !message.LooksLikeJSON(data) && !isMessage(lines) {
		return e.raw, nil
	}
	left, err := filter(data)
	if err != nil && !errors.Is(err, message.ErrNoMessage) {
		return e.raw, err
	}
	if len(left) == len(data) && &left[0] == &data[0] {
		return e.raw, nil
	}
	out := make([]byte, 0, len(e.raw))
	for _, line := range lines {
		if _, is := field(line, "id"); is || left != nil {
			out = append(append(out, line...), '\n')
		}
	}
	switch {
	case left != nil:
		out = sse.AppendData(append(out, "data: "...), left)
		out = append(out, sse.End...)
	case len(out) > 0:
		out = append(out, '\n')
	}
	return out, nil
}

// split returns the lines of the event that are not data, and the data; nil if it has
// none.
func (e *event) split() (lines [][]byte, data []byte) {
	lines, rest := make([][]byte, 0, 4), e.raw
	for found := true; found; {
		var line []byte
		line, rest, found = sse.CutLine(rest)
		if value, ok := field(line, "data"); ok {
			if data == nil {
				data = make([]byte, 0, len(value))
			} else {
				data = append(data, '\n')
			}
			data = append(data, value...)
			continue
		}
		if len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines, data
}

// isMessage reports whether an event of those lines may be a message of MCP: what has
// another name is none, such as the endpoint of the transport of 2024-11-05.
func isMessage(lines [][]byte) bool {
	other := false
	for _, line := range lines {
		if name, is := field(line, "event"); is {
			if other = len(name) > 0 && string(name) != "message"; !other {
				return true
			}
		}
	}
	return !other
}

// field returns the value of a line of that field (HTML, "Interpreting an event
// stream").
func field(line []byte, name string) (value []byte, ok bool) {
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	value, ok = bytes.CutPrefix(line, []byte(name))
	switch {
	case !ok:
		return nil, false
	case len(value) == 0:
		return value, true
	case value[0] != ':':
		return nil, false
	}
	return bytes.TrimPrefix(value[1:], []byte(" ")), true
}
