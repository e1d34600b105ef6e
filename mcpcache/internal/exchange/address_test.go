package exchange

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// internal is the address of a server that clients do not have.
const internal = "10.0.0.5:3001"

// internalFace is an endpoint in front of that server.
func internalFace(t *testing.T) *face {
	t.Helper()
	f := newFace(t, config{Gate: duration(0)})
	f.backend.Slash().Addresses = redirect.Addresses{internal}
	return f
}

// sending answers with that status and field.
func sending(status int, name, value string) stand {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set(name, value)
		w.WriteHeader(status)
		return nil
	}
}

// reached is a request for a path, of which a site has stripped what comes before.
func reached(t *testing.T, stripped, path string, change func(*http.Request)) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://public.example"+stripped+path, nil)
	change(r)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
	r.URL.Path = path
	caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, r.Header["X-Forwarded-Host"] != nil)
	return r
}

func plainly(*http.Request) {}

// behindProxy has the request come from a trusted proxy, which tells what the client named.
func behindProxy(r *http.Request) {
	r.Header.Set("X-Forwarded-Host", "site.example")
	r.Header.Set("X-Forwarded-Proto", "https")
}

func overTLS(r *http.Request) { r.TLS = new(tls.ConnectionState) }

// TestLocation gives clients a Location of their own, and leaves those of others alone.
func TestLocation(t *testing.T) {
	f := internalFace(t)
	for name, c := range map[string]struct {
		stripped, path string
		change         func(*http.Request)
		location, want string
	}{
		"internal":                  {"", "/mcp", plainly, "http://" + internal + "/mcp/?a=b#c", "/mcp/?a=b#c"},
		"internal, elsewhere":       {"", "/ui", plainly, "http://" + internal + "/ui/", "/ui/"},
		"client's, TLS ends before": {"", "/mcp", overTLS, "http://public.example/mcp/", "/mcp/"},
		"client's, elsewhere":       {"", "/ui", overTLS, "http://public.example/ui/", "/ui/"},
		"of the path":               {"", "/mcp", plainly, "/mcp/", "/mcp/"},
		"stripped":                  {"/api", "/mcp", plainly, "http://" + internal + "/mcp/", "/api/mcp/"},
		"stripped, client's":        {"/api", "/mcp", overTLS, "http://public.example/mcp/", "/api/mcp/"},
		"stripped, known":           {"/api", "/mcp", plainly, "http://public.example/api/mcp/", "/api/mcp/"},
		"stripped, of the path":     {"/api", "/ui", plainly, "/login", "/api/login"},
		"stripped, internal":        {"/api", "/ui", plainly, "http://" + internal + "/login", "/api/login"},
		"stripped, a redirect_uri":  {"/api", "/authorize", overTLS, "https://public.example/callback?code=1", "https://public.example/callback?code=1"},
		"stripped, of the site":     {"/api", "/ui", overTLS, "https://public.example/login", "https://public.example/login"},
		"a redirect_uri like ours":  {"", "/authorize", plainly, "http://" + internal + "/callback?code=1&state=2", "http://" + internal + "/callback?code=1&state=2"},
		"and its error":             {"", "/authorize", plainly, "http://" + internal + "/callback?error=access_denied", "http://" + internal + "/callback?error=access_denied"},
		"a login of the server":     {"", "/authorize", plainly, "http://" + internal + "/consent?id=1", "/consent?id=1"},
		"without a scheme":          {"", "/mcp", plainly, "//" + internal + "/mcp/", "/mcp/"},
		"of a proxy in front":       {"", "/mcp", behindProxy, "http://site.example/mcp/", "/mcp/"},
		"another host":              {"", "/mcp", plainly, "https://login.example/?next=http://" + internal, "https://login.example/?next=http://" + internal},
		"a program's redirect_uri":  {"", "/authorize", plainly, "http://127.0.0.1:33418/?code=1", "http://127.0.0.1:33418/?code=1"},
		"a scheme of its own":       {"/api", "/authorize", plainly, "cursor://oauth/callback?code=1", "cursor://oauth/callback?code=1"},
		"no URL":                    {"/api", "/mcp", plainly, "http://" + internal + "/%", "http://" + internal + "/%"},
		"the same over TLS":         {"", "/mcp", plainly, "https://public.example/mcp", "https://public.example/mcp"},
	} {
		for _, status := range []int{http.StatusCreated, http.StatusFound, http.StatusTemporaryRedirect} {
			f.upstreamIs(sending(status, "Location", c.location))
			w := f.serve(t, reached(t, c.stripped, c.path, c.change))
			if got := w.Header().Get("Location"); got != c.want || w.Code != status {
				t.Errorf("%s: %d, %q, want %q", name, w.Code, got, c.want)
			}
		}
	}
}

