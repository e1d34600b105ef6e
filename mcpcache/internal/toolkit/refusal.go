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
func (v *request) unknown(k revision.Kind, name string) *jsonrpc.Problem {
	return jsonrpc.Unknown(v.era(), k, name)
}

// era is the client's: a legacy one is in a session.
func (v *request) era() revision.Era {
	if v.client != nil {
		return revision.Legacy
	}
	return revision.Modern
}

// fail answers with an error.
func (v *request) fail(p *jsonrpc.Problem) error {
	p = p.In(v.era())
	body := p.Append(nil, v.in.Message.ID)
	h := v.w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["Cache-Status"] = []string{v.endpoint.status.Name + cmp.Or(v.status, statusRefused)}
	v.AllowPage(h)
	v.w.WriteHeader(p.Status)
	_, err := v.w.Write(body)
	return err
}
