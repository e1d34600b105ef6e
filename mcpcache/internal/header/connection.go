package header

import (
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// RemoveConnectionFields removes the fields that the Connection header names, and
// the header itself: they are for the next hop only, which is us (RFC 9110 section
// 7.6.1). reverse_proxy would remove them too, so callers are told apart only by
// what the server gets to see. A request to upgrade the protocol stays.
func RemoveConnectionFields(h http.Header) {
	values := h["Connection"]
	switch {
	case values == nil:
		return
	case len(values) == 1 && values[0] == "keep-alive": // what many clients send
		delete(h, "Keep-Alive")
		delete(h, "Connection")
		return
	}
	var protocols []string
	if httpguts.HeaderValuesContainsToken(values, "Upgrade") {
		protocols = h["Upgrade"]
	}
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
	delete(h, "Connection")
	if protocols != nil {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, protocols
	}
}
