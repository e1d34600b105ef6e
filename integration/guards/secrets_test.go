package guards

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddyparse "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
)

// planted begins every secret that must show up nowhere.
const planted = "planted-"

func init() { caddy.RegisterModule(panicking{}) }

// panicking is a guard that breaks with its token in its hand.
type panicking struct{}

func (panicking) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: guards.Namespace + ".panicking", New: func() caddy.Module { return new(panicking) }}
}

func (*panicking) UnmarshalCaddyfile(*caddyparse.Dispenser) error { return nil }

func (*panicking) Identity() string { return "panicking" }

func (*panicking) Authorize(context.Context, *http.Request) error {
	panic(errors.New("no scheme in planted-token-ee01"))
}

// disguises are the forms in which a secret could show up.
func disguises(secret string) []string {
	return []string{
		secret, url.QueryEscape(secret), strings.ToUpper(secret),
		base64.StdEncoding.EncodeToString([]byte(secret))[:len(secret)],
		base64.RawURLEncoding.EncodeToString([]byte("x" + secret))[2:len(secret)],
		base64.RawURLEncoding.EncodeToString([]byte("xx" + secret))[3:len(secret)],
	}
}

// wantNoSecrets fails if an output has a planted secret, or one of those given.
func wantNoSecrets(t testing.TB, what, output string, more ...string) {
	t.Helper()
	for _, secret := range append(more, planted) {
		for _, form := range disguises(secret) {
			if i := strings.Index(output, form); i >= 0 {
				t.Errorf("%s has the secret %.16s...: %s", what, secret, output[max(0, i-200):min(len(output), i+80)])
				return
			}
		}
	}
}

