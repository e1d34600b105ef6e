package toolkit

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// A page whose origin is listed may read every answer, also a refusal, and the header that it needs of it. Where the site
// itself says who may, that stays.
func TestPagesMayReadAnswers(t *testing.T) {
	const ours = "Mcp-Session-Id, WWW-Authenticate"
	for name, tt := range map[string]struct {
		site    http.Header
		origin  string
		allowed []string
		exposed []string
	}{
		"no page":            {nil, "", nil, nil},
		"a listed one":       {nil, "https://app.test", []string{"https://app.test"}, []string{ours}},
		"the site's own":     {nil, "http://site.test", nil, []string{ours}},
		"the site allows it": {http.Header{"Access-Control-Allow-Origin": {"*"}}, "https://app.test", []string{"*"}, []string{ours}},
		"the site exposes": {
			http.Header{"Access-Control-Expose-Headers": {"X-Own"}}, "https://app.test", []string{"https://app.test"}, []string{"X-Own", ours},
		},
		"the site exposes ours": {
			http.Header{"Access-Control-Expose-Headers": {ours}}, "https://app.test", []string{"https://app.test"}, []string{ours},
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWith(t, setup{origins: []string{"https://app.test"}}, func(w *world) {
				w.eachEra(func(c *caller) {
					for _, h := range answersOf(c, tt.site, tt.origin) {
						allowed, exposed := h["Access-Control-Allow-Origin"], h["Access-Control-Expose-Headers"]
						if !slices.Equal(allowed, tt.allowed) || !slices.Equal(exposed, tt.exposed) {
							w.Errorf("it is for %q, and exposes %q, want %q and %q", allowed, exposed, tt.allowed, tt.exposed)
						}
						if varies := slices.Contains(h["Vary"], "Origin"); varies != slices.Contains(tt.allowed, "https://app.test") {
							w.Errorf("it varies: %v: %q", varies, h["Vary"])
						}
					}
				})
			}, serves("one"))
		})
	}
}

// A page of a listed origin is told before its request what it may send, as its browser asks for that.
func TestPreflightsAreAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		header []string
		want   http.Header // of what is about pages
	}{
		"a listed page": {[]string{"Origin", "https://app.test", "Access-Control-Request-Headers", "authorization, x-own"}, http.Header{
			"Access-Control-Allow-Origin": {"https://app.test"}, "Access-Control-Allow-Methods": {"POST, GET, DELETE"},
			"Access-Control-Allow-Headers": {"authorization, x-own"}, "Access-Control-Max-Age": {"600"},
		}},
		"one without fields of its own": {[]string{"Origin", "https://app.test"}, http.Header{
			"Access-Control-Allow-Origin": {"https://app.test"}, "Access-Control-Allow-Methods": {"POST, GET, DELETE"},
			"Access-Control-Max-Age": {"600"},
		}},
		"the site's own page": {[]string{"Origin", "http://site.test", "Access-Control-Request-Headers", "x-own"}, http.Header{}},
		"no page":             {nil, http.Header{}},
	} {
		runWith(t, setup{origins: []string{"https://app.test"}}, func(w *world) {
			c := w.calls(modern)
			a := c.send(c.request(http.MethodOptions, "/mcp", "", tt.header...))
			if a.want(w, name, http.StatusNoContent, 0); a.Header().Get("Allow") != "POST, GET, DELETE" || a.Body.Len() > 0 {
				w.Errorf("%s is answered with Allow: %q", name, a.Header().Get("Allow"))
			}
			for _, field := range []string{"Origin", "Methods", "Headers"} {
				field = "Access-Control-Allow-" + field
				if got := a.Header()[field]; !slices.Equal(got, tt.want[field]) {
					w.Errorf("%s is answered with %s: %q, want %q", name, field, got, tt.want[field])
				}
			}
			if got := a.Header()["Access-Control-Max-Age"]; !slices.Equal(got, tt.want["Access-Control-Max-Age"]) {
				w.Errorf("%s may keep that for %q", name, got)
			}
		}, serves("one"))
	}
}

// answersOf returns the headers of answers of each sort to a page, in which the site has set fields of its own.
func answersOf(c *caller, site http.Header, origin string) (all []http.Header) {
	for _, method := range []string{"tools/list", "made/up", "tools/call", "notifications/initialized"} {
		message := c.message(method, `"name":"one__tools_a"`)
		if strings.HasPrefix(method, "notifications/") {
			message = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		}
		r := c.request(http.MethodPost, "/mcp", message, "Mcp-Method", method, "Mcp-Name", "one__tools_a", "Origin", origin)
		a := &received{ResponseRecorder: httptest.NewRecorder()}
		for name, values := range site {
			a.Header()[name] = slices.Clone(values)
		}
		a.serve(c, r)
		all = append(all, a.Header())
	}
	return all
}
