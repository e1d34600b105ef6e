package origin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

var (
	loopback4 = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	loopback6 = &net.TCPAddr{IP: net.IPv6loopback, Port: 8080}
	loopbackQ = &net.UDPAddr{IP: net.IPv4(127, 0, 0, 53), Port: 8080}
	lan       = &net.TCPAddr{IP: net.IPv4(192, 168, 1, 5), Port: 8080}
	lanQ      = &net.UDPAddr{IP: net.IPv4(192, 168, 1, 5), Port: 8080}
	socket    = &net.UnixAddr{Name: "/run/caddy.sock", Net: "unix"}
)

func TestOriginsLetIn(t *testing.T) {
	for name, c := range map[string]struct {
		at      net.Addr
		host    string
		origin  []string
		origins []string
		refused string // part of the reason; "" lets in
	}{
		// Host, at a loopback address.
		"localhost":               {at: loopback4, host: "localhost"},
		"localhost and port":      {at: loopback4, host: "localhost:8080"},
		"LOCALHOST":               {at: loopback4, host: "LocalHost:8080"},
		"name below localhost":    {at: loopback4, host: "mcp.localhost:8080"},
		"127.0.0.1":               {at: loopback4, host: "127.0.0.1:8080"},
		"127.0.0.1 without port":  {at: loopback4, host: "127.0.0.1"},
		"127.255.255.254":         {at: loopback4, host: "127.255.255.254:8080"},
		"::1":                     {at: loopback6, host: "[::1]:8080"},
		"::1 without port":        {at: loopback6, host: "[::1]"},
		"::1 at 127.0.0.1":        {at: loopback4, host: "[::1]:8080"},
		"mapped 127.0.0.1":        {at: loopback6, host: "[::ffff:127.0.0.1]:8080"},
		"HTTP/3":                  {at: loopbackQ, host: "localhost:8080"},
		"rebound":                 {at: loopback4, host: "evil.example:8080", refused: "Host"},
		"rebound at ::1":          {at: loopback6, host: "evil.example:8080", refused: "Host"},
		"rebound over HTTP/3":     {at: loopbackQ, host: "evil.example:8080", refused: "Host"},
		"ends with localhost":     {at: loopback4, host: "evil-localhost", refused: "Host"},
		"begins with localhost":   {at: loopback4, host: "localhost.evil.example", refused: "Host"},
		"begins with 127.0.0.1":   {at: loopback4, host: "127.0.0.1.evil.example", refused: "Host"},
		"address of the LAN":      {at: loopback4, host: "192.168.1.5:8080", refused: "Host"},
		"0.0.0.0":                 {at: loopback4, host: "0.0.0.0:8080", refused: "Host"},
		"::":                      {at: loopback6, host: "[::]:8080", refused: "Host"},
		"no Host":                 {at: loopback4, host: "", refused: "Host"},
		"tunnel":                  {at: loopback4, host: "mcp.example.com", origins: []string{"https://mcp.example.com"}},
		"tunnel and port":         {at: loopback4, host: "mcp.example.com:8443", origins: []string{"https://mcp.example.com:8443"}},
		"tunnel at another port":  {at: loopback4, host: "mcp.example.com:8443", origins: []string{"https://mcp.example.com"}, refused: "Host"},
		"tunnel, port in Host":    {at: loopback4, host: "mcp.example.com:443", origins: []string{"https://mcp.example.com"}},
		"tunnel and default port": {at: loopback4, host: "mcp.example.com", origins: []string{"https://mcp.example.com:443"}},
		"rebound and its Origin":  {at: loopback4, host: "evil.example", origin: []string{"http://evil.example"}, refused: "Host"},
		"trailing dot":            {at: loopback4, host: "localhost.", refused: "Host"},
		"address, trailing dot":   {at: loopback4, host: "127.0.0.1.", refused: "Host"},
		"foreign, trailing dot":   {at: loopback4, host: "evil.example.", refused: "Host"},
		"userinfo":                {at: loopback4, host: "localhost@evil.example", refused: "Host"},
		"userinfo with a port":    {at: loopback4, host: "localhost:80@evil.example", refused: "Host"},
		"foreign userinfo":        {at: loopback4, host: "evil.example@localhost", refused: "Host"},
		"port is a name":          {at: loopback4, host: "localhost:evil.example", refused: "Host"},
		"two ports":               {at: loopback4, host: "localhost:80:80", refused: "Host"},
		"empty port":              {at: loopback4, host: "localhost:"},
		"only a port":             {at: loopback4, host: ":8080", refused: "Host"},
		"zone":                    {at: loopback6, host: "[::1%evil.example]:8080", refused: "Host"},
		"escaped zone":            {at: loopback6, host: "[::1%25lo]", refused: "Host"},
		"not closed":              {at: loopback6, host: "[::1", refused: "Host"},
		"no brackets":             {at: loopback6, host: "::1", refused: "Host"},
		"name behind brackets":    {at: loopback6, host: "[::1]evil.example", refused: "Host"},
		"IPv4 in brackets":        {at: loopback6, host: "[127.0.0.1]", refused: "Host"},
		"name in brackets":        {at: loopback6, host: "[localhost]:8080", refused: "Host"},
		"number":                  {at: loopback4, host: "2130706433", refused: "Host"},
		"short address":           {at: loopback4, host: "127.1", refused: "Host"},
		"octal address":           {at: loopback4, host: "0177.0.0.1", refused: "Host"},
		"path before localhost":   {at: loopback4, host: "evil.example/.localhost", refused: "Host"},
		"two":                     {at: loopback4, host: "localhost, evil.example", refused: "Host"},
		"Kelvin":                  {at: loopback4, host: "boo\u212a.example", origins: []string{"https://book.example"}, refused: "Host"},
		// Host, elsewhere.
		"at the LAN":       {at: lan, host: "mcp.example.com"},
		"at the LAN, QUIC": {at: lanQ, host: "mcp.example.com"},
		"at a socket":      {at: socket, host: "mcp.example.com"},
		"at nowhere":       {at: nil, host: "mcp.example.com"},
		// Origin.
		"same":                   {at: lan, host: "mcp.example.com", origin: []string{"https://mcp.example.com"}},
		"same, TLS ended before": {at: lan, host: "mcp.example.com", origin: []string{"http://mcp.example.com"}},
		"same, other case":       {at: lan, host: "MCP.example.com", origin: []string{"HTTPS://mcp.EXAMPLE.com"}},
		"same and port":          {at: loopback4, host: "localhost:8080", origin: []string{"http://localhost:8080"}},
		"same, port 443 in Host": {at: lan, host: "mcp.example.com:443", origin: []string{"https://mcp.example.com"}},
		"same, port 80 in both":  {at: lan, host: "mcp.example.com:80", origin: []string{"http://mcp.example.com:80"}},
		"same, port in Origin":   {at: lan, host: "mcp.example.com", origin: []string{"https://mcp.example.com:443"}},
		"same, IPv6":             {at: loopback6, host: "[::1]:8080", origin: []string{"http://[::1]:8080"}},
		"other port":             {at: loopback4, host: "localhost:8080", origin: []string{"http://localhost:3000"}, refused: "Origin"},
		"other default port":     {at: lan, host: "mcp.example.com:443", origin: []string{"http://mcp.example.com"}, refused: "Origin"},
		"port 80 of https":       {at: lan, host: "mcp.example.com", origin: []string{"https://mcp.example.com:80"}, refused: "Origin"},
		"other host":             {at: lan, host: "mcp.example.com", origin: []string{"https://evil.example"}, refused: "Origin"},
		"subdomain":              {at: lan, host: "example.com", origin: []string{"https://mcp.example.com"}, refused: "Origin"},
		"begins the same":        {at: lan, host: "example.com", origin: []string{"https://example.com.evil.example"}, refused: "Origin"},
		"null":                   {at: lan, host: "mcp.example.com", origin: []string{"null"}, refused: "Origin"},
		"null is no origin":      {at: lan, host: "null", origin: []string{"null"}, refused: "Origin"},
		"empty":                  {at: lan, host: "mcp.example.com", origin: []string{""}, refused: "Origin"},
		"an extension":           {at: lan, host: "abc", origin: []string{"chrome-extension://abc"}, refused: "Origin"},
		"with a path":            {at: lan, host: "mcp.example.com", origin: []string{"https://mcp.example.com/"}, refused: "Origin"},
		"two, both fine":         {at: lan, host: "a.example", origin: []string{"https://a.example", "https://a.example"}, refused: "Origin"},
		"two, the second not":    {at: lan, host: "a.example", origin: []string{"https://a.example", "https://evil.example"}, refused: "Origin"},
		"two in one":             {at: lan, host: "a.example", origin: []string{"https://a.example, https://evil.example"}, refused: "Origin"},
		"listed":                 {at: lan, host: "mcp.example.com", origin: []string{"https://app.example.com"}, origins: []string{"https://app.example.com"}},
		"listed, other case":     {at: lan, host: "mcp.example.com", origin: []string{"https://APP.example.com"}, origins: []string{"https://App.example.com"}},
		"listed, default port":   {at: lan, host: "mcp.example.com", origin: []string{"http://app.example.com"}, origins: []string{"http://app.example.com:80"}},
		"listed with https only": {at: lan, host: "mcp.example.com", origin: []string{"http://app.example.com"}, origins: []string{"https://app.example.com"}, refused: "Origin"},
		"listed at another port": {at: lan, host: "mcp.example.com", origin: []string{"https://app.example.com:8443"}, origins: []string{"https://app.example.com"}, refused: "Origin"},
		"second of the list":     {at: lan, host: "mcp.example.com", origin: []string{"http://b:1"}, origins: []string{"http://a", "http://b:1"}},
		"null, listed":           {at: lan, host: "mcp.example.com", origin: []string{"null"}, origins: []string{"null"}},
		"an application":         {at: lan, host: "mcp.example.com", origin: []string{"app://bundle"}, origins: []string{"app://bundle"}},
		"an application's files": {at: lan, host: "mcp.example.com", origin: []string{"file://"}, origins: []string{"file://"}},
		"an extension, listed":   {at: lan, host: "abc", origin: []string{"chrome-extension://abc"}, origins: []string{"chrome-extension://abc"}},
		"another application":    {at: lan, host: "mcp.example.com", origin: []string{"app://other"}, origins: []string{"app://bundle"}, refused: "Origin"},
		"no host by an app":      {at: loopback4, host: "bundle", origins: []string{"app://bundle"}, refused: "Host"},
		"any":                    {at: lan, host: "mcp.example.com", origin: []string{"https://evil.example"}, origins: []string{"*"}},
		"any, null":              {at: lan, host: "mcp.example.com", origin: []string{"null"}, origins: []string{"*"}},
		"any, at loopback":       {at: loopback4, host: "evil.example", origin: []string{"https://evil.example"}, origins: []string{"*"}},
		"named by the site":      {at: loopback4, host: "Named.example:443", origin: []string{"https://named.example"}},
		"listed, at loopback":    {at: loopback4, host: "localhost:8080", origin: []string{"http://localhost:6274"}, origins: []string{"http://localhost:6274"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Parse(c.origins)
			if err != nil {
				t.Fatal(err)
			}
			o.Names = func(_ *http.Request, host string) bool { return strings.HasPrefix(host, "named.example") }
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
			r.Host = c.host
			if c.origin != nil {
				r.Header["Origin"] = c.origin
			}
			if c.at != nil {
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.at))
			}
			got := o.Refuses(r).Reason
			if (got == "") != (c.refused == "") || !strings.HasPrefix(got, c.refused) {
				t.Errorf("got %q, want %q", got, c.refused)
			}
		})
	}
}

