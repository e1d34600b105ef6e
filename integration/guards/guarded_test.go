package guards

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// guardedSite is a protected server behind a handler with a guard.
type guardedSite struct {
	*protected

	t     testing.TB
	proxy *caddytest.Proxy
	auth  *authtest.Server // of its clients
	user  string           // the token of its clients
}

// startGuarded puts a guard, and options, in front of a protected server. Its
// clients have a token of the authorization server that lives for an hour.
func startGuarded(t testing.TB, p *protected, clients *authtest.Server, guard string, options ...string) *guardedSite {
	t.Helper()
	s := &guardedSite{protected: p, t: t, auth: clients, user: clients.Issue(userAccount, listScope, p.URL)}
	s.proxy = caddytest.StartProxy(t, s.config(guard, options...))
	return s
}

// config is the directive for the site's server. Lists of the legacy era say
// nothing about who may share them.
func (s *guardedSite) config(guard string, options ...string) string {
	return "log\nroute {\n" + caddytest.Directive(s.URL, append([]string{"guard " + guard, "scope public", "refresh 50ms"}, options...)...) + "\n}"
}

// client returns a client with its own token.
func (s *guardedSite) client(revision string) *fixture.Raw {
	s.t.Helper()
	return fixture.New(s.t, s.proxy.URL, revision, "Bearer "+s.user)
}

// warm returns a client. It waits until the client's list of tools is a hit.
func (s *guardedSite) warm(revision string) *fixture.Raw {
	s.t.Helper()
	c := s.client(revision)
	c.Settle(scripted.ToolsList)
	return c
}

// isWhole reports whether an answer is the whole list of tools.
func isWhole(a *fixture.Answer) bool {
	return a.Status == http.StatusOK && len(a.Items("tools")) == 3
}

// tokenFile writes a file as Kubernetes projects a token: a symbolic link to a
// directory is swapped, and the file's own path leads through it.
type tokenFile struct {
	t    testing.TB
	dir  string
	path string
	n    int
}

func newTokenFile(t testing.TB, token string) *tokenFile {
	t.Helper()
	f := &tokenFile{t: t, dir: t.TempDir()}
	f.path = filepath.Join(f.dir, "token")
	f.rotate(token)
	if err := os.Symlink("..data/token", f.path); err != nil {
		t.Fatal(err)
	}
	return f
}

// rotate replaces the token.
func (f *tokenFile) rotate(token string) {
	f.t.Helper()
	f.n++
	version := fmt.Sprintf("..%d", f.n)
	fresh := filepath.Join(f.dir, "..data_tmp")
	for _, err := range []error{
		os.Mkdir(filepath.Join(f.dir, version), 0o700),
		os.WriteFile(filepath.Join(f.dir, version, "token"), []byte(token+"\n"), 0o600),
		os.Symlink(version, fresh),
		os.Rename(fresh, filepath.Join(f.dir, "..data")),
	} {
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// block writes a guard with its options.
func block(line string, options ...string) string {
	return line + " {\n" + strings.Join(options, "\n") + "\n}"
}
