package outcome

import "testing"

func TestLabelOfs(t *testing.T) {
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
		if got := Methods[LabelOf(c.http, c.method)]; got != c.want {
			t.Errorf("%s %q has label %s, want %s", c.http, c.method, got, c.want)
		}
	}
}