// A browser that says that a page of another origin sends the request, but not of
// which, is not let in, unless somebody follows a link.
func TestOtherSites(t *testing.T) {
	header := func(pairs ...string) http.Header {
		h := make(http.Header)
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	const endpoint, elsewhere = "endpoint", "elsewhere"
	const reads, writes = "GET HEAD OPTIONS", "POST DELETE PUT QUERY get"
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for name, c := range map[string]struct {
		methods string
		header  http.Header
		refused string // where
	}{
		"no browser":             {methods: reads + " " + writes},
		"its own page":           {methods: reads + " " + writes, header: header("Sec-Fetch-Site", "same-origin")},
		"an address typed in":    {methods: reads + " " + writes, header: header("Sec-Fetch-Site", "none")},
		"nothing said":           {methods: reads + " " + writes, header: header("Sec-Fetch-Site", "")},
		"another site reads":     {methods: reads, header: header("Sec-Fetch-Site", "cross-site"), refused: endpoint},
		"another site":           {methods: writes, header: header("Sec-Fetch-Site", "cross-site"), refused: endpoint + elsewhere},
		"another host reads":     {methods: reads, header: header("Sec-Fetch-Site", "same-site"), refused: endpoint},
		"another host":           {methods: writes, header: header("Sec-Fetch-Site", "same-site"), refused: endpoint + elsewhere},
		"what nobody knows":      {methods: writes, header: header("Sec-Fetch-Site", "Same-Origin"), refused: endpoint + elsewhere},
		"two sites":              {methods: writes, header: header("Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"), refused: endpoint + elsewhere},
		"another, listed":        {methods: reads + " " + writes, header: header("Sec-Fetch-Site", "cross-site", "Origin", "https://app.example")},
		"another, not listed":    {methods: writes, header: header("Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), refused: endpoint + elsewhere},
		"its own, behind TLS":    {methods: reads + " " + writes, header: header("Sec-Fetch-Site", "cross-site", "Origin", "http://mcp.example")},
		"a link":                 {methods: "GET HEAD", header: header(link...)},
		"a form":                 {methods: "POST", header: header(link...), refused: endpoint + elsewhere},
		"OPTIONS of a link":      {methods: "OPTIONS", header: header(link...), refused: endpoint},
		"a frame":                {methods: reads, header: header(append(link[:4:4], "Sec-Fetch-Dest", "iframe")...), refused: endpoint},
		"a picture":              {methods: reads, header: header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"), refused: endpoint},
		"a link, two modes":      {methods: reads, header: header(append(link[:6:6], "Sec-Fetch-Mode", "cors")...), refused: endpoint},
		"a link to a WebSocket":  {methods: "GET", header: header(append(link[:6:6], "Upgrade", "websocket")...), refused: endpoint + elsewhere},
		"a WebSocket of its own": {methods: "GET", header: header("Sec-Fetch-Site", "same-origin", "Upgrade", "websocket")},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Parse([]string{"https://app.example"})
			if err != nil {
				t.Fatal(err)
			}
			for method := range strings.FieldsSeq(c.methods) {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/mcp", nil)
				r.Method, r.Host, r.Header = method, "mcp.example", c.header
				for where, reason := range map[string]string{endpoint: o.Refuses(r).Reason, elsewhere: o.RefusesElsewhere(r, false).Reason} {
					if (reason != "") != strings.Contains(c.refused, where) {
						t.Errorf("%s, %s: got %q", method, where, reason)
					}
				}
				// With credentials that are lent, reading is as good as at the endpoint.
				reason, want := o.RefusesElsewhere(r, true).Reason, strings.Contains(c.refused, endpoint) && !isOwnForm(c.header)
				if (reason != "") != want {
					t.Errorf("%s, elsewhere, with credentials lent: got %q", method, reason)
				}
			}
		})
	}
}

// A handler in front may have changed the Host. What the browser says of the page still tells
// whether it is of the very site, and a name that was made to resolve to this machine is not.
func TestHostIsRewritten(t *testing.T) {
	for name, c := range map[string]struct {
		at      net.Addr
		origin  string
		site    string
		refused bool
	}{
		"its own page":                  {at: lan, origin: "https://mcp.example", site: "same-origin"},
		"nothing said of the page":      {at: lan, origin: "https://mcp.example", refused: true},
		"another page":                  {at: lan, origin: "https://mcp.example", site: "same-site", refused: true},
		"an application":                {at: lan, origin: "app://mcp.example", site: "same-origin", refused: true},
		"at loopback":                   {at: loopback4, origin: "http://localhost:8080", site: "same-origin"},
		"at loopback, named":            {at: loopback4, origin: "https://named.example", site: "same-origin"},
		"at loopback, rebound":          {at: loopback4, origin: "http://evil.example", site: "same-origin", refused: true},
		"at loopback, rebound, a frame": {at: loopback4, origin: "null", site: "same-origin", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Parse(nil)
			if err != nil {
				t.Fatal(err)
			}
			o.Names = func(_ *http.Request, host string) bool { return host == "named.example" }
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.at))
			r.Host = "127.0.0.1:3001"
			r.Header = http.Header{"Origin": {c.origin}, "Sec-Fetch-Site": {c.site}}
			if got := o.Refuses(r).Reason; (got != "") != c.refused {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestBadOrigins(t *testing.T) {
	for _, bad := range []string{
		"", "app.example.com", "**", "Null", "https://", "https://*.example.com", "app:", "app://", "https://app.example.com/",
		"https://app.example.com/path", "https://user@app.example.com", "https://app.example.com?x=1",
		"https://app.example.com#x", "https://app.example.com:port", "https://app.example.com:", "https://app.example.com:70000", "https://b\u00fccher.example", "://x", "file:///x",
	} {
		if _, err := Parse([]string{"https://fine.example", bad}); err == nil || !strings.HasPrefix(err.Error(), "origins: ") {
			t.Errorf("%q: got error %v", bad, err)
		}
	}
}