// TestMetadata gives clients a URL of the metadata that they can reach.
func TestMetadata(t *testing.T) {
	const well = "/.well-known/oauth-protected-resource"
	f := internalFace(t)
	for name, c := range map[string]struct {
		stripped    string
		change      func(*http.Request)
		value, want string // of the parameter
	}{
		"internal":           {"", plainly, "http://" + internal + well + "/mcp", "http://public.example" + well + "/mcp"},
		"internal, TLS":      {"", overTLS, "http://" + internal + well, "https://public.example" + well},
		"client's, TLS":      {"", overTLS, "http://public.example" + well, "https://public.example" + well},
		"client's, https":    {"", plainly, "https://public.example" + well, "https://public.example" + well},
		"stripped":           {"/api", overTLS, "http://" + internal + well, "https://public.example/api" + well},
		"stripped, known":    {"/api", overTLS, "https://public.example" + well + "/api/mcp", "https://public.example" + well + "/api/mcp"},
		"stripped, known in": {"/api", overTLS, "http://" + internal + well + "/api/mcp", "https://public.example" + well + "/api/mcp"},
		"another host":       {"", plainly, "https://login.example" + well, "https://login.example" + well},
		"of the path":        {"/api", plainly, well, well},
		"of another address": {"", plainly, "http://10.0.0.6:3001" + well, "http://10.0.0.6:3001" + well},
		"empty":              {"/api", plainly, "", ""},
	} {
		for _, path := range []string{"/mcp", "/elsewhere"} {
			const before, after = `Basic realm="http://` + internal + `/", Bearer error="invalid_token", Resource_Metadata = "`, `", scope="a"`
			f.upstreamIs(sending(http.StatusUnauthorized, "WWW-Authenticate", before+c.value+after))
			w := f.serve(t, reached(t, c.stripped, path, c.change))
			if got := w.Header().Get("WWW-Authenticate"); got != before+c.want+after {
				t.Errorf("%s, %s: %s, want %s", name, path, got, c.want)
			}
		}
	}
	if texts := f.Warnings.Texts(); len(texts) != 1 || !strings.HasSuffix(texts[0], "public URL of this endpoint (resource_metadata: 10.0.0.6:3001, 2 times)") {
		t.Errorf("remarks: %q", texts)
	}
	value := `Bearer resource_metadata="http://` + internal + `/"`
	f.upstreamIs(sending(http.StatusOK, "WWW-Authenticate", value))
	if got := f.serve(t, reached(t, "", "/mcp", plainly)).Header().Get("WWW-Authenticate"); got != value {
		t.Errorf("what is no refusal has %s", got)
	}
}

// TestDoorGivesTheAddress has the server's refusal come where a call of something hidden
// would be refused.
func TestDoorGivesTheAddress(t *testing.T) {
	f := ruled(t, config{})
	f.backend.Slash().Addresses = redirect.Addresses{internal}
	f.upstreamIs(sending(http.StatusUnauthorized, "WWW-Authenticate", `Bearer resource_metadata="http://`+internal+`/x"`))
	if got := f.serve(t, stranger()).Header().Get("WWW-Authenticate"); got != `Bearer resource_metadata="http://localhost/x"` {
		t.Errorf("got %s", got)
	}
}

// TestTwinIsTheEndpoint has a list at the twin of the endpoint's path come from the cache
// while the server redirects there, and from the server otherwise.
func TestTwinIsTheEndpoint(t *testing.T) {
	f := internalFace(t)
	f.pinTools(t)
	f.letIn(t, "Bearer a")
	list := func(path string) *http.Request {
		r := modernRequest("tools/list", "")
		r.Header.Set("Authorization", "Bearer a")
		return at(path, r)
	}
	const slash = "/mcp/"
	wants := func(step string, path string, hit bool) {
		t.Helper()
		f.upstreamIs(refusing)
		if w := f.serve(t, list(path)); (w.Code == http.StatusOK) != hit {
			t.Errorf("%s: a list at %s gave %d, %v", step, path, w.Code, w.Header())
		}
	}
	post := func(path string, answer stand) {
		t.Helper()
		f.upstreamIs(answer)
		f.serve(t, at(path, modernRequest("tools/call", "")))
	}
	wants("at first", slash, false)
	post("/mcp", sending(http.StatusTemporaryRedirect, "Location", "http://10.0.0.6:3001/mcp/"))
	wants("after a redirect to another server", slash, false)
	post("/other", sending(http.StatusTemporaryRedirect, "Location", "/other/"))
	wants("after a redirect of another path", slash, false)
	post("/mcp", sending(http.StatusTemporaryRedirect, "Location", "http://"+internal+slash))
	wants("after the redirect", slash, true)
	wants("after the redirect", "/mcp", true)
	wants("after the redirect", "/MCP/", false)
	escaped := list(slash)
	escaped.URL.RawPath = "/m%63p/"
	f.upstreamIs(refusing)
	if w := f.serve(t, escaped); w.Code != http.StatusTeapot || w.Header()["Cache-Status"] != nil {
		t.Errorf("a list at an escaped path gave %d, %v", w.Code, w.Header())
	}
	post("/mcp", sending(http.StatusBadGateway, "X", "y"))
	post(slash, answering(http.StatusOK, "application/json", rpcResult))
	wants("after a failure", slash, true)
	post("/mcp", answering(http.StatusOK, "application/json", rpcResult))
	wants("after an answer", slash, false)
	wants("after an answer", "/mcp", true)
}

// TestListAtTheTwinIsKept has a client's own list, which it got at the twin, be a hit at
// both paths.
func TestListAtTheTwinIsKept(t *testing.T) {
	f := internalFace(t)
	f.upstreamIs(sending(http.StatusPermanentRedirect, "Location", "/mcp/"))
	f.serve(t, modernRequest("tools/list", ""))
	f.as(t, "Bearer a", at("/mcp/", modernRequest("tools/list", "")), listing("a"))
	for _, path := range []string{"/mcp", "/mcp/"} {
		w := f.as(t, "Bearer a", at(path, modernRequest("tools/list", "")), refusing)
		if w.Code != http.StatusOK {
			t.Errorf("a list at %s gave %d, %v", path, w.Code, w.Header())
		}
	}
	if f.backend.Admission.Context(f.contextOf(modernRequest("tools/list", "")), revision.LatestModern) != nil {
		t.Error("a redirect has let somebody in")
	}
}
