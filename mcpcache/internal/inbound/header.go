package inbound

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/header"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/qvalue"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// LegacyRevision returns the revision that the header of a legacy request names. Without one it is
// 2025-03-26, which a server assumes (2025-06-18, "Transports", "Protocol Version Header"). It reports false
// if the header names several, a modern one, or one that is not known.
func LegacyRevision(h http.Header) (revision.Revision, bool) {
	named := h["Mcp-Protocol-Version"]
	if len(named) == 0 {
		return revision.V20250326, true
	}
	r := revision.Parse(named[0])
	return r, len(named) == 1 && r != revision.Unknown && r.Era() == revision.Legacy
}

// isOnly reports whether a header field has that value and no other.
func isOnly(values []string, want []byte) bool { return len(values) == 1 && values[0] == string(want) }

// NameIs reports whether the header Mcp-Name is there once, and says that name (2026-07-28, "Streamable
// HTTP", "Value Encoding"). White space around the value is no part of it (RFC 9110 section 5.5).
func NameIs(h http.Header, name string) bool {
	values := h["Mcp-Name"]
	if len(values) != 1 {
		return false
	}
	said, ok := message.DecodeHeader(strings.TrimSpace(values[0]))
	return ok && said == name
}

// Contradicts reports whether Mcp-Method or Mcp-Name, in a header that may have them or not, says something
// else than the messages. Some servers go by the header.
func Contradicts(h http.Header, found []message.Naming) bool {
	for _, method := range h["Mcp-Method"] {
		if len(found) != 1 || method != found[0].Method {
			return true
		}
	}
	for _, value := range h["Mcp-Name"] {
		name, ok := message.DecodeHeader(value)
		if !ok || len(found) != 1 || !isAbout(found[0], name) {
			return true
		}
	}
	return false
}

// isAbout reports whether a message is about what Mcp-Name says: an item, or a task (SEP-2663, "Streamable
// HTTP").
func isAbout(n message.Naming, name string) bool {
	return n.Task != "" && n.Task == name || slices.ContainsFunc(n.Items, func(item message.Named) bool { return item.Name == name })
}

// PlainJSON reports whether a body is JSON as it stands.
func PlainJSON(h http.Header) bool {
	return h["Content-Encoding"] == nil && header.IsJSON(h["Content-Type"])
}

// UsualAccept is what nearly every client sends.
const UsualAccept = "application/json, text/event-stream"

// Accepts reads an Accept header. A client must accept both content types that an
// answer can have (2025-03-26 and later, "Sending Messages to the Server" 2), here
// in one field line, since some servers read only one; if it does not, ok is false
// and the upstream decides. stream says that it prefers an event stream, by the
// weights of the two.
func Accepts(values []string) (stream, ok bool) {
	if len(values) != 1 {
		return false, false
	}
	if values[0] == UsualAccept {
		return false, true
	}
	var json, events qvalue.Value
	for part := range strings.SplitSeq(values[0], ",") {
		media, params, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(media)) {
		case "application/json":
			json = qvalue.In(params)
		case "text/event-stream":
			events = qvalue.In(params)
		}
	}
	return events > json, json > 0 && events > 0
}

// Quotes reports whether raw is s as a JSON string without escapes. With an escape
// or an encoded header it returns false although the two may be equal.
func Quotes(raw []byte, s string) bool {
	return len(raw) == len(s)+2 && string(raw[1:len(raw)-1]) == s &&
		!strings.ContainsRune(s, '\\') && !strings.HasPrefix(s, "=?")
}
