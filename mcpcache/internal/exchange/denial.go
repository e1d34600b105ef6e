package exchange

import (
	"net/http"
	"slices"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
)

// deny answers the messages of a request that rules refuse. Of a batch each message
// that wants an answer gets the same: which of them was refused is nobody's business.
func (x *exchange) deny(p *jsonrpc.Problem, found []message.Naming) error {
	_ = x.tool() // may be asked for once the body is gone
	p = p.In(x.revision().Era())
	x.outcome, x.reason = outcome.Denied, understood
	x.w.Header()["Cache-Status"] = []string{x.endpoint.status.Own("denied")}
	status := p.Status
	if status == http.StatusOK && !wantAnswer(found) {
		status = http.StatusBadRequest // 2025-03-26 and later, "Sending Messages to the Server" 4
	}
	return x.writeError(status, answers(p, found, message.IsBatch(x.in.Body.Bytes)))
}

// writeProblem answers the request with that id with an error.
func (x *exchange) writeProblem(p *jsonrpc.Problem, id []byte) error {
	return x.writeError(p.Status, p.Append(nil, id))
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

// answers returns the responses with an error to the messages of a request.
func answers(p *jsonrpc.Problem, found []message.Naming, batch bool) []byte {
	switch {
	case !wantAnswer(found):
		return p.Append(nil, nil)
	case !batch:
		return p.Append(nil, found[0].ID)
	}
	body := []byte{'['}
	for _, n := range found {
		if n.ID == nil {
			continue
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = p.Append(body, n.ID)
	}
	return append(body, ']')
}
