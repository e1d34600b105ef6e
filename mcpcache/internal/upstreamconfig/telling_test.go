package upstreamconfig

import (
	"slices"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
)

func TestTellingPlaceholders(t *testing.T) {
	up := func(header, value string) string {
		return `{"handler":"reverse_proxy","headers":{"request":{"set":{"` + header + `":["` + value + `"]}}},"upstreams":[{"dial":"127.0.0.1:1"}]}`
	}
	none := []string{}
	for config, want := range map[string][]string{
		// values that tell callers apart
		up("X-Tenant", "{http.request.host.labels.2}"):             {"http.request.host.labels.2"},
		up("X-Tenant", "a-{http.vars.b}{tenant}{http.regexp.c.1}"): {"http.regexp.c.1", "http.vars.b", "tenant"},
		up("x-tenant", "{file./tenants/{http.vars.t}}"):            {"http.vars.t"},
		up("X-Agent", "{http.request.header.User-Agent}"):          {"http.request.header.User-Agent"},
		up("X-Client", "{http.request.remote.host}"):               {"http.request.remote.host"},
		up("{http.vars.name}", "on"):                               {"http.vars.name"},
		// in headers that are harmless if a client sends them
		up("X-Forwarded-Host", "{http.request.host.labels.2}"): {"http.request.host.labels.2"},
		up("User-Agent", "{http.vars.tenant}"):                 {"http.vars.tenant"},
		up("Host", "{http.vars.tenant}.internal"):              {"http.vars.tenant"},
		up("Host", "{http.request.header.User-Agent}"):         {"http.request.header.User-Agent"},
		up("Host", "{http.request.host.labels.1}.internal"):    {"http.request.host.labels.1"},
		up("Host", "{http.request.cookie.t}.internal"):         {"http.request.cookie.t"},
		up("X-Tenant", "{http.vars.my tenant}"):                {"http.vars.my tenant"},
		up("response", "{http.vars.a}"):                        {"http.vars.a"},
		up("X-Client", "{http.request.remote}"):                {"http.request.remote.host"},
		up("X-Tier", "{http.request.uri.query.tier}"):          {"http.request.uri.query.tier"}, // named in partition
		// elsewhere, where also what counts anyway leads to other lists
		`{"handler":"reverse_proxy","rewrite":{"uri":"/{http.auth.user.id}/{http.request.header.X-Key}?a={http.request.uri.query.a}"}}`:                                 {"http.auth.user.id", "http.request.header.X-Key", "http.request.uri.query.a"},
		`{"handler":"reverse_proxy","upstreams":[{"dial":"{http.request.tls.client.subject}:80"}]}`:                                                                     {"http.request.tls.client.subject"},
		`{"handler":"reverse_proxy","rewrite":{"uri":"/{http.vars.tenant}/mcp"},"upstreams":[{"dial":"127.0.0.1:1"}]}`:                                                  {"http.vars.tenant"},
		`{"handler":"reverse_proxy","upstreams":[{"dial":"{back}"}]}`:                                                                                                   {"back"},
		`{"handler":"subroute","routes":[{"handle":[{"handler":"map","source":"{http.request.host}","destinations":["{t}"],"mappings":[]},` + up("X-T", "{t}") + `]}]}`: {"http.request.host", "t"},
		`{"handler":"reverse_proxy","headers":{"request":{"replace":{"X-A":[{"search_regexp":"^.{2}(x{1,3})$","replace":"{http.vars.a}$1"}]}}}}`:                        {"http.vars.a"},
		// what every proxy passes on, what the rest of a request tells, and what is nobody's
		up("X-Real-Ip", "{http.request.remote.host}"):                                                                                              none,
		up("x-forwarded-for", "{http.vars.client_ip}"):                                                                                             none,
		up("X-Forwarded-Proto", "{http.request.scheme}"):                                                                                           none,
		up("Host", "{http.request.hostport}"):                                                                                                      none,
		up("Host", "{http.reverse_proxy.upstream.hostport}"):                                                                                       none,
		up("Authorization", "Bearer {env.TOKEN}"):                                                                                                  none,
		up("X-Key", "{http.request.header.X-Api-Key}"):                                                                                             none,
		up("X-User", "{http.auth.user.id}{http.request.cookie.id}{http.request.tls.client.fingerprint}"):                                           none,
		up("X-Query", "{http.request.uri.query.a}"):                                                                                                none,
		`{"handler":"reverse_proxy","rewrite":{"uri":"/v1{http.request.uri.path}?{http.request.uri.query}"}}`:                                      none,
		up("X-Path", "{http.request.uri.path}{http.request.orig_uri.path}"):                                                                        none,
		up("X-Trace", "{http.request.uuid}{time.now.unix}{system.hostname}"):                                                                       none,
		`{"handler":"reverse_proxy","transport":{"protocol":"stdio","command":"x","env":{"A":"{b} \\{c\\}"}}}`:                                     none,
		up("X-Text", `\\{a\\} {env.B} \\\\{d\\}`):                                                                                                  none,
		up("X-Conversation", "{http.vars.conversation}"):                                                                                           none,
		`{"handler":"reverse_proxy","headers":{"response":{"set":{"X-T":["{http.vars.t}"]}}},"health_checks":{"active":{"uri":"/{http.vars.t}"}}}`: none,
		`{"handler":"static_response","body":"{\"a\": {\"b\":1}}"}`:                                                                                none,
		`[]`: none, `{`: none,
	} {
		got := Read([]byte(config)).Telling(identity.Headers{"X-Conversation": true}, []string{"{http.request.uri.query.tier}"})
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", config, got, want)
		}
	}
}
