package caddyfile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// newReplica starts an https server that answers with the server name and the
// Host it was asked for, and returns its port.
func newReplica(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q %s", r.TLS.ServerName, r.Host)
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// loadUpstream provisions the embedded handler of the only mcp_cache in a
// Caddyfile.
func loadUpstream(t *testing.T, input string) caddyhttp.MiddlewareHandler {
	t.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), nil)
	if err != nil {
		t.Fatal(err)
	}
	handlers := handlersIn(t, config)
	if len(handlers) != 1 {
		t.Fatalf("%d handlers in %s", len(handlers), config)
	}
	var upstream map[string]json.RawMessage
	if err := json.Unmarshal(handlers[0]["upstream"], &upstream); err != nil {
		t.Fatal(err)
	}
	delete(upstream, "handler")
	raw, err := json.Marshal(upstream)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&caddy.Config{
		StorageRaw: json.RawMessage(`{"module":"file_system","root":` + strconv.Quote(t.TempDir()) + `}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	module, err := ctx.LoadModuleByID("http.handlers.reverse_proxy", raw)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := module.(caddy.CleanerUpper).Cleanup(); err != nil {
			t.Error(err)
		}
	})
	return module.(caddyhttp.MiddlewareHandler)
}

// ask sends a request for another host through the handler.
func ask(t *testing.T, handler caddyhttp.MiddlewareHandler) string {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://public.example.com/mcp", nil)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	if err := handler.ServeHTTP(w, r, next); err != nil {
		t.Fatal(err)
	}
	return w.Body.String()
}

// TestEachReplicaIsAskedForItsOwnName shows that several https URLs need no
// server name in the configuration, and that the client's Host stays outside.
func TestEachReplicaIsAskedForItsOwnName(t *testing.T) {
	first, second := newReplica(t), newReplica(t)
	handler := loadUpstream(t, ":8080 {\n mcp_cache https://localhost:"+first+"/mcp https://127.0.0.1:"+second+"/mcp {\n"+
		"reverse_proxy {\n lb_policy round_robin\n transport http {\n tls_insecure_skip_verify\n}\n}\n}\n}")
	got := map[string]bool{ask(t, handler): true, ask(t, handler): true}
	// An address is never sent as a server name (RFC 6066 section 3).
	for _, want := range []string{`"localhost" localhost:` + first, `"" 127.0.0.1:` + second} {
		if !got[want] {
			t.Errorf("got %v, want one to be %s", got, want)
		}
	}
}
