package toolkit

import (
	"bytes"
	"errors"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/responsefilter"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// messageFilter returns what is left for the client of a message of the server, or of a batch of
// them: nil if nothing is. It is an error if parsers may read differently what rules have to
// be certain of.
type messageFilter func(data []byte) ([]byte, error)

// messageFilter returns the filter of the server's messages, whatever the eras of the two are. alone says
// that the answer is JSON, not an event stream.
func (t *attempt) messageFilter(alone bool) messageFilter {
	left := func(one []byte) ([]byte, error) { return one, nil }
	if t.views.Restricts(revision.Resources, t.server.number) || t.views.Personal(revision.Reads) {
		left = message.Filter{
			Keep:    func(revision.Kind, []byte) bool { return true }, // these are no lists
			Tells:   func(uri string) bool { return t.views.Tells(t.server.number, uri) },
			Private: t.views.Personal, AddScope: t.at.Era() == revision.Modern,
		}.Apply
	}
	return func(data []byte) ([]byte, error) {
		return message.Each(data, func(one []byte) ([]byte, error) {
			method := message.BeforeNUL(message.StringAt(one, "method"))
			if method != "" && t.isForUs(method, one) {
				return nil, nil
			}
			if method == "" {
				t.suspect(one)
				if one = t.ownResponse(one, alone); one == nil {
					return nil, nil
				}
			}
			kept, err := left(one)
			if err != nil && !errors.Is(err, message.ErrNoMessage) && !message.BeginsAsResponse(one) {
				return nil, nil // nobody needs a notice of which it is not certain what it tells
			}
			return kept, err
		})
	}
}

// isForUs reports whether a notification or request of the server is not for the client, and
// deals with it.
// Clients are told that lists have changed once the new ones are there: see
// [Endpoint.announce]. Requests of servers are not routed to clients, so the server is told
// at once that the method is not offered, whatever the client's capabilities are; and what it
// says of such a request is of no use to the client.
func (t *attempt) isForUs(method string, data []byte) bool {
	switch {
	case revision.IsListChanged(method), method == "notifications/cancelled":
		return true
	case method == "notifications/progress":
		return t.isOthersProgress(data)
	}
	id, ok := message.ValueAt(data, "id")
	if !ok || string(id) == "null" {
		return !strings.HasPrefix(method, "notifications/") // a request that nobody can answer
	}
	if t.opened != nil {
		t.opened.Session.Answer(t.callerAt(t.server).Credentials, bytes.Clone(id), method)
	}
	return true
}

// isOthersProgress reports whether a notification of progress has the token of another request than the
// client's, which may be at another server.
func (c *call) isOthersProgress(progress []byte) bool {
	asked, _ := message.ValueAt(c.in.Body.Bytes, "params", "_meta", "progressToken")
	token, _ := message.ValueAt(progress, "params", "progressToken")
	return len(token) > 0 && !message.SameID(token, asked)
}

// isOther reports whether a raw id is that of another request than the client's, which may be at
// another server. Clients take a response for that to the request of its id, wherever it comes from.
// null is the id of none.
func (c *call) isOther(id []byte) bool {
	return string(id) != "null" && !message.SameID(id, c.sentID())
}

// ownResponse returns a response to the client's request, and nil in the place of one to another request. An error
// that is alone is the answer whatever its id is, and gets the request's: the Python SDK's has the id
// "server-error".
func (c *call) ownResponse(response []byte, alone bool) []byte {
	other := false
	w := sse.Watcher{Format: sse.JSON, ID: func(id []byte) { other = other || c.isOther(id) }}
	w.Scan(response, func(string) {})
	switch {
	case !other:
		return response
	case !alone || message.Judge(response) != message.IsError:
		return nil
	}
	named, _ := message.WithValue(response, c.sentID(), "id") // nil if that is not certain
	return named
}

// sieving says how the filter is applied to an answer of a server of the client's era, in that format.
// What begins as a response is passed on as it comes, but a read of which rules have something to
// say.
func (t *attempt) sieving(f sse.Format) responsefilter.Options {
	o := responsefilter.Options{
		Filter: t.messageFilter(f == sse.JSON), Lenient: true, Glance: responsefilter.Notice, Other: t.isOther,
		Limit: t.endpoint.Settings.Limits.List, Memory: t.endpoint.bridged,
	}
	if t.in.Method == "resources/read" && t.at.Era() == revision.Modern && t.views.Personal(revision.Reads) {
		o.Whole, o.Lenient, o.Glance = true, false, 0
	}
	return o
}
