package redirect

import (
	"net/http"
	"net/url"
	"testing"
)

// own are addresses as a configuration has them.
var own = Addresses{"10.0.0.5:3001", "internal.example:80", "MCP.example.com", "[::1]:3001"}

// TestRelative gives references to what is at the server, and nothing to anything else.
func TestRelative(t *testing.T) {
	const host = "public.example"
	for location, want := range map[string]string{
		// At one of its addresses.
		"http://10.0.0.5:3001/mcp/":              "/mcp/",
		"https://10.0.0.5:3001/mcp/?a=%20b&c#d%": "", // not a URL
		"HTTPS://10.0.0.5:3001/m%63p/?a=%20b&#d": "/m%63p/?a=%20b&#d",
		"http://10.0.0.5:3001":                   "/",
		"http://10.0.0.5:3001?a":                 "/?a",
		"http://10.0.0.5:3001#a":                 "/#a",
		"http://internal.example/x":              "/x",
		"http://Internal.Example:80/x":           "/x",
		"http://mcp.example.com/x":               "/x",
		"https://mcp.example.com:443/x":          "/x",
		"http://[::1]:3001/x":                    "/x",
		"//10.0.0.5:3001/mcp/?a":                 "/mcp/?a",
		"//internal.example/x":                   "/x",
		// At the client's.
		"//public.example/x":              "/x",
		"http://public.example/mcp/":      "/mcp/",
		"https://PUBLIC.example:443/mcp/": "/mcp/",
		"/mcp/":                           "/mcp/",
		// Elsewhere.
		"https://internal.example/x":             "",
		"http://10.0.0.5/x":                      "",
		"http://10.0.0.5:3002/x":                 "",
		"http://10.0.0.50:3001/x":                "",
		"http://public.example:8080/":            "",
		"http://public.example.evil/":            "",
		"http://evil@public.example/":            "",
		"http://public.example@evil/":            "",
		"ftp://10.0.0.5:3001/":                   "",
		"http:mcp":                               "",
		"http:///mcp":                            "",
		"mcp/":                                   "",
		"?a":                                     "",
		"":                                       "",
		"://":                                    "",
		"//evil.example/mcp/":                    "",
		"//evil.example\\@10.0.0.5:3001/":        "",
		"//10.0.0.5:3001//evil/":                 "",
		"http://10.0.0.5:3001//evil/":            "", // a reference to another host
		"http://10.0.0.5:3001/\\evil/":           "", // the same in browsers
		"http://10.0.0.5:3001/\t/evil/":          "",
		"http://10.0.0.5:3001\\evil/":            "",
		"http://10.0.0.5:3001/\n":                "",
		"http://10.0.0.5:3001.evil/":             "",
		"http://10.0.0.5:3001%2eevil/":           "",
		"javascript://10.0.0.5:3001/%0aalert(1)": "",
	} {
		if got, ok := own.Relative(location, "", host); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, want %q", location, got, want)
		}
	}
	if got, ok := (Addresses{}).Relative("http:///x", "", ""); ok {
		t.Errorf("without a host: %q", got)
	}
}

// TestPrefix puts there what a site has stripped, unless the server knows of it.
func TestPrefix(t *testing.T) {
	for location, want := range map[string]string{
		"http://10.0.0.5:3001/mcp/?a=/api/": "/api/mcp/?a=/api/",
		"http://10.0.0.5:3001":              "/api/",
		"http://10.0.0.5:3001/api/mcp/":     "/api/mcp/",
		"http://10.0.0.5:3001/api?a":        "/api?a",
		"http://10.0.0.5:3001/apis":         "/api/apis",
		"http://10.0.0.5:3001//evil":        "/api//evil",
		"/mcp/":                             "/api/mcp/",
		"/api/mcp/":                         "/api/mcp/",
		"mcp/":                              "",
		"http://evil/mcp/":                  "",
	} {
		if got, _ := own.Relative(location, "/api", "public.example"); got != want {
			t.Errorf("%q: got %q, want %q", location, got, want)
		}
	}
	if got, ok := own.Relative("/mcp/", "//evil", "public.example"); ok {
		t.Errorf("a prefix that names a host gives %q", got)
	}
}

