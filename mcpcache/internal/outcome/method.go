package outcome

import (
	"net/http"
	"strings"
)

// Methods are the methods that metrics tell apart: those of MCP, and the HTTP
// methods of requests that carry no message. Everything else is "other", so that no
// client can make up a label.
var Methods = [...]string{
	"other", "notification", http.MethodGet, http.MethodDelete,
	"initialize", "ping", "server/discover", "subscriptions/listen",
	"tools/list", "tools/call", "prompts/list", "prompts/get",
	"resources/list", "resources/templates/list", "resources/read",
	"resources/subscribe", "resources/unsubscribe",
	"completion/complete", "logging/setLevel",
}

var methodIndex = func() map[string]int {
	index := make(map[string]int, len(Methods))
	for i, label := range Methods {
		index[label] = i
	}
	return index
}()

// NameOf returns the name of a method. It makes no copy of one of [Methods].
func NameOf(method []byte) string {
	if i, known := methodIndex[string(method)]; known {
		return Methods[i]
	}
	return string(method)
}

// LabelOf returns the index in [Methods] of the label of a request with that HTTP method
// and JSON-RPC method, which is "" if it is not known.
func LabelOf(verb, method string) int {
	switch {
	case method == "" && verb != http.MethodPost:
		return methodIndex[verb]
	case strings.HasPrefix(method, "notifications/"):
		return methodIndex["notification"]
	}
	return methodIndex[method]
}
