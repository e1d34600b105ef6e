package mcpcache

import (
	"bytes"
	"encoding/json"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// maxNamed bounds how many resources one part of a stream may name as updated.
// Where there are more, all count.
const maxNamed = 64

// updatedURIs returns the resources that notices in whole events say have been
// updated. It returns false if it can't tell: then all may have been.
func updatedURIs(events []byte) (uris []string, ok bool) {
	ok = true
	sse.Find(events, func(data []byte) bool {
		var m struct {
			Method string
			Params struct{ URI *string }
		}
		// What only mentions a notice, such as text in a result, is none.
		if len(data) == 0 {
			return false // the event is there for its ID
		}
		if err := json.Unmarshal(data, &m); err != nil {
			ok = false
		} else if revision.Changed(m.Method).Has(revision.Reads) {
			if ok = m.Params.URI != nil && len(uris) < maxNamed; ok {
				uris = append(uris, *m.Params.URI)
			}
		}
		return !ok
	})
	return uris, ok
}

// endsEvent reports whether an event ends where b does: with an empty line.
func endsEvent(b []byte) bool {
	line := bytes.TrimSuffix(b, []byte("\n"))
	if len(line) == len(b) || bytes.HasSuffix(line, []byte("\r")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
	}
	return len(line) < len(b) && (bytes.HasSuffix(line, []byte("\n")) || bytes.HasSuffix(line, []byte("\r")))
}
