package mcpcache

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// sentCredentials returns the credentials that a reverse_proxy puts on requests, as
// header_up says. Placeholders have the values of now; those of a request stay.
func sentCredentials(raw json.RawMessage) http.Header {
	var proxy struct {
		Headers struct {
			Request struct {
				Add http.Header `json:"add"`
				Set http.Header `json:"set"`
			} `json:"request"`
		} `json:"headers"`
	}
	if json.Unmarshal(raw, &proxy) != nil {
		return nil // loading the upstream says what is wrong
	}
	sent, replacer := make(http.Header), caddy.NewReplacer()
	for _, fields := range []http.Header{proxy.Headers.Request.Add, proxy.Headers.Request.Set} {
		for name, values := range fields {
			for _, value := range values {
				if IsCredential(name) {
					sent.Add(name, replacer.ReplaceKnown(value, ""))
				}
			}
		}
	}
	return sent
}

// areLent reports whether one of those credentials is the same for all requests: what
// holds a placeholder of the request is its own.
func areLent(sent http.Header) bool {
	for _, values := range sent {
		if slices.ContainsFunc(values, func(value string) bool { return value != "" && !strings.Contains(value, "{http.") }) {
			return true
		}
	}
	return false
}
