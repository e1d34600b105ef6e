package exchange

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

// ownID is the id of requests that are sent on behalf of a caller.
const ownID = `"mcp_cache"`

// ownRequest returns a request of that method and id in the place of the caller's:
// with its header, session and credentials. params are more members of its params, each with
// a comma behind it.
func (g *guard) ownRequest(method string, id []byte, params string) *http.Request {
	modern := g.revision().Era() == revision.Modern
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(body, `,"method":"`+method+`","params":{`+params...)
	if modern {
		body = append(body, `"_meta":{"io.modelcontextprotocol/protocolVersion":"`+g.revision().String()+`","io.modelcontextprotocol/clientCapabilities":`...)
		body = append(append(body, g.capabilities()...), '}')
	} else {
		body = bytes.TrimSuffix(body, []byte(","))
	}
	body = append(body, "}}"...)
	r := g.r.Clone(g.r.Context())
	r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.TransferEncoding, r.Trailer = nil, nil
	h := r.Header
	maps.DeleteFunc(h, func(name string, _ []string) bool { return strings.HasPrefix(name, "Mcp-Param-") })
	for _, name := range [...]string{"Mcp-Name", "Mcp-Method", "Content-Encoding", "Accept-Encoding", "Last-Event-Id", "Expect", "Transfer-Encoding"} {
		delete(h, name)
	}
	if modern {
		h["Mcp-Method"] = []string{method}
	}
	h["Content-Type"], h["Accept"] = []string{"application/json"}, []string{inbound.UsualAccept}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	return r
}

// capabilities returns those of a modern client; none if the request does not say them.
func (g *guard) capabilities() []byte {
	client := g.in.Decoded()
	if client == nil || client.Meta.Capabilities == nil {
		return []byte(none)
	}
	return client.Meta.Capabilities
}

// send has the upstream answer a request of our own, of that id.
func (g *guard) send(a *upstream.Answer, r *http.Request, id []byte) error {
	return collect(a, r, id, func(r *http.Request) error { return g.backend.Upstream.ServeHTTP(a, r, g.next) })
}

// collect has serve answer a request of that id.
func collect(a *upstream.Answer, r *http.Request, id []byte, serve func(*http.Request) error) error {
	return a.Collect(r, func(body []byte) bool {
		if !sse.EndsEvent(body) {
			return false
		}
		_, ok := responseIn(a, id)
		return ok
	}, serve)
}

// responseIn returns what the upstream has answered to the request of that id, in JSON or
// in a stream. It reports false if there is no answer, or not all of it was kept.
func responseIn(answer *upstream.Answer, id []byte) (response message.Response, ok bool) {
	if answer.Status != http.StatusOK || answer.Cut {
		return response, false
	}
	is := func(data []byte) (is bool) {
		var err error
		response, err = message.ParseResponse(data)
		return err == nil && bytes.Equal(response.ID, id)
	}
	if isStream(answer.Header().Get("Content-Type")) {
		return response, sse.Find(answer.Body, is) != nil
	}
	return response, is(answer.Body)
}

// resultIn returns the result in the answer to the request of that id, if there is one.
func resultIn(answer *upstream.Answer, id []byte) (result []byte, ok bool) {
	response, ok := responseIn(answer, id)
	return response.Result, ok && response.Error == nil
}

// askDoor makes sure that a refusal of ours does not come before one of the upstream's
// (promise 4): where it is not known that the upstream has let this caller in, it is
// asked. If it refuses, its answer is passed on. Of who signs requests that cannot be known.
func (g *guard) askDoor(found []message.Naming) (passed bool, err error) {
	kind, letIn := g.isLetIn(found)
	if letIn || header.IsSigned(g.r.Header) { // a request of ours would not bear the signature
		return false, nil
	}
	id := []byte(ownID)
	if len(found) == 1 && found[0].ID != nil {
		id = found[0].ID
	}
	answer := upstream.NewAnswer(g.w.Header().Clone(), maxInitialize, g.backend.Cache.Work())
	defer answer.Close()
	if err := g.send(answer, g.ownRequest(kind.Method(), id, ""), id); err != nil {
		return true, err
	}
	if !g.turnsAway(answer) {
		return false, nil
	}
	g.outcome, g.reason = outcome.Bypass, bypassAdmission
	l := learner{exchange: g.exchange}
	l.begin(answer.Status, answer.Header())
	h := answer.Header()
	h["Cache-Status"] = append(h["Cache-Status"], forwarded(g.endpoint.status, bypassAdmission, false))
	g.giveAddress(answer.Status, h)
	return true, passOn(g.w, answer, nil)
}

// passOn hands on what the upstream has answered to a request of our own. err is what
// answering has come to.
func passOn(w http.ResponseWriter, answer *upstream.Answer, err error) error {
	h := w.Header()
	clear(h)
	maps.Copy(h, answer.Header())
	if err != nil {
		return err
	}
	if answer.Cut {
		answer.Body = nil // what the header says is what counts
		delete(h, "Content-Type")
	}
	h["Content-Length"] = []string{strconv.Itoa(len(answer.Body))}
	w.WriteHeader(answer.Status)
	_, err = w.Write(answer.Body)
	return err
}

// turnsAway reports whether an answer says that the upstream does not let this caller
// in, or not here, or that the session is over.
func (g *guard) turnsAway(a *upstream.Answer) bool {
	switch a.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	case http.StatusNotFound:
		response, err := message.ParseResponse(a.Body)
		offered := err != nil || response.Error == nil || response.Error.Code != jsonrpc.MethodNotFound
		return offered && g.session != "" && g.revision().Era() == revision.Legacy
	}
	return false
}

// isLetIn reports whether it is known that the upstream has let this caller in to
// the lists of what the messages name, and that it has not lost the session since. If
// not, it returns for which list to ask.
func (g *guard) isLetIn(found []message.Naming) (k revision.Kind, letIn bool) {
	switch {
	case g.turnedAway, g.mayBeLost():
		return revision.Tools, false // the list that has hints, and that most servers have
	case g.letIn, g.silent: // who does not answer refuses nobody
		return revision.Tools, true
	}
	own := g.search
	own.question.revision = g.streamRevision()
	caller := own.caller()
	for _, n := range found {
		for _, item := range n.Items {
			if own.question.kind = item.Kind; !own.admitted(caller) {
				return item.Kind, false
			}
		}
	}
	return revision.Tools, own.admitted(caller)
}
