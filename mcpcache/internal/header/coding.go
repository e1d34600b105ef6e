package header

import (
	"net/http"
	"strings"
)

// Coding returns the content coding of a message with that header, in lower case; "" if it
// has none (RFC 9110 section 8.4). Of several it returns all.
func Coding(h http.Header) string {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(h["Content-Encoding"], ",")))
	if coding == "identity" {
		return ""
	}
	return coding
}