// echoes are upstreams that repeat the credential which they were given.
var echoes = map[string]scripted.Script{
	"error object": func(x *scripted.Exchange) { x.Error(http.StatusOK, -32603, "no rights for "+credentials(x.R)) },
	"other words for it": func(x *scripted.Exchange) {
		secret := credentials(x.R)
		x.Error(http.StatusOK, -32603, fmt.Sprint(url.QueryEscape(secret), strings.ToUpper(secret), base64.StdEncoding.EncodeToString([]byte(secret))))
	},
	"refusal object": func(x *scripted.Exchange) {
		x.W.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", error_description="`+credentials(x.R)+`"`)
		x.Error(http.StatusUnauthorized, -32001, "no rights for "+credentials(x.R))
	},
	"forbidden": func(x *scripted.Exchange) {
		x.W.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+credentials(x.R)+`"`)
		x.Raw(http.StatusForbidden, "text/plain", credentials(x.R))
	},
	"failure": func(x *scripted.Exchange) { x.Raw(http.StatusInternalServerError, "text/plain", credentials(x.R)) },
	"content type": func(x *scripted.Exchange) {
		x.Raw(http.StatusOK, "text/"+strings.ReplaceAll(credentials(x.R), " ", "+"), "x")
	},
	"list": func(x *scripted.Exchange) {
		key := scripted.ItemsKey(x.Method)
		if key == "" {
			x.Default()
			return
		}
		x.Result(fmt.Sprintf(`{"resultType":"complete","ttlMs":300,"cacheScope":"public",%q:[{"name":"item-0000","uri":"a:b","uriTemplate":"a:{b}","description":%q}]}`,
			key, "made for "+credentials(x.R)))
	},
	"drop by drop": func(x *scripted.Exchange) {
		x.W.Header().Set("Content-Type", "application/json")
		for _, b := range fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%q}}`, x.ID, credentials(x.R)) {
			_, _ = x.W.Write([]byte{b}) // the feed may be gone
			_ = http.NewResponseController(x.W).Flush()
		}
	},
	"no JSON": func(x *scripted.Exchange) { x.Raw(http.StatusOK, "application/json", credentials(x.R)) },
	"redirect": func(x *scripted.Exchange) {
		x.W.Header().Set("Location", "http://127.0.0.1:1/?token="+url.QueryEscape(credentials(x.R)))
		x.Raw(http.StatusTemporaryRedirect, "text/plain", credentials(x.R))
	},
}

// credentials is what a request has of them.
func credentials(r *http.Request) string {
	return r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
}

// transcript is every output of a run.
type transcript struct {
	t     testing.TB
	parts map[string]*bytes.Buffer
}

func (o *transcript) add(what, text string) {
	if o.parts[what] == nil {
		o.parts[what] = new(bytes.Buffer)
	}
	fmt.Fprintln(o.parts[what], text)
}

// addLog adds a log, but for what Caddy's reverse_proxy says itself of requests
// and answers, with all headers that it does not know to be credentials: of
// each answer at debug level and, with a guard that has a header of its own, of
// answers that break off. [TestAnotherHeaderCanBeFiltered] has the remedy.
func (o *transcript) addLog(log string, ownHeader bool) {
	for line := range strings.SplitSeq(log, "\n") {
		proxys := strings.Contains(line, `"logger":"http.handlers.reverse_proxy"`)
		if !proxys || !ownHeader && !strings.Contains(line, `"msg":"upstream roundtrip"`) {
			o.add("the log", line)
		}
	}
}

// operate asks for everything that an operator can ask for.
func (o *transcript) operate() {
	o.t.Helper()
	_, metrics := caddytest.AskAdmin(o.t, http.MethodGet, "/metrics", nil)
	o.add("metrics", string(metrics))
	for _, request := range []string{
		"GET /mcp_cache/", "GET /mcp_cache/mcp_cache", "GET /mcp_cache/none", "POST /mcp_cache/mcp_cache/refresh",
		"GET /mcp_cache/mcp_cache/tools", "GET /mcp_cache/mcp_cache/tools/item-0000", "GET /mcp_cache/mcp_cache/discover",
		"POST /mcp_cache/mcp_cache/purge", "GET /mcp_cache/",
	} {
		method, path, _ := strings.Cut(request, " ")
		_, body := caddytest.AskAdmin(o.t, method, path, nil)
		o.add("the answer to "+request, string(body))
	}
}

// files adds what is kept on disk.
func (o *transcript) files(dir string) {
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		o.add("the file "+filepath.Base(path), path+"\n"+string(content))
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		o.t.Error(err)
	}
}

// TestSecretsShowNowhere runs every guard against upstreams and token endpoints
// that repeat what they were sent, and reads all that comes out: logs at debug
// level, metrics, admin answers, answers to clients, files.
func TestSecretsShowNowhere(t *testing.T) {
	for name, setup := range guardedSetups {
		if name == "oauth2 discovery" {
			continue // the scripted upstream has no metadata; the client's secret is that of oauth2 basic
		}
		t.Run(name, func(t *testing.T) {
			s := setup(t)
			w := caddytest.NewUpstream(t)
			w.SetHints(scripted.PublicBrief)
			w.SetDoor(func(r *http.Request) int {
				raw := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				if key := r.Header.Get("X-Api-Key"); key != "" {
					raw = key
				}
				if _, err := s.verify(raw); err != nil {
					return http.StatusUnauthorized
				}
				return 0
			})
			w.Host.Start()
			w.Proxy = caddytest.StartProxy(t, "log\nroute {\n"+caddytest.Directive(w.Host.URL, "guard "+s.guard, "refresh 50ms", "scope public", "ttl 300ms")+"\n}")
			out := &transcript{t: t, parts: make(map[string]*bytes.Buffer)}
			user := s.auth.Issue(userAccount, listScope)
			clients := []*fixture.Raw{
				w.ClientAs(scripted.Modern, "Bearer "+user), w.ClientAs(scripted.LatestLegacy, "Bearer "+user),
			}
			clients[0].Settle(scripted.ToolsList)
			feedRequests := func() int { return len(w.Host.Requests(func(r *fixture.Request) bool { return r.Feed })) }
			for _, echo := range echoes {
				w.SetScript("*", feedOnly(echo))
				before := feedRequests()
				fixture.Await(t, "the feed's failures", func() bool {
					out.operate()
					return feedRequests() > before+2
				})
				for _, c := range clients {
					a := c.List(scripted.ToolsList)
					out.add("an answer to a client", fmt.Sprint(a.Header, string(a.Body)))
				}
			}
			w.SetScript("*", nil)
			s.auth.Break(authtest.TokenPath, authtest.Parrot())
			s.auth.Revoke()
			out.operate()
			w.Proxy.Reload("respond gone 410")
			out.addLog(w.Proxy.Log(), strings.Contains(s.guard, "X-Api-Key"))
			out.files(caddytest.Running.Home)
			out.want(t, append(secrets(w), s.secrets()...))
		})
	}
}

// feedOnly plays a script to the feed; clients are answered as ever.
func feedOnly(script scripted.Script) scripted.Script {
	return func(x *scripted.Exchange) {
		if x.Feed {
			script(x)
			return
		}
		x.Default()
	}
}

// secrets are the credentials on all requests that have reached the upstream.
func secrets(w *caddytest.World) (found []string) {
	for _, r := range w.Host.Requests(func(*fixture.Request) bool { return true }) {
		for _, name := range []string{"Authorization", "X-Api-Key"} {
			if token := strings.TrimPrefix(r.Header.Get(name), "Bearer "); token != "" {
				found = append(found, token)
			}
		}
	}
	return found
}

// secrets are what token requests have held, and key files.
func (s *guardedSetup) secrets() (found []string) {
	found = slices.Clone(s.hidden)
	for _, r := range s.auth.Requests() {
		for _, name := range []string{"client_secret", "client_assertion", "subject_token"} {
			if secret := r.Form.Get(name); secret != "" {
				found = append(found, secret)
			}
		}
		if basic, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Basic "); ok {
			found = append(found, basic)
		}
	}
	return found
}

// want fails if any output has a secret.
func (o *transcript) want(t *testing.T, secrets []string) {
	t.Helper()
	slices.Sort(secrets)
	secrets = slices.Compact(secrets)
	if len(secrets) < 2 {
		t.Errorf("only %d secrets to look for", len(secrets))
	}
	size := 0
	for what, text := range o.parts {
		wantNoSecrets(t, what, text.String(), secrets...)
		size += text.Len()
	}
	t.Logf("no secret of %d in %d kinds of output, %d bytes", len(secrets), len(o.parts), size)
}

// TestPanickingGuard breaks a third party's guard: its panic is a failure of
// the feed, and what it had in its hand is not shown.
func TestPanickingGuard(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.Start("guard panicking")
	c := w.Client(scripted.Modern)
	fixture.Await(t, "a state", func() bool { return caddytest.AllIn(caddytest.Feeds(t), "down") })
	if a := c.List(scripted.ToolsList); caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
		t.Errorf("a client's list gave %s", a)
	}
	wantNoSecrets(t, "the log", w.Proxy.Log())
	_, statuses := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/", nil)
	wantNoSecrets(t, "the admin API", string(statuses))
}

// TestMistakesShowNoSecret loads configurations that are refused: the answers
// repeat nothing secret.
func TestMistakesShowNoSecret(t *testing.T) {
	t.Setenv("MCP_CACHE_TEST_LINES", planted+"token\n"+planted+"token")
	p := caddytest.StartProxy(t, "respond ok")
	for _, guard := range []string{
		"bearer {env.MCP_CACHE_TEST_LINES}",
		block("bearer "+planted+"token", "token "+planted+"other"),
		block("bearer "+planted+"token", "file /run/token"),
		`bearer "Bearer ` + planted + `token"`,
		block("oauth2 https://user:"+planted+"password@as.example.com/token", "client_id a", "client_secret "+planted+"secret"),
		block("oauth2 https://as.example.com/token", "client_id a", "client_secret "+planted+"secret", "client_secret_file /run/secret"),
		block("oauth2 https://as.example.com/token", "client_id a", "client_secret "+planted+"secret", "client_secret "+planted+"other"),
		block("oauth2 https://as.example.com/token", "client_id a", "client_secret x{"+planted+"secret}"),
		block("exchange https://as.example.com/token", "subject_token {env.MCP_CACHE_TEST_LINES}"),
	} {
		err := p.TryReload(caddytest.Directive("http://127.0.0.1:1/mcp", "guard "+guard))
		if err == nil {
			t.Errorf("%s was loaded", guard)
			continue
		}
		wantNoSecrets(t, "the answer", err.Error())
	}
	wantNoSecrets(t, "the log", p.Log())
}

// TestAnotherHeaderCanBeFiltered keeps a token in another header than
// Authorization out of Caddy's own log lines, as the documentation says.
func TestAnotherHeaderCanBeFiltered(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetScript(scripted.ToolsList, feedOnly(scripted.HalfBody))
	w.Host.Start()
	config := caddytest.Directive(w.Host.URL, "guard "+block("bearer "+plantedToken, "header X-Api-Key", "prefix off"))
	w.Proxy = caddytest.StartProxy(t, config)
	sees := func(p *caddytest.Proxy) func() bool {
		return func() bool { return strings.Count(p.Log(), `"logger":"http.handlers.reverse_proxy"`) > 5 }
	}
	fixture.Await(t, "log lines", sees(w.Proxy))
	if !strings.Contains(w.Proxy.Log(), plantedToken) {
		t.Error("the log has no token without a filter either")
	}
	filtered := *w.Proxy
	filtered.LogFile = filepath.Join(t.TempDir(), "filtered.log")
	filter := "format filter {\nwrap json\nrequest>headers>X-Api-Key delete\n}"
	site := "http://:" + strings.TrimPrefix(w.Proxy.Addr, "127.0.0.1:") + " {\nbind 127.0.0.1\n" + config + "\n}"
	globals := strings.Replace(caddytest.Globals(filtered.LogFile), "format json", filter, 1)
	if err := caddytest.Load("text/caddyfile", []byte(globals+site)); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "log lines", sees(&filtered))
	wantNoSecrets(t, "the filtered log", filtered.Log())
}

const (
	feedToken   = "feed-secret-4f1c"
	clientToken = "client-secret-9a7e"
)

// TestCredentialsDoNotCross runs a guarded feed and clients with credentials,
// through good times and bad: the upstream sees each token on its owner's
// requests only, and nobody else sees any.
func TestCredentialsDoNotCross(t *testing.T) {
	for name, guard := range map[string]func(t *testing.T) string{
		"literal": func(*testing.T) string { return "guard bearer " + feedToken },
		"variable": func(t *testing.T) string {
			t.Setenv("MCP_CACHE_TEST_TOKEN", feedToken)
			return "guard bearer {env.MCP_CACHE_TEST_TOKEN}"
		},
		"file": func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(feedToken+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return "guard bearer {\nfile " + file + "\n}"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetHints(scripted.PublicBrief)
			w.SetDoor(func(r *http.Request) int {
				if auth := r.Header.Get("Authorization"); auth != "Bearer "+feedToken && auth != "Bearer "+clientToken {
					return http.StatusUnauthorized
				}
				return 0
			})
			w.Host.Start()
			w.Proxy = caddytest.StartProxy(t, "log\nroute {\n"+caddytest.Directive(w.Host.URL, guard(t), "refresh 50ms", "ttl 300ms")+"\n}")
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				c := w.ClientAs(revision, "Bearer "+clientToken)
				c.Settle(scripted.ToolsList)
				c.Call("tools/call", c.Params(`"name":"item-0000"`))
				w.SetScript("*", scripted.Status(http.StatusInternalServerError))
				c.AwaitList(scripted.ToolsList, "a stale hit", caddytest.IsStale)
				w.SetScript("*", nil)
				c.AwaitList(scripted.ToolsList, "a fresh hit", func(a *fixture.Answer) bool { return a.CacheStatus().Hit && !caddytest.IsStale(a) })
			})
			for _, r := range w.Host.Requests(func(*fixture.Request) bool { return true }) {
				want := "Bearer " + clientToken
				if r.Feed {
					want = "Bearer " + feedToken
				}
				if got := r.Header.Get("Authorization"); got != want {
					t.Errorf("%s %s (feed: %v) had Authorization %q", r.HTTPMethod, r.Method, r.Feed, got)
				}
			}
			for _, secret := range []string{feedToken, clientToken} {
				if strings.Contains(w.Proxy.Log(), secret) {
					t.Errorf("the log has %s", secret)
				}
			}
		})
	}
}

// TestKeysInURLsShowNowhere: some services take a caller's key in the path, or as a query of its own. The log and
// the status tell of such requests without the key.
func TestKeysInURLsShowNowhere(t *testing.T) {
	t.Run("several servers", func(t *testing.T) {
		w := caddytest.NewUpstream(t)
		w.Host.Start()
		w.Proxy = caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{{Name: "one", URL: w.Host.URL}}))
		hidesKeysInURLs(w, t)
	})
	t.Run("one server", func(t *testing.T) {
		w := caddytest.NewUpstream(t)
		w.Host.Start()
		w.Proxy = caddytest.StartProxy(t, caddytest.Directive(w.Host.URL, "scope public", "admit all"))
		hidesKeysInURLs(w, t)
		for _, text := range []string{"(path: /…/…/mcp, ", "(query: …, ", "(query: toolsets, "} {
			wantWarning(t, text)
		}
	})
}

func hidesKeysInURLs(w *caddytest.World, t *testing.T) {
	t.Helper()
	const key = "planted-key"
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		w.ClientAs(revision, "").Settle(scripted.ToolsList)
		// A toolkit does not answer there.
		_, _ = fixture.NewModern(t, "http://"+w.Proxy.Addr+"/s/"+key+"/mcp", "").Try(t.Context(), http.MethodPost, fixture.Message("1", "ping", "{}"), nil)
		for _, query := range []string{"?" + key, "?key%3D" + key, "?" + key + "=", "?toolsets=" + key} {
			fixture.NewWith(t, w.Proxy.URL+query, revision, "", nil).List(scripted.ToolsList)
		}
	})
	_, status := caddytest.AskAdmin(t, http.MethodGet, "/mcp_cache/mcp_cache", nil)
	if strings.Contains(string(status), key) {
		t.Errorf("the status has the key: %s", status)
	}
	for line := range strings.Lines(w.Proxy.Log()) {
		if strings.Contains(line, key) && !strings.Contains(line, `{"level":"debug"`) { // reverse_proxy's has the URI
			t.Errorf("the log has the key: %s", line)
		}
	}
}

// TestTokenFileIsReadAgain replaces the feed's token, when the upstream has
// stopped to accept the old one.
func TestTokenFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicBrief)
	var refused atomic.Int64
	accept := func(tokens ...string) {
		w.SetDoor(func(r *http.Request) int {
			for _, token := range append(tokens, "client") {
				if r.Header.Get("Authorization") == "Bearer "+token {
					return 0
				}
			}
			refused.Add(1)
			return http.StatusUnauthorized
		})
	}
	accept("old")
	w.Start("guard bearer {\nfile "+file+"\n}", "refresh 50ms")
	c := w.ClientAs(scripted.Modern, "Bearer client")
	c.Settle(scripted.ToolsList)
	caddytest.AwaitReady(t, "mcp_cache") // the feed has used the old token in both eras
	accept("new")
	fixture.Await(t, "a refusal of the feed", func() bool { return refused.Load() > 0 })
	if a := c.List(scripted.ToolsList); !isWhole(a) {
		t.Errorf("after the refusal, a list is %s", a)
	}
	if err := os.WriteFile(file, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Mark(scripted.ToolsList, "v2")
	fixture.Await(t, "a refresh with the new token", func() bool {
		return len(w.Host.Requests(func(r *fixture.Request) bool {
			return r.Method == scripted.ToolsList && r.Header.Get("Authorization") == "Bearer new"
		})) > 0
	})
	c.AwaitList(scripted.ToolsList, "the new token's list", func(a *fixture.Answer) bool {
		return caddytest.IsHit(a, scripted.ToolsList, "v2") && !caddytest.IsStale(a)
	})
}
