package policy

import (
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestDeniedHosts denies what has a host, in whatever way the host is spelled.
func TestDeniedHosts(t *testing.T) {
	for _, rule := range []string{
		"*SECRET*", "?ocs://SECRET/*", "docs://S?CRET/*", "docs:*SECRET*", "*://SECRET/*", "[d]ocs://SECRET/*", "docs://[S]ECRET/*",
		"DOCS://secret/*", "docs://secret/*", "d*S://seC*", "docs:/[/]SECRET*", "docs://SECR%45T/*",
	} {
		for _, uri := range []string{"docs://SECRET/b", "docs://secret/b", "DOCS://sEcret/b", "docs://secr%65t/b", "docs://@secret/b", "docs://:@secret/b", "docs://secret:/b"} {
			if view(t, "deny resources "+rule).Decide(revision.Reads, Item{Name: uri}).Allowed {
				t.Errorf("deny %s: %s is allowed", rule, uri)
			}
		}
	}
	open := view(t, "deny resources none")
	for uri, want := range map[string]bool{
		"https://docs.example/a": true, "https://docs.e\u200bxample/a": false, "https://\uff44ocs.example/a": false, "https://docs\u3002example/a": false,
		"https://docs.e%C2%ADxample/a": false, "https://docs.ex%61mple/a": true, "http://127.0.0.1/": true, "http://127.001/": false, "http://127.0.0.01/": false,
		"http://2130706433/": false, "http://0x7f.1/": false, "http://[::1]/": true, "http://[0::1]/": false, "http://[::1]:81/": true, "http://a.b1/": true, "http://a.1b/": false,
		"http://user@host/": true, "http://user:@host/": false, "http://host:081/": false, "https://host./": false, "https://host:443/": false, "https://host:444/": true,
		"memo:a": true, "memo:Gr\u00f6\u00dfe": true, "memo://x/Gr\u00f6\u00dfe": true, "memo://Gr\u00f6\u00dfe/x": true, "memo://Gr%C3%B6%C3%9Fe/x": true, "mongodb://a:27017,b:27017/db": true, "mcp://server:tools/x": true,
		"redis://:pw@host:6379/0": true, "amqp://host:/vh": false, "docs://my docs/x": true, "docs://a%20b/c": true, "docs://a%3Ab/c": false, "docs://host./x": true,
		"https://a.example/?q=a%2Fb%25": true, "https://a.example/a%2Fb": false, "file://localhost/x": false, "test://{id}/a": true, "https://{host}:{port}/a": true,
		"a:100%": true, "a:%20": true, ":": true, "//host/x": true, "a://": true, "file:///etc/x": true,
	} {
		if got := open.Decide(revision.Reads, Item{Name: uri}).Allowed; got != want {
			t.Errorf("%q is certain: %v, want %v", uri, got, want)
		}
	}
}

// A host of the web has a path, written or not.
func TestPathsOfHosts(t *testing.T) {
	for _, rule := range []string{"https://docs.example/*", "https://docs.example/", "https://docs.example"} {
		v := view(t, "deny resources "+rule)
		for _, uri := range []string{"https://docs.example/", "https://docs.example", "HTTPS://DOCS.EXAMPLE"} {
			if v.Decide(revision.Reads, Item{Name: uri}).Allowed {
				t.Errorf("deny %s: %s is allowed", rule, uri)
			}
		}
	}
	v := view(t, "deny resources https://docs.example/*")
	for _, uri := range []string{"https://docs.example?x=1", "https://docs.example#f", "https://docs.example?", "https://docs.example#"} {
		if v.Decide(revision.Reads, Item{Name: uri}).Allowed {
			t.Errorf("%s is allowed", uri)
		}
	}
	if !view(t, "deny resources docs://x/*").Decide(revision.Reads, Item{Name: "docs://x"}).Allowed {
		t.Error("docs://x is docs://x/")
	}
}

// Servers that take a URI apart by its slashes alone find segments of dots wherever they
// are: rules say nothing certain of those.
func TestDotSegments(t *testing.T) {
	v := view(t, "allow resources docs://a/public/* docs://a/b/../c docs://a/b?x=/../c")
	for _, uri := range []string{
		"/../b", "/..", "/.", "/./b", "a#/../../secret/a", "a?/../../secret/a", "a?x=1/../../secret", "a?..", "a#..", "a?../b", "a#./b", "a?x#/..",
		"..;/secret/a", "..;x=1/secret/a", ".;/b", "a?/..;x/b", "a#/..;", "a?/%2e%2e/b", "a#/%2E./b", "a?/.%2e;x/b", "a?%2f..%2f..%2fb", "a#%5c..%5cb",
		"a?%3f..%2fb", "a#%23..", "a?/%252e%252e/b", "a?%25252f%2525252e./b", "a#/..%253bx/b", "%%32e%%32e/b", "a?/%%32%65./b", "a?/%2%35%32e./b",
	} {
		if v.Decide(revision.Reads, Item{Name: "docs://a/public/" + uri}).Allowed {
			t.Errorf("%q is allowed", uri)
		}
	}
	for _, uri := range []string{
		"...", "a..b", "..a", "a..", ".a/b.", "a?q=1..2", "a?q=..&r=.", "a#a..b", "a;..", "a?x;/;..", "a?q=a%2Fb%25", "a?%2e%2ea", "a?100%", "a?%zz/%4", "?/#/",
	} {
		if !v.Decide(revision.Reads, Item{Name: "docs://a/public/" + uri}).Allowed {
			t.Errorf("%q is hidden", uri)
		}
	}
	for _, uri := range []string{"docs://a/b/../c", "docs://a/b?x=/../c"} {
		if v.Decide(revision.Reads, Item{Name: uri}).Allowed {
			t.Errorf("%s is allowed, as a rule names it, and servers may take it for another", uri)
		}
	}
	if !view(t, "deny tools x").Decide(revision.Reads, Item{Name: "docs://a/b/../c"}).Allowed {
		t.Error("of resources that no rule is about one is hidden")
	}
}

// TestPercentEncoding: what is denied is denied however it is spelled, and what is
// allowed has to be so in whatever way a server reads it.
func TestPercentEncoding(t *testing.T) {
	for _, tt := range []struct {
		rule, uri string
		want      bool
	}{
		{"deny resources file:///secret*", "file:///secret/a", false},
		{"deny resources file:///secret*", "file:///%73ecret/a", false},
		{"deny resources file:///secret*", "file:///%zzecret/%", true},
		{"deny resources file:///%73ecret*", "file:///secret/a", false},
		{"deny resources file:///%73ecret*", "file:///%73ecret/a", false},
		{"deny resources file:///a%2ab", "file:///acb", true},
		{"deny resources file:///a%2ab", "file:///a*b", false},
		{"deny resources file:///[a-c]:*", "file:///b%3Ad", false},
		{"allow resources file:///[^s]*", "file:///%73ecret", false},
		{"allow resources file:///[^s]*", "file:///%61", true},
		{"allow resources file:///public", "file:///%70ublic", true}, // the same by RFC 3986
		{"deny resources x:a:b*", "x:a%3Ab/c", false},
		{"allow resources x:a%3Ab", "x:a:b", false},
		{"allow resources file:///a%20b", "file:///a%20b", true},
		{"allow resources file:///*", "file:///a%0a", false},
		{"allow resources file:///*", "file:///a%ff", false},
		{"allow resources file:///*", "file:///%C3%A4", true},
	} {
		if got := view(t, tt.rule).Decide(revision.Reads, Item{Name: tt.uri}).Allowed; got != tt.want {
			t.Errorf("%s: %q is allowed: %v", tt.rule, tt.uri, got)
		}
	}
}

// Servers find what a URI names also by other spellings of it: those are the same to
// rules, or denied.
func TestSpellingsOfURIs(t *testing.T) {
	deny := view(t, "deny resources docs://hidden/* docs://a/%68%C3%A4%20x https://host/hidden* file:///hidden*")
	for _, uri := range []string{
		"docs://hidden/a", " docs://hidden/a", "docs://hidden/a ", "docs://%68idden/a", "docs://hidde%6E/a", "DOCS://HIDDEN/a", "docs://%48idden/a",
		"docs://a/h\u00e4 x", "docs://a/h%c3%A4%20x", "docs://a/%68\u00e4%20x", "docs://a/h%C3%A4 x",
		"https://host/hidden", "https:/host/hidden", "https:host/hidden", "https:///host/hidden", "https://HOST:443/hidden", "https://host/hidd%65n",
		"file:///hidden", "file:/hidden", "file://localhost/hidden", "file:hidden", "docs://x/%ff", "docs://x/%0a", "docs://x/%7f",
	} {
		if deny.Decide(revision.Resources, Item{Name: uri}).Allowed {
			t.Errorf("%q is not denied", uri)
		}
	}
	for _, uri := range []string{
		"docs://shown/a", "docs://shown/%7Euser%20name", "docs://a/h%C3%A4", "docs://x/%3Ahidden%2c", "docs://x/100%", "docs://x/%4", "docs://x/%zz%%",
		"https://host/shown", "https://host:8443/", "https://host", "https://host?x", "file:///shown", "file://server/x", "http://host:8080/x", "test:80",
	} {
		if !deny.Decide(revision.Resources, Item{Name: uri}).Allowed {
			t.Errorf("%q is denied", uri)
		}
	}
	allow := view(t, "allow resources docs://a%62c/%3a*")
	for uri, want := range map[string]bool{"docs://abc/%3Ax": true, "docs://ab%63/%3a": true, "docs://abc/:x": false} {
		if got := allow.Decide(revision.Resources, Item{Name: uri}).Allowed; got != want {
			t.Errorf("%q is allowed: %v, want %v", uri, got, want)
		}
	}
	if _, err := ParsePattern(revision.Resources, "docs://a/%0a"); err == nil {
		t.Error("an encoded control character is a pattern")
	}
}

// What is denied is so whatever a server may leave out of its URI. What is allowed has to
// be named as it is.
func TestBareURIs(t *testing.T) {
	for uri, want := range map[string]string{
		"docs://y/secret?": "docs://y/secret", "docs://y/secret#a?b": "docs://y/secret", "docs://y//secret": "docs://y/secret",
		"docs://u@y/secret": "docs://y/secret", "file:////srv//private/key": "file:///srv/private/key", "file://127.0.0.1/srv/x": "file:///srv/x",
		"docs:///secret//": "docs:///secret/", "urn:a:b?c": "urn:a:b", "docs://y": "docs://y", "docs": "docs",
	} {
		if got := bare(uri); got != want {
			t.Errorf("%s: got %s, want %s", uri, got, want)
		}
	}
	for _, uri := range []string{"docs://y/secret?", "docs://y/secret?x=1", "docs://y/secret#x", "docs://y//secret", "docs://u@y/secret", "docs://y/%73ecret?"} {
		if view(t, "deny resources docs://y/secret").Decide(revision.Reads, Item{Name: uri}).Allowed {
			t.Errorf("%s is not denied", uri)
		}
		if view(t, "allow resources docs://y/secret").Decide(revision.Reads, Item{Name: uri}).Allowed {
			t.Errorf("%s is allowed", uri)
		}
	}
	for _, uri := range []string{"file:///srv//private/key", "file:////srv/private/key", "file://127.0.0.1/srv/private/key"} {
		if view(t, "deny resources file:///srv/private/*").Decide(revision.Reads, Item{Name: uri}).Allowed {
			t.Errorf("%s is not denied", uri)
		}
	}
	if !view(t, "deny resource_templates docs://y/{").Decide(revision.ResourceTemplates, Item{Name: "docs://y/{?x}"}).Allowed {
		t.Error("a template is taken apart")
	}
}
