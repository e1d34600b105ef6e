// Package header reads and writes fields of HTTP headers. It knows the fields that are for the
// next hop only, the fields that describe a body, and the requests that have to keep their fields.
// It knows nothing of MCP.
package header

import (
	"net/http"
	"slices"
	"strings"
)

// Values has room for the values of an answer's header fields. They are
// not shared between answers, because Caddy's header handler may replace text
// within them; and each field's capacity is its length, so that a handler that
// appends to one makes a copy.
type Values struct {
	room [6]string
	used int
}

// Set sets a field of h. The name has to be canonical.
func (v *Values) Set(h http.Header, name, value string) {
	if v.used == len(v.room) {
		h[name] = []string{value}
		return
	}
	v.room[v.used] = value
	v.used++
	h[name] = v.room[v.used-1 : v.used : v.used]
}

// Vary adds a field's name to the Vary header of h.
func (v *Values) Vary(h http.Header, name string) {
	present := h["Vary"]
	if len(present) == 0 {
		v.Set(h, "Vary", name)
		return
	}
	if !Varies(present, name) {
		h["Vary"] = append(slices.Clip(present), name)
	}
}

// Varies reports whether the values of a Vary header name that field (RFC 9110
// section 12.5.5).
func Varies(values []string, name string) bool {
	for _, value := range values {
		for listed := range strings.SplitSeq(value, ",") {
			if listed = strings.TrimSpace(listed); listed == "*" || strings.EqualFold(listed, name) {
				return true
			}
		}
	}
	return false
}
