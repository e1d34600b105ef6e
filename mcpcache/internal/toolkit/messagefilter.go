package toolkit

import (
	"bytes"
	"errors"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sieve"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// messageFilter returns what is left for the client of a message of the server, or of a batch of
// them: nil if nothing is. It is an error if parsers may read differently what rules have to
// be certain of.
type messageFilter func(data []byte) ([]byte, error)

// messageFilter returns the filter of the server's messages, whatever the eras of the two are. alone says
// that the answer is JSON, not an event stream.
func (v *visit) messageFilter(alone bool) messageFilter {
	left := func(one []byte) ([]byte, error) { return one, nil }
	if v.views.Restricts(revision.Resources, v.server.number) || v.views.Personal(revision.Reads) {
		left = message.Filter{
			Keep:    func(revision.Kind, []byte) bool { return true }, // these are no lists
			Tells:   func(uri string) bool { return v.views.Tells(v.server.number, uri) },
			Private: v.views.Personal, AddScope: v.at.Era() == revision.Modern,
		}.Apply
	}
	return func(data []byte) ([]byte, error) {
		return message.Each(data, func(one []byte) ([]byte, error) {
			method := message.BeforeNUL(message.StringAt(one, "method"))
			if method != "" && v.isForUs(method, one) {
				return nil, nil
			}
			if method == "" {
				v.suspect(one)
				if one = v.ownResponse(one, alone); one == nil {
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
func (v *visit) isForUs(method string, data []byte) bool {
	switch {
	case revision.IsListChanged(method), method == "notifications/cancelled":
		return true
	case method == "notifications/progress":
		return v.isOthersProgress(data)
	}
	id, ok := message.ValueAt(data, "id")
	if !ok || string(id) == "null" {
		return !strings.HasPrefix(method, "notifications/") // a request that nobody can answer
	}
	if v.opened != nil {
		v.opened.Session.Answer(v.presents(v.server).Credentials, bytes.Clone(id), method)
	}
	return true
}

// isOthersProgress reports whether a notification of progress has the token of another request than the
// client's, which may be at another server.
func (v *visit) isOthersProgress(progress []byte) bool {
	asked, _ := message.ValueAt(v.in.Body.Bytes, "params", "_meta", "progressToken")
	token, _ := message.ValueAt(progress, "params", "progressToken")
	return len(token) > 0 && !message.SameID(token, asked)
}

// isOther reports whether a raw id is that of another request than the client's, which may be at
// another server. Clients take a response for that to the request of its id, wherever it comes from.
// null is the id of none.
func (v *visit) isOther(id []byte) bool {
	return string(id) != "null" && !message.SameID(id, v.sentID())
}

// ownResponse returns a response to the client's request, and nil in the place of one to another request. An error
// that is alone is the answer whatever its id is, and gets the request's: the Python SDK's has the id
// "server-error".
func (v *visit) ownResponse(response []byte, alone bool) []byte {
	other := false
	w := sse.Watcher{Format: sse.JSON, ID: func(id []byte) { other = other || v.isOther(id) }}
	w.Scan(response, func(string) {})
	switch {
	case !other:
		return response
	case !alone || message.Judge(response) != message.IsError:
		return nil
	}
	named, _ := message.WithValue(response, v.sentID(), "id") // nil if that is not certain
	return named
}

// sieving says how the filter is applied to an answer of a server of the client's era, in that format.
// What begins as a response is passed on as it comes, but a read of which rules have something to
// say.
func (v *visit) sieving(f sse.Format) sieve.Options {
	o := sieve.Options{
		Filter: v.messageFilter(f == sse.JSON), Lenient: true, Glance: sieve.Notice, Other: v.isOther,
		Limit: v.endpoint.Settings.Limits.List, Memory: v.endpoint.bridged,
	}
	if v.in.Method == "resources/read" && v.at.Era() == revision.Modern && v.views.Personal(revision.Reads) {
		o.Whole, o.Lenient, o.Glance = true, false, 0
	}
	return o
}
