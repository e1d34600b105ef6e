package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

// values are placeholders.
type values map[string]string

func (v values) GetString(name string) (string, bool) {
	value, ok := v[name]
	return value, ok
}

func (v values) ReplaceAll(text, empty string) string {
	return cmp.Or(v[strings.Trim(text, "{}")], empty)
}

// caller is a request with what handlers in front have left with it.
type caller struct {
	r      *http.Request
	values values
}

func request() *http.Request {
	return httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://localhost/mcp", http.NoBody)
}

// rules have a secret of their own.
func rules(partition ...string) *Rules {
	r := &Rules{Partition: partition}
	_, _ = rand.Read(r.Secret[:])
	return r
}

// callers are requests that no two contexts may be the same of: whatever could
// tell a caller from another is in one of them, and what could be mistaken for
// something else.
func callers() map[string]caller {
	with := func(change func(*http.Request)) caller {
		r := request()
		change(r)
		return caller{r: r}
	}
	header := func(name string, values ...string) caller {
		return with(func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values })
	}
	certificate := func(raw string) caller {
		return with(func(r *http.Request) {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte(raw)}}}
		})
	}
	query := func(query string) caller { return with(func(r *http.Request) { r.URL.RawQuery = query }) }
	placeholders := func(known map[string]string) caller {
		return caller{request(), known}
	}
	return map[string]caller{
		"nobody":                  {r: request()},
		"bearer a":                header("Authorization", "Bearer a"),
		"bearer b":                header("Authorization", "Bearer b"),
		"Bearer A":                header("Authorization", "Bearer A"),
		"basic a":                 header("Authorization", "Basic a"),
		"empty authorization":     header("Authorization", ""),
		"two authorizations":      header("Authorization", "Bearer a", "Bearer b"),
		"the other way round":     header("Authorization", "Bearer b", "Bearer a"),
		"joined":                  header("Authorization", "Bearer a, Bearer b"),
		"cookie":                  header("Cookie", "session=a"),
		"DPoP":                    header("DPoP", "proof"),
		"proxy's":                 header("Proxy-Authorization", "Bearer a"),
		"API key":                 header("X-Api-Key", "a"),
		"key in another header":   header("X-Nobody-Knows", "a"),
		"tenant":                  header("X-Tenant", "a"),
		"name and value moved":    header("X-Tenan", "ta"),
		"header called query":     header("Query", "key=a"),
		"header called user":      header("User", "alice"),
		"header called cert":      header("Certificate", "one"),
		"MCP parameter":           header("Mcp-Param-Tenant", "a"),
		"query":                   query("key=a"),
		"other query":             query("key=b"),
		"query of other order":    query("b=1&a=1"),
		"query of one order":      query("a=1&b=1"),
		"certificate":             certificate("one"),
		"other certificate":       certificate("two"),
		"user":                    placeholders(map[string]string{"http.auth.user.id": "alice"}),
		"other user":              placeholders(map[string]string{"http.auth.user.id": "bob"}),
		"first placeholder":       placeholders(map[string]string{"test.one": "a"}),
		"other value":             placeholders(map[string]string{"test.one": "b"}),
		"second placeholder":      placeholders(map[string]string{"test.two": "a"}),
		"both placeholders":       placeholders(map[string]string{"test.one": "a", "test.two": "a"}),
		"both, differently cut":   placeholders(map[string]string{"test.one": "aa", "test.two": "b"}),
		"both, otherwise cut":     placeholders(map[string]string{"test.one": "a", "test.two": "ab"}),
		"value like a name":       placeholders(map[string]string{"test.one": "apartition\x00"}),
		"two headers":             with(func(r *http.Request) { r.Header["X-A"], r.Header["X-B"] = []string{"1"}, []string{"2"} }),
		"two headers, swapped":    with(func(r *http.Request) { r.Header["X-A"], r.Header["X-B"] = []string{"2"}, []string{"1"} }),
		"one header, both values": header("X-A", "1", "2"),
		"one header, in one":      header("X-A", "1X-B\x00\x012"),
		"one header, cut wrong":   header("X-A", "1X-B\x002"),
		"value runs on":           header("X-A", "1\x00\x012"),
	}
}

func TestContextsAreApart(t *testing.T) {
	f := rules("{test.one}", "{test.two}")
	seen := make(map[cache.Partition]string)
	for name, who := range callers() {
		c := f.Of(who.r, who.values)
		if other, ok := seen[c]; ok {
			t.Errorf("%q and %q are one context", name, other)
		}
		seen[c] = name
		if c.IsAnonymous() != (name == "nobody") {
			t.Errorf("%q: anonymous is %v", name, c.IsAnonymous())
		}
		if again := f.Of(who.r.Clone(t.Context()), who.values); again != c {
			t.Errorf("%q: asked again, it is another context", name)
		}
	}
}

