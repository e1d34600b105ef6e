package exchange

import (
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// removeConnectionFields removes the fields that the Connection header names, and
// the header itself: they are for the next hop, which we are (RFC 9110 section
// 7.6.1). What tells callers apart is then what the server gets to see of them,
// for reverse_proxy would remove the same. It is left to ask for another protocol,
// with the Upgrade header.
func removeConnectionFields(h http.Header) {
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
