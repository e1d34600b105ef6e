package header

import (
	"net/http"
	"strings"
)

// First returns the first of the values of a header field, "" if there is none. With a name
// that is canonical anyway it saves what [net/http.Header.Get] does to make it so.
func First(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// HasPrefixed reports whether a header field's canonical name has that prefix.
func HasPrefixed(h http.Header, prefix string) bool {
	for name := range h {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