// A request with the guard's credential has another context than the same request without it.
func TestLentContextsAreApart(t *testing.T) {
	f := rules()
	seen := make(map[cache.Partition]string)
	for name, fields := range map[string]http.Header{"nothing": {}, "a tenant": {"X-Tenant": {"a"}}, "another": {"X-Tenant": {"b"}}, "guard": {"Guard": {""}}} {
		for _, lent := range []bool{false, true} {
			c, what := f.OfFields(fields, lent), fmt.Sprintf("%s, lent %t", name, lent)
			if other, ok := seen[c]; ok {
				t.Errorf("%q and %q are one context", what, other)
			}
			if seen[c] = what; c != f.OfFields(fields.Clone(), lent) {
				t.Errorf("%q: asked again, it is another context", what)
			}
			if c.IsAnonymous() != (len(fields) == 0 && !lent) || (c == cache.FeedOnly) != (len(fields) == 0 && lent) {
				t.Errorf("%q is %v", what, c)
			}
		}
	}
}

// Without partition, its placeholders tell nobody apart.
func TestPlaceholdersCountOnlyIfNamed(t *testing.T) {
	f := rules()
	if !f.Of(request(), values{"test.one": "a"}).IsAnonymous() {
		t.Error("a placeholder that nobody named makes a context")
	}
}

