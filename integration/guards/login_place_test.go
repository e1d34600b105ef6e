package guards

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// askingForLogin answers everybody with 401 at its endpoint, and says by the Host that it was sent where its metadata are.
// It answers them there.
func askingForLogin(endpoint string) http.Handler {
	mux := http.NewServeMux()
	place := "/.well-known/oauth-protected-resource" + endpoint
	mux.HandleFunc(place, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"resource":"https://public.example/mcp"}`)
	})
	mux.HandleFunc(endpoint, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", resource_metadata="http://`+r.Host+place+`"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	return mux
}

// TestPlaceOfLogin: the 401 of a server names a URL of the site at which the client finds where to log in, for one
// server and for several behind a door, wherever the site has the endpoint, and whatever path the server has it at.
func TestPlaceOfLogin(t *testing.T) {
	_, other := caddytest.NewMember(t, "other")
	for name, c := range map[string]struct{ site, before, endpoint string }{
		"plain":        {"DIRECTIVE", "", "/mcp"},
		"stripped":     {"handle_path /notes/* {\nDIRECTIVE\n}", "/notes", "/mcp"},
		"another path": {"handle_path /notes/* {\nDIRECTIVE\n}", "/notes", "/srv/mcp"},
	} {
		host := fixture.NewHost(t, askingForLogin(c.endpoint))
		host.ShareCredentials()
		url := strings.TrimSuffix(host.URL, "/mcp") + c.endpoint
		sites := map[string]string{"several servers": caddytest.ToolkitOf([]caddytest.Member{{Name: "door", URL: url, Options: []string{"authorization forward"}}, {Name: "other", URL: other.URL}})}
		if c.endpoint == "/mcp" { // one server has the endpoint at the path of its own
			sites["one server"] = caddytest.Directive(url)
		}
		for kind, directive := range sites {
			t.Run(name+", "+kind, func(t *testing.T) {
				p := caddytest.StartProxy(t, strings.Replace(c.site, "DIRECTIVE", directive, 1))
				site := "http://" + p.Addr
				client := fixture.NewModern(t, site+c.before+"/mcp", "Bearer old")
				a := client.List(scripted.ToolsList)
				challenges, err := oauthex.ParseWWWAuthenticate(a.Header.Values("WWW-Authenticate"))
				if a.Status != http.StatusUnauthorized || err != nil || len(challenges) != 1 || challenges[0].Params["error"] != "invalid_token" {
					t.Fatalf("a refusal is %s, WWW-Authenticate %q, error %v", a, a.Header.Get("WWW-Authenticate"), err)
				}
				place := challenges[0].Params["resource_metadata"]
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, place, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				if res, body := fixture.Fetch(t, fixture.HTTPClient(t, "login", ""), r); !strings.HasPrefix(place, site+"/") || res.StatusCode != http.StatusOK || !strings.Contains(body, "public.example") {
					t.Errorf("%s gave %d, %s", place, res.StatusCode, body)
				}
			})
		}
	}
}

// TestMetadataOfASiteThatStrips: a site that takes something from the path of its endpoint may send requests for the
// metadata of the whole path to several servers as they are (RFC 9728 section 3.1).
func TestMetadataOfASiteThatStrips(t *testing.T) {
	_, other := caddytest.NewMember(t, "other")
	host := fixture.NewHost(t, askingForLogin("/mcp"))
	host.ShareCredentials()
	directive := caddytest.ToolkitOf([]caddytest.Member{{Name: "door", URL: host.URL, Options: []string{"authorization forward"}}, {Name: "other", URL: other.URL}})
	p := caddytest.StartProxy(t, "@notes path /notes/* /.well-known/oauth-protected-resource/notes/mcp\nhandle @notes {\nuri strip_prefix /notes\n"+directive+"\n}")
	for path, want := range map[string]int{"/.well-known/oauth-protected-resource/notes/mcp": 200, "/notes/.well-known/oauth-protected-resource/elsewhere": 404} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Addr+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if res, body := fixture.Fetch(t, fixture.HTTPClient(t, "login", ""), r); res.StatusCode != want || (want == 200) != strings.Contains(body, "public.example") {
			t.Errorf("%s gave %d, %s", path, res.StatusCode, body)
		}
	}
}
