package ruleset

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(askingMatcher{})
}

// askingMatcher asks for a placeholder that no configuration names.
type askingMatcher struct{}

func (askingMatcher) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.matchers.mcp_cache_asking", New: func() caddy.Module { return new(askingMatcher) }}
}

// MatchWithError implements [caddyhttp.RequestMatcherWithError].
func (askingMatcher) MatchWithError(r *http.Request) (bool, error) {
	team, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).GetString("team")
	return team == "a", nil
}

// allowing returns a rule for each of those matchers, which allows the tool of its number.
func allowing(matchers ...string) (rules []string) {
	for i, matcher := range matchers {
		rules = append(rules, fmt.Sprintf(`{"effect":"allow","kind":"tools","items":["%d"],"match":[%s]}`, i, matcher))
	}
	return rules
}

// TestRequestsAsSomebody has Caddy's own matchers look at callers that there are not.
func TestRequestsAsSomebody(t *testing.T) {
	s, _ := loadRules(t, allowing(
		`{"header":{"X-Team":["a"]}}`, // 0
		`{"vars_regexp":{"{http.auth.user.groups}":{"pattern":"(^|,)admin(,|$)"}}}`, // 1
		`{"vars":{"tenant":["t"]}}`, // 2
		`{"expression":"{http.auth.user.groups}.split(',').exists(g, g == 'support')"}`,       // 3
		`{"remote_ip":{"ranges":["10.0.0.0/8"]}}`,                                             // 4
		`{"client_ip":{"ranges":["10.0.0.0/8","192.168.0.0/16","127.0.0.0/8"]}}`,              // 5
		`{"host":["mcp.example.com"]}`,                                                        // 6
		`{"path":["/mcp"],"method":["POST"],"not":[{"header":{"Authorization":null}}]}`,       // 7
		`{"vars":{"{tenant_of}":["t"]}}`,                                                      // 8
		`{"expression":"{http.vars.tenant} == 't' && {http.request.header.X-Team} == 'a,b'"}`, // 9
		`{"vars":{"{http.request.tls.client.subject}":["CN=a"]}}`,                             // 10
		`{"header_regexp":{"X-Team":{"pattern":"^b$"}},"protocol":"http"}`,                    // 11
		`{"path_regexp":{"pattern":"^/x"}},{"tls":{}}`,                                        // 12
	)...)
	for _, tt := range []struct {
		as   []string
		want []int
	}{
		{nil, nil},
		{[]string{"header.X-Team=a"}, []int{0}},
		{[]string{"http.request.header.x-team=a", "header.Authorization=Bearer x=y"}, []int{0, 7}},
		{[]string{"header.X-Team=a", "header.X-Team=b", "vars.tenant=t"}, []int{0, 2, 9, 11}},
		{[]string{"http.auth.user.groups=x,admin"}, []int{1}},
		{[]string{"{http.auth.user.groups}=support,admin"}, []int{1, 3}},
		{[]string{"http.vars.tenant=t"}, []int{2}},
		{[]string{"{tenant_of}=t"}, []int{8}},
		{[]string{"remote_ip=10.1.2.3"}, []int{4, 5}},
		{[]string{"remote_ip=192.168.0.1", "host=mcp.example.com"}, []int{5, 6}},
		{[]string{"header.Host=MCP.example.com:8443", "remote_ip=::1"}, []int{6}},
		{[]string{"http.request.tls.client.subject=CN=a"}, []int{10}},
	} {
		v, failed, err := s.ViewAs(t.Context(), tt.as)
		if err != nil {
			t.Errorf("%q: %v", tt.as, err)
			continue
		}
		if got := v.Rules(); !slices.Equal(got, tt.want) {
			t.Errorf("%q has the rules %v, want %v", tt.as, got, tt.want)
		}
		delete(failed, 3) // for all who have no groups
		if len(failed) != 0 {
			t.Errorf("%q: matchers fail: %v", tt.as, failed)
		}
	}
	for _, r := range s.Rules() {
		if r.Failures != 0 || r.Failing || r.Match == nil {
			t.Errorf("after questions of an operator, a rule is %+v", r)
		}
	}
}

