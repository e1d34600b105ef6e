package jsonrpc

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Problem is why a request gets an error in place of a result.
type Problem struct {
	Status int // of HTTP, as a client of the modern era is answered
	Code   int
	Text   string
	Data   []byte // raw JSON; nil for none
}

// Refused says that a request is not taken as it is.
func Refused(status int, text string) *Problem {
	return &Problem{Status: status, Code: InvalidRequest, Text: text}
}

// Failed says that a request could be taken, and could not be answered.
func Failed(status int, text string) *Problem {
	return &Problem{Status: status, Code: InternalError, Text: text}
}

// Invalid says that a request is not valid in the way that the code names.
func Invalid(code int, text string) *Problem {
	return &Problem{Status: StatusOf(code), Code: code, Text: text}
}

// NoMethod says that the endpoint does not have the method of a request.
func NoMethod() *Problem {
	return Invalid(MethodNotFound, "Method not found")
}

// Unknown says to a client of an era that nothing has that name, or that URI (2026-07-28, "Tools", "Error
// Handling", and the same of prompts and resources). Hidden items get the same answer as those that do not exist.
func Unknown(era revision.Era, k revision.Kind, name string) *Problem {
	if k == revision.Tools {
		return Invalid(InvalidParams, "Unknown tool: "+name)
	}
	if k == revision.Prompts {
		return Invalid(InvalidParams, "Unknown prompt: "+name)
	}
	p := Invalid(InvalidParams, "Resource not found")
	if era != revision.Modern {
		p.Code = ResourceNotFound
	}
	p.Data = append(quoted([]byte(`{"uri":`), name), '}')
	return p
}

// Unsupported says that a revision is none of those that are spoken here (2026-07-28, "Versioning").
func Unsupported(requested string, supported ...string) *Problem {
	p := Invalid(UnsupportedVersion, "Unsupported protocol version: this endpoint speaks "+strings.Join(supported, ", "))
	p.Data = []byte(`{"supported":[`)
	for i, name := range supported {
		if i > 0 {
			p.Data = append(p.Data, ',')
		}
		p.Data = quoted(p.Data, name)
	}
	p.Data = append(quoted(append(p.Data, `],"requested":`...), requested), '}')
	return p
}

// In returns the problem as a client of an era is told of it. An error about the method, or about what it is called
// with, is an answer like any other in the legacy era: 404 would end the session (2025-11-25, "Streamable HTTP",
// "Session Management").
func (p *Problem) In(era revision.Era) *Problem {
	switch {
	case era == revision.Modern:
		return p
	case p.Code == InvalidParams, p.Code == MethodNotFound, p.Code == ResourceNotFound:
		told := *p
		told.Status = http.StatusOK
		return &told
	}
	return p
}

// Append appends the response to a request with that raw id. Without an id the response has none, as the transport
// allows if the request's is not known. Invalid UTF-8 in the text is replaced.
func (p *Problem) Append(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if id != nil {
		dst = append(dst, `"id":`...)
		dst = append(append(dst, id...), ',')
	}
	dst = append(dst, `"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(p.Code), 10)
	dst = quoted(append(dst, `,"message":`...), p.Text)
	if p.Data != nil {
		dst = append(append(dst, `,"data":`...), p.Data...)
	}
	return append(dst, "}}"...)
}

// quoted appends a text as a JSON string.
func quoted(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // the error says that bytes were replaced, which is as good as can be
	return dst
}
