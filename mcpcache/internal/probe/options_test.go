package probe

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestCallers(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		want    []http.Header
	}{
		"none": {nil, []http.Header{{}}},
		"one":  {[]string{"authorization:Bearer a", "X-Tenant: t"}, []http.Header{{"Authorization": {"Bearer a"}, "X-Tenant": {"t"}}}},
		"two": {[]string{"Authorization: Bearer a", "X-Tenant: t", "AUTHORIZATION: Bearer b"}, []http.Header{
			{"Authorization": {"Bearer a"}, "X-Tenant": {"t"}}, {"Authorization": {"Bearer b"}, "X-Tenant": {"t"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Callers(c.headers); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	for name, headers := range map[string][]string{
		"no colon":        {"Authorization Bearer s3cret"},
		"no name":         {": s3cret"},
		"no token":        {"Auth orization: s3cret"},
		"no value":        {"Authorization: "},
		"a line break":    {"Authorization: s3cret\r\nX-Other: s3cret"},
		"three":           {"A: s3cret", "A: s3cret", "A: s3cret"},
		"a Caddyfile's":   {"+Authorization: s3cret"},
		"the protocol's":  {"mcp-session-id: s3cret"},
		"the transport's": {"Host: s3cret"},
	} {
		t.Run(name, func(t *testing.T) {
			if callers, err := Callers(headers); err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, %v", callers, err)
			}
		})
	}
}

func TestURLs(t *testing.T) {
	for given, want := range map[string]string{
		"http://127.0.0.1:3001/mcp":  "http://127.0.0.1:3001/mcp",
		"https://mcp.example.com":    "https://mcp.example.com/mcp",
		"http://mcp.example.com/":    "http://mcp.example.com/",
		"127.0.0.1:3001":             "http://127.0.0.1:3001/mcp",
		"localhost:3001/api":         "http://localhost:3001/api",
		"[::1]:3001":                 "http://[::1]:3001/mcp",
		"3001":                       "http://127.0.0.1:3001/mcp",
		"03001/mcp":                  "http://03001/mcp",
		"65536":                      "http://65536/mcp",
		"":                           "",
		"ftp://example.com/":         "",
		"http:///mcp":                "",
		"http://user:s3cret@host":    "",
		"http://host/mcp?key=s3cret": "",
		"http://host/mcp#s3cret":     "",
		"http://ho st/s3cret":        "",
		"http://host/\x1b[s3cret":    "",
	} {
		u, err := ParseURL(given)
		switch {
		case want == "" && (err == nil || strings.Contains(err.Error(), "s3cret")):
			t.Errorf("%q gives %v, %v", given, u, err)
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%q gives %v, %v", given, u, err)
		}
	}
}

func TestWrap(t *testing.T) {
	got := wrap("one two  three\nfour seventeenletters x", 9)
	if want := []string{"one two", "three", "four", "seventeenletters", "x"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	if wrap("", 9) != nil {
		t.Error("nothing has lines")
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 999: "999 bytes", 9999: "9,999 bytes", 10_000: "10 kB", 1_234_567: "1,234 kB", 33_554_432: "33 MB"} {
		if got := size(n); got != want {
			t.Errorf("%d bytes are %q", n, got)
		}
	}
	for ms, want := range map[int64]string{300: "300ms", 1000: "1 second", 90_000: "90 seconds", 300_000: "5 minutes", 3_600_000: "1 hour", 172_800_000: "2 days", 1 << 62: "3650 days"} {
		if got := period(ms); got != want {
			t.Errorf("%d ms are %q", ms, got)
		}
	}
}

// TestWhereTheSiteListens suggests a site for servers in several places: one that
// only this machine reaches, and that lets in everybody, stays there.
func TestWhereTheSiteListens(t *testing.T) {
	for url, want := range map[string]bool{
		"http://127.0.0.1:3001/mcp": true, "http://127.9.9.9/mcp": true, "http://[::1]:3001/mcp": true,
		"http://[::ffff:127.0.0.1]:3001/mcp": true, "http://LocalHost:3001/mcp": true, "https://a.localhost./mcp": true,
		"http://192.0.2.1/mcp": false, "https://mcp.example.com/mcp": false, "http://localhost.example.com/mcp": false,
	} {
		for _, needed := range []bool{false, true} {
			got := caddyfile(&Report{URL: url, Access: Access{Needed: needed, header: "Authorization", bearer: true}})
			if strings.Contains(got, "\n\tbind 127.0.0.1\n") != (want && !needed) {
				t.Errorf("%s, credentials needed: %v:\n%s", url, needed, got)
			}
		}
	}
}
