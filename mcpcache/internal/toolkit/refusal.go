package toolkit

import (
	"cmp"
	"strconv"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// supported are the revisions that clients can speak here.
var supported = func() (names []string) {
	for _, r := range revision.All() {
		names = append(names, r.String())
	}
	return names
}()

// unknown is the refusal of what does not exist for the caller.
func (q *request) unknown(k revision.Kind, name string) *jsonrpc.Problem {
	return jsonrpc.Unknown(q.era(), k, name)
}

// era is the client's: a legacy one is in a session.
func (q *request) era() revision.Era {
	if q.client != nil {
		return revision.Legacy
	}
	return revision.Modern
}

// fail answers with an error.
func (q *request) fail(p *jsonrpc.Problem) error {
	p = p.In(q.era())
	body := p.Append(nil, q.in.Message.ID)
	h := q.w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["Cache-Status"] = []string{q.endpoint.status.Name + cmp.Or(q.status, statusRefused)}
	q.AllowPage(h)
	q.w.WriteHeader(p.Status)
	_, err := q.w.Write(body)
	return err
}