// TestUnaskedPlaceholders says of callers what no rule asks for, whether a rule asks by
// its configuration or without it, and also behind a condition that has decided.
func TestUnaskedPlaceholders(t *testing.T) {
	s, _ := loadRules(t, allowing(
		`{"vars_regexp":{"{groups}":{"pattern":"^a{1,2}$"}}}`, `{"mcp_cache_asking":{}}`,
		`{"expression":"false && {http.auth.user.tenant} == 't'"}`, `{"method":["GET"],"vars":{"{level}":["1"]}}`,
	)...)
	for as, unasked := range map[string]string{
		"": "", "{groups}=a": "", "{team}=a": "", "http.auth.user.tenant=t": "", "{level}=1": "", "header.X-A=a vars.b=c host=a remote_ip=::1": "",
		"http.auth.user.id=ada": "http.auth.user.id", "{x}=1 {groups}=a http.auth.user.id=ada": "http.auth.user.id, x",
	} {
		_, _, err := s.ViewAs(t.Context(), strings.Fields(as))
		want := ""
		if unasked != "" {
			want = "no rule asks for " + unasked + "; the placeholders that rules ask for: groups, http.auth.user.tenant, level, team"
		}
		if got := fmt.Sprint(err); (err == nil) != (want == "") || err != nil && got != want {
			t.Errorf("%s: %v, want %s", as, err, want)
		}
	}
}

// TestMistakesOfAs says of callers what cannot be: the errors say what can.
func TestMistakesOfAs(t *testing.T) {
	const all = "KEY is header.NAME, vars.NAME, host, remote_ip, or a placeholder"
	for as, want := range map[string]string{
		"": all, "x": all, "team=a": all, "=a": all, "{}=a": all, "{a=b": all, "http.=a": all, "vars.=a": all, "headers.X=a": all,
		"header.=a": "not a header", "header.a b=c": "not a header", "header.X=a\nb": "not a header", "header.X=\x00": "not a header",
		"remote_ip=a": "not an IP address", "remote_ip=10.0.0.1:1": "not an IP address", "remote_ip=": "not an IP address",
		"host=": "not a name or address", "host=a b": "not a name or address", "header.Host=a/b": "not a name or address",
		"http.request.uri.query=a": "say header.NAME", "{http.request.method}=GET": "say header.NAME",
	} {
		if _, _, err := requestAs(t.Context(), "/mcp", []string{"host=a", as}); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), fmt.Sprintf("%q: ", as)) {
			t.Errorf("%q: %v, want %s", as, err, want)
		}
	}
	many := slices.Repeat([]string{"header.X=a"}, maxAs)
	if _, _, err := requestAs(t.Context(), "/mcp", many); err != nil {
		t.Error(err)
	}
	if _, _, err := requestAs(t.Context(), "/mcp", append(many, "header.X=a")); err == nil {
		t.Error("as many values as one likes are taken")
	}
}

// TestMatchersThatFailForOperators fails for callers that there are and that there are
// not: those of requests are counted, and in the status until the matcher works again.
func TestMatchersThatFailForOperators(t *testing.T) {
	rule := func(effect, items string) string {
		return fmt.Sprintf(`{"effect":%q,"kind":"tools","items":[%q],"match":[{"mcp_cache_moody":{}}]}`, effect, items)
	}
	s, _ := loadRules(t, rule("allow", "*"), rule("deny", "x"))
	v, failed, err := s.ViewAs(t.Context(), []string{"header.X-Mood=bad"})
	if err != nil || !slices.Equal(v.Rules(), []int{1}) || failed[0] == nil || failed[1] == nil {
		t.Errorf("%v, rules %v, failed %v", err, v.Rules(), failed)
	}
	want := func(failures int64, failing bool) {
		t.Helper()
		for _, rule := range s.Rules() {
			if rule.Failures != failures || rule.Failing != failing {
				t.Errorf("a rule is %+v, want %d failures, failing %v", rule, failures, failing)
			}
		}
	}
	want(0, false)
	r := caller(t, "", "X-Mood", "bad")
	s.View(r)
	s.View(r)
	want(2, true)
	r.Header.Set("X-Mood", "good")
	s.View(r)
	want(2, false)
	if raw, err := json.Marshal(s.Rules()[0]); err != nil || !strings.Contains(string(raw), `"match":[{"mcp_cache_moody":{}}]`) {
		t.Errorf("a rule is %s, %v", raw, err)
	}
}
