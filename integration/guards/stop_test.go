package guards

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
)

// traps are where a server leads a guard that looks for a token endpoint: to
// the path /stop of Caddy's admin endpoint.
var traps = map[string]func(m *maze, admin, own string){
	"token endpoint": func(m *maze, admin, _ string) { m.token = admin },
	"its other name": func(m *maze, admin, _ string) { m.token = strings.Replace(admin, "127.0.0.1", "localhost", 1) },
	"its other address": func(m *maze, admin, _ string) {
		m.token = strings.Replace(admin, "127.0.0.1", "127.0.0.2", 1)
	},
	"redirect": func(m *maze, admin, own string) { m.token, m.moved = own+"/moved", admin },
	"issuer":   func(m *maze, admin, _ string) { m.issuer = strings.TrimSuffix(admin, "/stop") },
	"metadata": func(m *maze, admin, _ string) { m.metadata = admin },
}

// maze is a server that refuses everybody and says where to go.
type maze struct {
	own                            string
	metadata, issuer, token, moved string
}

// ServeHTTP implements [http.Handler].
func (m *maze) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case authtest.ResourcePath + "/mcp":
		authtest.JSON(http.StatusOK, fmt.Sprintf(`{"resource":%q,"authorization_servers":[%q]}`, m.own+"/mcp", m.issuer)).ServeHTTP(w, r)
	case authtest.OAuthPath:
		authtest.JSON(http.StatusOK, fmt.Sprintf(`{"issuer":%q,"token_endpoint":%q}`, m.own, m.token)).ServeHTTP(w, r)
	case "/moved":
		authtest.Redirect(http.StatusTemporaryRedirect, m.moved).ServeHTTP(w, r)
	default:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", m.metadata))
		http.Error(w, "token needed", http.StatusUnauthorized)
	}
}

// TestServerCannotStopCaddy has a server on this host lead a guard to Caddy's
// own admin endpoint: Caddy goes on, and its state says what to do.
func TestServerCannotStopCaddy(t *testing.T) {
	for name, trap := range traps {
		t.Run(name, func(t *testing.T) {
			admin := fixture.FreeAddr(t)
			m := new(maze)
			host := fixture.NewDownHost(t, m)
			m.own = "http://" + host.Addr
			m.metadata, m.issuer, m.token = m.own+authtest.ResourcePath+"/mcp", m.own, m.own+"/token"
			trap(m, "http://"+admin+"/stop", m.own)
			host.Start()

			dir := t.TempDir()
			config := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n\tauto_https off\n\tstorage file_system %s\n}\nhttp://%s {\n%s\n}\n",
				admin, filepath.Join(dir, "storage"), fixture.FreeAddr(t),
				caddytest.Directive(host.URL, "guard "+block("oauth2", "client_id "+feedAccount, "client_secret "+plantedClient)))
			put(t, filepath.Join(dir, "Caddyfile"), config)
			caddy := caddytest.CaddyCommand(context.Background(), t, "run", "--config", filepath.Join(dir, "Caddyfile"))
			if err := caddy.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- caddy.Wait() }()
			defer func() {
				_ = caddy.Process.Signal(os.Kill)
				<-ended
			}()
			want := "set issuer or token_endpoint in the guard"
			if name == "redirect" {
				want = "redirect to another origin is not followed"
			}
			fixture.Await(t, "the advice of "+name, func() bool {
				select {
				case err := <-ended:
					ended <- err
					t.Fatalf("Caddy has ended: %v", err)
				default:
				}
				return strings.Contains(failureAt(t, admin), want)
			})
			if len(host.Requests(func(r *fixture.Request) bool { return strings.HasPrefix(r.URL, "/token") })) > 0 {
				t.Error("the secret was sent")
			}
		})
	}
}

// failureAt returns what a Caddy says is wrong with its feeds, "" if nothing is
// or it cannot be reached.
func failureAt(t *testing.T, admin string) string {
	t.Helper()
	conn, err := net.Dial("tcp", admin)
	if err != nil {
		return "" // not yet
	}
	conn.Close()
	res, err := caddytest.Running.HTTP.Get("http://" + admin + "/mcp_cache/")
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	var handlers []struct{ Feeds []caddytest.FeedReport }
	if err := json.NewDecoder(res.Body).Decode(&handlers); err != nil || len(handlers) != 1 {
		return ""
	}
	var text strings.Builder
	for _, f := range handlers[0].Feeds {
		fmt.Fprintln(&text, f.State, f.Failure.Message)
	}
	return text.String()
}