// A server that is told the original URI may tell by it who asks, once the request
// has been rewritten.
func TestOriginalURI(t *testing.T) {
	f := rules()
	first, second := values{"http.request.orig_uri": "/one/mcp"}, values{"http.request.orig_uri": "/two/mcp"}
	r := request()
	if f.Of(r, first) != f.Of(r, second) {
		t.Error("an original URI counts that the server does not see")
	}
	f.Original = true
	if f.Of(r, first) == f.Of(r, second) || f.Of(r, first).IsAnonymous() {
		t.Error("the original URI does not tell callers apart")
	}
	if !f.Of(r, values{"http.request.orig_uri": r.RequestURI}).IsAnonymous() {
		t.Error("a request that nobody has rewritten is not anonymous")
	}
	for name, want := range map[string]bool{
		"http.request.orig_uri": true, "http.request.orig_uri.path": true, "http.request.orig_uri.query": true, "http.request.uri": false,
	} {
		if got := TellsOriginal([]string{"env.A", name}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What the server is sent of a placeholder tells callers apart.
func TestTellingPlaceholders(t *testing.T) {
	f := rules()
	ant, bee := values{"http.vars.tenant": "ant"}, values{"http.vars.tenant": "bee"}
	r := request()
	if f.Of(r, ant) != f.Of(r, bee) {
		t.Error("a value counts that the server is not sent")
	}
	f.Telling = []string{"http.vars.tenant", "http.vars.name"}
	if f.Of(r, ant) == f.Of(r, bee) || f.Of(r, ant) == f.Of(r, values{}) {
		t.Error("the value does not tell callers apart")
	}
	if f.Of(r, ant) == f.Of(r, values{"http.vars.tenant": "ant", "http.vars.name": ""}) {
		t.Error("an empty value is the same as none, which Caddy may send as the name in braces")
	}
	if f.Of(r, ant) == f.Of(r, values{"http.vars.name": "ant"}) {
		t.Error("two values are one")
	}
	if f.Of(r, values{}) != f.Of(request(), values{}) || f.Of(r, values{}).IsAnonymous() {
		t.Error("requests without a value do not share lists of their own")
	}
}

// harmlessNames are headers of clients, browsers, proxies and tracers, in the
// spelling of those who send them.
var harmlessNames = []string{
	"Accept", "Accept-Language", "Content-Length", "Content-Type", "TE", "User-Agent", "Cache-Control", "Pragma",
	"MCP-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Last-Event-ID", "Origin", "Referer", "DNT",
	"sec-ch-ua", "sec-ch-ua-platform", "Sec-Fetch-Mode", "Sec-GPC", "Via", "X-Forwarded-For",
	"X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "x-envoy-external-address", "CDN-Loop",
	"CF-Connecting-IP", "CF-IPCountry", "CF-Ray", "Cf-Warp-Tag-ID", "True-Client-IP", "Fly-Client-IP", "Early-Data",
	"traceparent", "tracestate", "b3", "x-trace-id", "x-client-trace-id", "x-ms-client-request-id", "x-amzn-requestid",
	"elastic-apm-traceparent", "x-litellm-trace-id", "langsmith-trace", "idempotency-key", "x-stainless-retry-count",
	"X-Stainless-Lang", "x-stainless-read-timeout", "grpc-timeout", "amz-sdk-invocation-id", "X-B3-TraceId", "X-B3-ParentSpanId", "X-Request-ID", "X-Amzn-Trace-Id",
	"x-datadog-trace-id", "sentry-trace", "uber-trace-id", "newrelic",
}

func TestHarmlessHeaders(t *testing.T) {
	f := rules()
	for _, credential := range []string{"", "Bearer a"} {
		plain := request()
		if credential != "" {
			plain.Header.Set("Authorization", credential)
		}
		want := f.Of(plain, nil)
		all := plain.Clone(plain.Context())
		for _, name := range harmlessNames {
			r := plain.Clone(plain.Context())
			r.Header.Add(name, "x")
			r.Header.Add(name, "y")
			all.Header.Add(name, "z")
			if f.Of(r, nil) != want {
				t.Errorf("%s makes another context", name)
			}
		}
		if f.Of(all, nil) != want {
			t.Error("all of them make another context")
		}
	}
	// What may be a credential is not harmless.
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "Dpop", "X-Api-Key", "Api-Key", "X-Auth-Token",
		"X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Client-Cert", "Remote-User", "X-Remote-User", "X-Amzn-Oidc-Data",
		"Cf-Access-Jwt-Assertion", "X-Goog-Iap-Jwt-Assertion", "X-Ms-Token-Aad-Access-Token", "Ssl-Client-Cert", "X-Tenant", "Mcp-Param-Key",
		"X-Session-Id", "Forwarded", "X-Original-Url", "X-Original-Host", "X-Rewrite-Url", "Baggage", "X-Stainless-Api-Key"} {
		if harmless(name) {
			t.Errorf("%s is said to be harmless", name)
		}
	}
	for _, name := range harmlessNames {
		if IsCredential(name) {
			t.Errorf("%s is said to be a credential", name)
		}
	}
}

// Where the server sees the Host that a client names, it tells callers apart,
// unless it is the feed's.
func TestHostTellsApart(t *testing.T) {
	at := func(f *Rules, host, authorization string) cache.Partition {
		r := request()
		r.Host = host
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		return f.Of(r, nil)
	}
	f := rules()
	if at(f, "a.example", "") != cache.Anonymous || at(f, "a.example", "x") != at(f, "b.example", "x") {
		t.Error("a Host that the server does not see makes another context")
	}
	f.Host = "feed.example"
	a, b := at(f, "a.example", ""), at(f, "b.example", "")
	if a == b || a == cache.Anonymous || a != at(f, "A.example", "") || !a.IsAnonymous() || a.Admits(b) || cache.Public.Admits(a) || !a.Everybody().Admits(a) || cache.Anonymous.Admits(a) {
		t.Error("anonymous callers at two Hosts are not apart, or not anonymous")
	}
	if at(f, "feed.example", "") != cache.Anonymous || at(f, "FEED.example", "") != cache.Anonymous {
		t.Error("the feed's Host makes another context")
	}
	if at(f, "a.example", "x") == at(f, "b.example", "x") || at(f, "a.example", "x").IsAnonymous() || at(f, "feed.example", "x") == at(f, "a.example", "x") {
		t.Error("a credential at two Hosts is one context")
	}
}

func TestOrderOfHeadersDoesNotMatter(t *testing.T) {
	f := rules()
	names := []string{"Authorization", "Cookie", "X-A", "X-B", "X-C", "X-D", "X-E", "X-F", "X-G", "X-H"} // more than the room
	var want cache.Partition
	for i := range 20 {
		r := request()
		for j := range names {
			name := names[(i+j)%len(names)]
			r.Header[name] = []string{"value of " + name}
		}
		c := f.Of(r, nil)
		if i > 0 && c != want {
			t.Fatal("the same headers make another context")
		}
		want = c
	}
}

// The hashes are keyed: what one process remembers says nothing to another.
func TestContextsAreKeyed(t *testing.T) {
	one, two := rules(), rules()
	r := request()
	r.Header.Set("Authorization", "Bearer a")
	if one.Of(r, nil) == two.Of(r, nil) {
		t.Error("two upstreams give a credential the same hash")
	}
}
