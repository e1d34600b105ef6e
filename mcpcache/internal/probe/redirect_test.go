package probe

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// slashed serves MCP at /mcp/ alone, and sends everybody there by an absolute URL, as
// FastMCP does.
func slashed(status int, server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/") {
			http.Redirect(w, r, "http://"+r.Host+r.URL.Path+"/", status)
			return
		}
		server.ServeHTTP(w, r)
	})
}

// TestRedirectToTheTwin examines a server that redirects the URL to the same with a slash.
func TestRedirectToTheTwin(t *testing.T) {
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		o := options(t, serve(t, slashed(status, newScripted())))
		r := run(t, o)
		there := r.URL + "/"
		if r.Trouble != nil || len(r.Eras) != 2 || len(r.FailedEras) > 0 || r.Eras[1].Stream != StreamOpen || r.RedirectsTo != there {
			t.Fatalf("%d: %s", status, asJSON(t, r))
		}
		i := slices.IndexFunc(r.Findings, func(f Finding) bool { return strings.HasPrefix(f.Text, "It redirects ") })
		if want := "It redirects " + r.URL + " to " + there + ". Both are one endpoint for the cache. Name the second in the Caddyfile, " +
			"and have clients use its path: that saves each of their requests a redirect."; i < 0 || r.Findings[i] != (Finding{Note, want, ""}) {
			t.Errorf("the findings are %+v", r.Findings)
		}
		if !strings.Contains(r.Caddyfile, "mcp_cache "+there+" {") && !strings.Contains(r.Caddyfile, "mcp_cache "+there+"\n") {
			t.Errorf("the Caddyfile is %s", r.Caddyfile)
		}
	}
	o := options(t, serve(t, newScripted()))
	if r := run(t, o); r.RedirectsTo != "" || strings.Contains(asJSON(t, r), "redirect") {
		t.Errorf("without a redirect: %s", asJSON(t, r))
	}
}

// TestOtherRedirects stay what keeps a server from being used.
func TestOtherRedirects(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.Handler
		want    string
	}{
		"301": {slashed(http.StatusMovedPermanently, newScripted()), "URL redirects (301) to http://ADDR/mcp/, which the cache does not follow: use that URL"},
		"for ever": {
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				to := strings.TrimSuffix(r.URL.Path, "/")
				if to == r.URL.Path {
					to += "/"
				}
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			}),
			"URL redirects (307) to URL, which the cache does not follow: use that URL",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, serve(t, c.handler))
			want := strings.ReplaceAll(c.want, "to URL", "to "+o.URL)
			wantTrouble(t, o, "redirect", want)
		})
	}
}
