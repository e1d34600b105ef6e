package exchange

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

// methodLabel returns the index of the method's label in [Methods].
func (x *exchange) methodLabel() int {
	switch {
	case x.method == "" && x.r.Method != http.MethodPost:
		return methodIndex[x.r.Method]
	case strings.HasPrefix(x.method, "notifications/"):
		return methodIndex["notification"]
	}
	return methodIndex[x.method]
}
