package mcpcache

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
)

// serverNamed is the configuration of a server of a toolkit.
func serverNamed(name string, members ...string) string {
	return config(name+" behind "+"a toolkit", append([]string{"store", "null", "name", fmt.Sprintf("%q", name)}, members...)...)
}

// toolkitNamed is the configuration of a toolkit of those servers.
func toolkitNamed(name string, servers []string, members ...string) string {
	all := append([]string{"upstream", "null", "servers", "[" + strings.Join(servers, ",") + "]"}, members...)
	return config(name, append(all, "name", fmt.Sprintf("%q", name))...)
}

// Everything that a toolkit and its servers cannot have is an error that says what is wrong.
func TestToolkitMistakes(t *testing.T) {
	one, two := serverNamed("one"), serverNamed("two")
	stand := `{"handler":"mcp_cache_stand","name":"x"}`
	for name, tt := range map[string]struct{ config, want string }{
		"an upstream, too":  {toolkitNamed("tk", []string{one}, "upstream", stand), "servers: there is an upstream, too"},
		"a server without":  {toolkitNamed("tk", []string{serverNamed("one", "upstream", "null")}), "server one: upstream: missing"},
		"null":              {toolkitNamed("tk", []string{"null"}), "servers: one is null"},
		"no name":           {toolkitNamed("tk", []string{serverNamed("one", "name", "null")}), `name: "" is not 1 to 32 of a-z`},
		"upper case":        {toolkitNamed("tk", []string{serverNamed("One")}), `name: "One" is not 1 to 32 of a-z`},
		"long name":         {toolkitNamed("tk", []string{serverNamed(strings.Repeat("a", 33))}), "is not 1 to 32"},
		"name of a kind":    {toolkitNamed("tk", []string{serverNamed("prompts")}), `name: "prompts" has another meaning`},
		"name of a command": {toolkitNamed("tk", []string{serverNamed("refresh")}), `name: "refresh" has another meaning`},
		"one name twice":    {toolkitNamed("tk", []string{one, two, one}), `two are called "one"`},
		"prefix of another": {toolkitNamed("tk", []string{serverNamed("one", "prefix", `"a_"`), serverNamed("two", "prefix", `"a_b_"`)}), `the prefix "a_" of one and "a_b_" of two`},
		"odd prefix":        {toolkitNamed("tk", []string{serverNamed("one", "prefix", `"a b"`)}), `one: prefix: "a b"`},
		"values of callers": {toolkitNamed("tk", []string{serverNamed("one", "upstream",
			`{"handler":"mcp_cache_stand","name":"{http.request.header.X-Tenant}"}`)}), "a server of a toolkit is sent what its options authorization and headers say"},
		"a short session":   {toolkitNamed("tk", []string{one}, "session_ttl", "1"), "session_ttl: 1ns is too short"},
		"too many sessions": {toolkitNamed("tk", []string{one}, "max_sessions", "1000001"), "max_sessions: 1000001 is not a whole number from 1 to 1000000"},
		"no file":           {toolkitNamed("tk", []string{one}, "secret_file", `"/nowhere"`), "secret_file: reading secret file"},
		"a lost session":    {toolkitNamed("tk", []string{serverNamed("one", "session_lost", `"cry"`)}), `one: session_lost: "cry" is not one of reopen, end`},
	} {
		l, err := provision(t, tt.config)
		if err == nil {
			l.cancel()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
	for _, name := range []string{"tk", "tk/one"} {
		if _, err := report.Live.Find(name); err == nil {
			t.Errorf("%s is live after it was refused", name)
		}
	}
}

// Each server of a toolkit has a name behind that of the toolkit, and lives on over a
// reload that changes another.
func TestToolkitOverAReload(t *testing.T) {
	one, two := serverNamed("one"), serverNamed("two")
	before := mustProvision(t, toolkitNamed("reloaded", []string{one, two}))
	after := mustProvision(t, toolkitNamed("reloaded", []string{serverNamed("one", "endpoint", `"/other"`), two}, "endpoint", `"/all"`))
	if a, b := before.several.servers[0].backend.Backend, after.several.servers[0].backend.Backend; a == b {
		t.Error("a server at another path has the old one's backend")
	}
	if a, b := before.several.servers[1].backend.Backend, after.several.servers[1].backend.Backend; a != b {
		t.Error("a server that is the same has another backend")
	}
	before.cancel()
	for _, name := range []string{"reloaded", "reloaded/one", "reloaded/two"} {
		if s, err := report.Live.Find(name); err != nil || s.Name() != name {
			t.Errorf("%s is not live: %v", name, err)
		}
	}
	// Cleaning up again harms nobody, and a request that is under way still gets an answer.
	if err := before.Cleanup(); err != nil {
		t.Error(err)
	}
	for _, l := range []*loaded{before, after} {
		w := httptest.NewRecorder()
		r := requestOf(t, "tools/list")
		r.URL.Path = l.several.settings.exchange.Path
		if err := l.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })); err != nil || w.Code != http.StatusOK {
			t.Errorf("a list gave %d %s, %v", w.Code, w.Body, err)
		}
	}
	after.cancel()
	if names := strings.Join(report.Live.Names(), " "); strings.Contains(names, "reloaded") {
		t.Errorf("live are %s", names)
	}
}
