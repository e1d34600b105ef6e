package exchange

import (
	"net/http"
	"slices"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Error codes of JSON-RPC and of MCP.
const (
	invalidRequest   = -32600
	methodNotFound   = -32601
	invalidParams    = -32602
	internalError    = -32603
	resourceNotFound = -32002 // of the legacy era
	headerMismatch   = -32020 // of the modern era
)

// denial is why a request is refused where there are rules, in the protocol's words.
type denial struct {
	status int // of HTTP
	code   int
	text   string
	uri    string // of a resource that there is not
}

// hidden is the refusal of what the caller may not see: the same as of what does not
// exist.
func (x *exchange) hidden(n message.Named) *denial {
	d := &denial{status: http.StatusOK, code: invalidParams}
	switch n.Kind {
	case revision.Tools:
		d.text = "Unknown tool: " + n.Name
	case revision.Prompts:
		d.text = "Unknown prompt: " + n.Name
	default:
		d.text, d.uri = "Resource not found", n.Name
		if x.revision().Era() != revision.Modern {
			d.code = resourceNotFound
		}
	}
	return d
}

// uncertain is the refusal of a request of which it is not certain what it names.
func uncertain(status int, text string) *denial {
	return &denial{status: status, code: invalidRequest, text: text}
}

// deny answers the messages of a request that rules refuse. Of a batch each message
// that wants an answer gets the same: which of them was refused is nobody's business.
func (x *exchange) deny(d *denial, found []message.Naming) error {
	defer x.body.Release()
	x.outcome, x.reason = OutcomeDenied, understood
	x.w.Header()["Cache-Status"] = []string{x.endpoint.status.denied()}
	status := d.status
	if status == http.StatusOK && !wantAnswer(found) {
		status = http.StatusBadRequest // 2025-03-26 and later, "Sending Messages to the Server" 4
	}
	return x.writeError(status, d.answers(found, message.IsBatch(x.body.Bytes)))
}

// writeError answers with an error in the protocol's words. Pages may read it as they may
// the upstream's answers.
func (x *exchange) writeError(status int, body []byte) error {
	h := x.w.Header()
	h["Content-Type"] = []string{"application/json"}
	x.AllowPage(h)
	x.w.WriteHeader(status)
	_, err := x.w.Write(body)
	return err
}

// wantAnswer reports whether any of the messages is a request.
func wantAnswer(found []message.Naming) bool {
	return slices.ContainsFunc(found, func(n message.Naming) bool { return n.ID != nil })
}

func (d *denial) answers(found []message.Naming, batch bool) []byte {
	switch {
	case !wantAnswer(found):
		return d.append(nil, nil)
	case !batch:
		return d.append(nil, found[0].ID)
	}
	body := []byte{'['}
	for _, n := range found {
		if n.ID == nil {
			continue
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = d.append(body, n.ID)
	}
	return append(body, ']')
}

func (d *denial) append(dst, id []byte) []byte {
	if d.uri != "" {
		return message.AppendErrorAbout(dst, id, d.code, d.text, d.uri)
	}
	return message.AppendError(dst, id, d.code, d.text)
}
