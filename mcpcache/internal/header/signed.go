package header

import (
	"net/http"
	"strings"
)

// IsSigned reports whether a signature covers fields of a request's header, which then
// have to arrive as they were sent: an HTTP message signature (RFC 9421 section 4.1), or
// one of AWS (Signature Version 4 and 4A, whose schemes are AWS4-HMAC-SHA256 and
// AWS4-ECDSA-P256-SHA256).
func IsSigned(h http.Header) bool {
	if h["Signature-Input"] != nil {
		return true
	}
	for _, credentials := range h["Authorization"] {
		if strings.HasPrefix(credentials, "AWS4-") {
			return true
		}
	}
	return false
}
