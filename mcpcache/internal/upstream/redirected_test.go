package upstream

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
)

// TestRedirectToTheTwin has a request follow a redirect to the same path with a slash
// more, once, with all that it has, and no other redirect.
func TestRedirectToTheTwin(t *testing.T) {
	const there = "http://10.0.0.5:3001/mcp/?a=b"
	for name, c := range map[string]struct {
		method    string
		status    int
		locations []string // of the first answer and those after it
		asked     []string
		ends      int
	}{
		"POST":              {"POST", 307, []string{there}, []string{"/mcp", "/mcp/"}, 200},
		"permanent":         {"POST", 308, []string{there}, []string{"/mcp", "/mcp/"}, 200},
		"GET":               {"GET", 307, []string{there}, []string{"/mcp", "/mcp/"}, 200},
		"DELETE":            {"DELETE", 307, []string{there}, []string{"/mcp", "/mcp/"}, 200},
		"of our own Host":   {"POST", 307, []string{"https://named.example/mcp/?a=b"}, []string{"/mcp", "/mcp/"}, 200},
		"a second redirect": {"POST", 307, []string{there, "/mcp?a=b"}, []string{"/mcp", "/mcp/"}, 307},
		"for ever":          {"POST", 307, []string{there, there, there}, []string{"/mcp", "/mcp/"}, 307},
		"302":               {"POST", 302, []string{there}, []string{"/mcp"}, 302},
		"another host":      {"POST", 307, []string{"http://evil.example/mcp/?a=b"}, []string{"/mcp"}, 307},
		"another path":      {"POST", 307, []string{"/other/?a=b"}, []string{"/mcp"}, 307},
		"another query":     {"POST", 307, []string{"/mcp/"}, []string{"/mcp"}, 307},
		"no Location":       {"POST", 307, []string{""}, []string{"/mcp"}, 307},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			var asked []string
			rt := through(handler(func(w http.ResponseWriter, r *http.Request) error {
				body, err := io.ReadAll(r.Body)
				if err != nil || r.Method != c.method || r.Host != "named.example" || r.Header.Get("Authorization") != "Bearer x" ||
					r.URL.RawQuery != "a=b" || r.RequestURI != r.URL.RequestURI() || (string(body) == "{}") != (c.method == "POST") {
					t.Errorf("the upstream was sent %s %s of %s with %v and %q: %v", r.Method, r.RequestURI, r.Host, r.Header, body, err)
				}
				if asked = append(asked, r.URL.Path); len(asked) <= len(c.locations) {
					w.Header().Set("Location", c.locations[len(asked)-1])
					w.WriteHeader(c.status)
				}
				_, err = io.WriteString(w, strings.Repeat("answer", 1000))
				return err
			}))
			rt.Host, rt.Slash.Addresses = "named.example", redirect.Addresses{"10.0.0.5:3001"}
			body := map[bool]string{true: "{}"}[c.method == "POST"]
			for range 2 { // each begins at the path as it is configured
				asked = nil
				req := newRequest(t.Context(), t, c.method, endpoint+"?a=b", body)
				req.Header.Set("Authorization", "Bearer x")
				res, err := rt.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := readAll(res); err != nil || res.StatusCode != c.ends || !slices.Equal(asked, c.asked) {
					t.Errorf("the answer is %d, error %v, the upstream was asked for %q", res.StatusCode, err, asked)
				}
			}
			if got := rt.Slash.Redirects(); got != (c.method == "POST" && len(c.asked) == 2) {
				t.Errorf("it is remembered: %v", got)
			}
		})
	}
}

// TestRedirectOfWhatCannotBeRepeated leaves the redirect as it is.
func TestRedirectOfWhatCannotBeRepeated(t *testing.T) {
	noLeaks(t)
	rt := through(handler(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Location", "/mcp/")
		w.WriteHeader(http.StatusTemporaryRedirect)
		return nil
	}))
	req := newRequest(t.Context(), t, http.MethodPost, endpoint, "{}")
	req.GetBody = nil
	res, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(res); err != nil || res.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("got %d, error %v", res.StatusCode, err)
	}
}