func TestTwin(t *testing.T) {
	for path, want := range map[string]string{"/mcp": "/mcp/", "/mcp/": "/mcp", "/a/b": "/a/b/", "/": "", "": ""} {
		if got := Twin(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

// TestSlash learns from answers that lead to the twin, and from no others.
func TestSlash(t *testing.T) {
	const here = "http://client.example"
	for name, c := range map[string]struct {
		path, location string
		status         int
		method         string
		leads          bool
	}{
		"absolute":          {"/mcp", "http://10.0.0.5:3001/mcp/", 307, "POST", true},
		"permanent":         {"/mcp", "http://10.0.0.5:3001/mcp/", 308, "POST", true},
		"without the slash": {"/mcp/", "http://10.0.0.5:3001/mcp", 307, "POST", true},
		"the client's":      {"/mcp", "https://client.example/mcp/", 307, "POST", true},
		"of the path":       {"/mcp", "/mcp/", 307, "POST", true},
		"of the last part":  {"/mcp", "mcp/", 307, "POST", true},
		"with the query":    {"/mcp?a=b", "/mcp/?a=b", 307, "POST", true},
		"a GET":             {"/mcp", "/mcp/", 307, "GET", true},
		"302":               {"/mcp", "/mcp/", 302, "POST", false},
		"301":               {"/mcp", "/mcp/", 301, "POST", false},
		"200":               {"/mcp", "/mcp/", 200, "POST", false},
		"another query":     {"/mcp", "/mcp/?a=b", 307, "POST", false},
		"another path":      {"/mcp", "/other/", 307, "POST", false},
		"two slashes":       {"/mcp", "/mcp//", 307, "POST", false},
		"another host":      {"/mcp", "http://other.example/mcp/", 307, "POST", false},
		"another port":      {"/mcp", "http://10.0.0.5:3002/mcp/", 307, "POST", false},
		"host alone":        {"/mcp", "//other.example/mcp/", 307, "POST", false},
		"itself":            {"/mcp", "/mcp", 307, "POST", false},
		"no Location":       {"/mcp", "", 307, "POST", false},
		"no URL":            {"/mcp", "http://%/", 307, "POST", false},
		"escaped":           {"/mcp", "/m%63p%2f", 307, "POST", false},
		"escaped request":   {"/m%2fp", "/m%2fp/", 307, "POST", false},
		"root":              {"/", here, 307, "POST", false},
	} {
		u, err := url.Parse(here + c.path)
		if err != nil {
			t.Fatal(err)
		}
		s := Slash{Addresses: own}
		if got := s.Learn(c.method, u, u.Host, c.status, c.location); got != c.leads || s.Redirects() != (c.leads && c.method == "POST") {
			t.Errorf("%s: it leads there: %v, it is remembered: %v", name, got, s.Redirects())
		}
	}
}

// TestSlashIsForgotten when the path as it is configured answers, not when it fails, and
// not for what else is at that path.
func TestSlashIsForgotten(t *testing.T) {
	u := &url.URL{Scheme: "http", Host: "h", Path: "/mcp"}
	for name, c := range map[string]struct {
		method    string
		status    int
		forgotten bool
	}{
		"an answer":        {http.MethodPost, 200, true},
		"accepted":         {http.MethodPost, 202, true},
		"a page":           {http.MethodGet, 200, false},
		"a preflight":      {http.MethodOptions, 204, false},
		"a failure":        {http.MethodPost, 502, false},
		"a refusal":        {http.MethodPost, 401, false},
		"another redirect": {http.MethodPost, 302, false},
	} {
		var s Slash
		s.Learn(http.MethodPost, u, u.Host, 307, "/mcp/")
		s.Learn(c.method, u, u.Host, c.status, "")
		if s.Redirects() == c.forgotten {
			t.Errorf("%s: it is forgotten: %v", name, !s.Redirects())
		}
	}
}

// FuzzRelative: what is given in the place of a server's URL leads to the host that the
// client has used, whatever the server writes.
func FuzzRelative(f *testing.F) {
	for _, location := range []string{"http://10.0.0.5:3001/mcp/?a#b", "http://10.0.0.5:3001//evil", "http://public.example/\\evil", "/mcp/", "//evil/", "http://[::1]:3001?"} {
		f.Add(location, "")
		f.Add(location, "/api")
	}
	f.Fuzz(func(t *testing.T, location, prefix string) {
		reference, ok := own.Relative(location, prefix, "public.example")
		if !ok || prefix != "" && prefix != "/api" {
			return
		}
		to, err := (&url.URL{Scheme: "https", Host: "client.example", Path: "/x"}).Parse(reference)
		if err != nil || to.Host != "client.example" || to.Scheme != "https" || len(reference) > 1 && (reference[1] == '/' || reference[1] == '\\') {
			t.Errorf("%q gives %q, which is %v: %v", location, reference, to, err)
		}
	})
}

func TestIsInternal(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:3001": true, "[::1]:3001": true, "0.0.0.0:8000": true, "10.1.2.3": true, "192.168.1.5:80": true, "fd00::1": true,
		"169.254.1.1": true, "localhost": true, "LOCALHOST:3001": true, "mcp:3001": true, "mars.internal": true, "nas.local:80": true,
		"mcp.localhost": true, "mcp.example.com": false, "203.0.113.7:443": false, "[2001:db8::1]": false, "internal.example.com:80": false, "": false,
	} {
		if got := IsInternal(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
