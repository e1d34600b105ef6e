package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report/reporttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Each reason why there is no answer has its HTTP status and its text.
func TestRefusals(t *testing.T) {
	source := reporttest.New(t, "one")
	source.Pin(t, revision.V20260728, revision.Tools, 0, `{"name":"a"}`)
	ruled := reporttest.New(t, "ruled")
	ruled.Pin(t, revision.V20260728, revision.Tools, 0, `{"name":"a"}`)
	ruled.Ruled = reporttest.NewPolicy(t, "deny tools a")
	reporttest.GoLive(t, source, ruled, reporttest.New(t, "two"), reporttest.New(t, "two"))
	for _, c := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"GET", "none", http.StatusNotFound, `no handler is called "none"; there are: one, ruled, two`},
		{"GET", "two", http.StatusConflict, `2 handlers are called "two", in front of http://127.0.0.1:1/mcp and http://127.0.0.1:1/mcp: give them different names, with the option name`},
		{"GET", "one/cows", http.StatusNotFound, `"cows" is not one of tools, prompts, resources, resource_templates`},
		{"GET", "one/tool", http.StatusNotFound, `"tool" is not one of tools, prompts, resources, resource_templates (did you mean tools?)`},
		{"GET", "one/discover", http.StatusNotFound, `"discover" is not one of tools, prompts, resources, resource_templates`},
		{"GET", "one/prompts", http.StatusNotFound, "there is no snapshot of prompts"},
		{"GET", "one/prompts?like=[", http.StatusBadRequest, `like: "[" is not a pattern: syntax error in pattern`},
		{"GET", "one/tools?why=maybe", http.StatusBadRequest, `why: "maybe" is not one of 1, 0`},
		{"GET", "one/tools?as=%zz", http.StatusBadRequest, `reading the query: invalid URL escape "%zz"`},
		{"GET", "ruled/tools?as=a", http.StatusBadRequest, `as: "a" is not who=NAME`},
		{"GET", "one/tools/b", http.StatusNotFound, `no item of tools is called "b"`},
		{"GET", "one/refresh", http.StatusMethodNotAllowed, "method GET is not allowed here, only POST"},
		{"POST", "one/refresh?kind=cows", http.StatusNotFound, `"cows" is not one of tools, prompts, resources, resource_templates, discover`},
		{"POST", "one/refresh", http.StatusServiceUnavailable, "no feed is connected that keeps what was asked for"},
		{"GET", "one/restart", http.StatusMethodNotAllowed, "method GET is not allowed here, only POST"},
		{"POST", "one/restart", http.StatusBadRequest, "one is in front of no program: there is nothing to restart"},
		{"POST", "one", http.StatusMethodNotAllowed, "method POST is not allowed here, only GET"},
	} {
		err := API{}.serve(httptest.NewRecorder(), httptest.NewRequest(c.method, "/mcp_cache/"+c.path, nil))
		refusal, ok := errors.AsType[caddy.APIError](err)
		if !ok || refusal.HTTPStatus != c.status || refusal.Err.Error() != c.text {
			t.Errorf("%s %s: got %+v, %v; want %d, %s", c.method, c.path, refusal, err, c.status, c.text)
		}
	}
}

// Lists of a caller are asked for in the query.
func TestListsOfCallers(t *testing.T) {
	source := reporttest.New(t, "one")
	source.Pin(t, revision.V20260728, revision.Tools, 0, `{"name":"a"}`, `{"name":"b"}`)
	source.Ruled = reporttest.NewPolicy(t, "allow tools a", "ada: allow tools b")
	reporttest.GoLive(t, source)
	for query, want := range map[string]string{
		"":                      `[{"name":"a"},{"name":"b"}]`,
		"why=0":                 `[{"name":"a"},{"name":"b"}]`,
		"as=who%3Deve":          `[{"name":"a"}]`,
		"as=who%3Dada&like=b":   `[{"name":"b"}]`,
		"why=1&like=a":          `[{"name":"a","why":{"allowed":true,"rule":{"number":0,"effect":"allow","kind":"tools","items":["a"]}}}]`,
		"as=who%3Deve&why=true": `{"name":"b","why":{"allowed":false,"reason":"no rule that is about this caller allows it"}}`,
	} {
		w := httptest.NewRecorder()
		if err := (API{}).serve(w, httptest.NewRequest(http.MethodGet, "/mcp_cache/one/tools?"+query, nil)); err != nil || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %v, %s, want %s", query, err, w.Body, want)
		}
	}
}
