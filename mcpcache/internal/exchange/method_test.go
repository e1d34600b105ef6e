package exchange

import (
	"net/http"
	"testing"
)

func TestMethodLabels(t *testing.T) {
	for _, c := range []struct{ http, method, want string }{
		{"POST", "tools/list", "tools/list"},
		{"POST", "server/discover", "server/discover"},
		{"POST", "notifications/cancelled", "notification"},
		{"POST", "notifications/", "notification"},
		{"POST", "tools/unknown", "other"},
		{"POST", "other", "other"},
		{"POST", "", "other"},
		{"GET", "", "GET"},
		{"DELETE", "", "DELETE"},
		{"PUT", "", "other"},
	} {
		x := &exchange{method: c.method, r: &http.Request{Method: c.http}}
		if got := Methods[MethodLabel(x.r.Method, x.method)]; got != c.want {
			t.Errorf("%s %q has label %s, want %s", c.http, c.method, got, c.want)
		}
	}
}
