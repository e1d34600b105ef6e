package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

func TestStatic(t *testing.T) {
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte("ready"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &static{File: file}
	if err := s.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	body := strings.NewReader("a request")
	w := httptest.NewRecorder()
	if err := s.ServeHTTP(w, httptest.NewRequest("POST", "/mcp", body), nil); err != nil {
		t.Fatal(err)
	}
	if w.Body.String() != "ready" || w.Header().Get("Content-Length") != "5" || body.Len() != 0 {
		t.Errorf("answer %q with %v, %d bytes of the request left", w.Body, w.Header(), body.Len())
	}
	if err := (&static{File: file + "x"}).Provision(caddy.Context{}); err == nil {
		t.Error("a file that is not there is no error")
	}
}

// TestSites adapts the Caddyfile of a run: every option in it must exist.
func TestSites(t *testing.T) {
	var sites []site
	bodies := siteBodies("127.0.0.1:1", "127.0.0.1:2", "/body.json", `{"a":{"b":1}}`)
	for _, name := range []string{
		siteHit, siteStatic, siteRespond, siteEncode, siteProxy, siteHitLog, siteStaticLog, siteChanging,
	} {
		if bodies[name] == "" {
			t.Errorf("no site %s", name)
		}
		sites = append(sites, site{"127.0.0.1:" + "2000" + string(rune('0'+len(sites))), bodies[name]})
	}
	source := caddyfile(t.TempDir(), sites, "\tmetrics\n")
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(source, nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, source)
	}
	var found struct {
		Apps struct {
			HTTP struct {
				Servers map[string]json.RawMessage
				Metrics json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(config, &found); err != nil {
		t.Fatal(err)
	}
	if n := len(found.Apps.HTTP.Servers); n != len(sites) || found.Apps.HTTP.Metrics == nil {
		t.Errorf("%d servers for %d sites, metrics %s", n, len(sites), found.Apps.HTTP.Metrics)
	}
	for _, handler := range []string{"bench_static", "static_response", "mcp_cache", "encode", "reverse_proxy"} {
		if !strings.Contains(string(config), `"handler":"`+handler+`"`) {
			t.Errorf("no handler %s in %s", handler, config)
		}
	}
}
