package mcpcache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache/cachetest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/report"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/stores"
)

func init() {
	caddy.RegisterModule(standModule{})
	caddy.RegisterModule(notAHandler{})
}

// standModule is an upstream handler that a configuration can name.
type standModule struct {
	Name      string          `json:"name"`
	Upstreams json.RawMessage `json:"upstreams"` // as those of a reverse_proxy
}

func (standModule) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.mcp_cache_stand", New: func() caddy.Module { return new(standModule) }}
}

// stands are what those handlers do, by their names.
var stands sync.Map

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (m *standModule) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if s, ok := stands.Load(m.Name); ok {
		return s.(stand)(w, r)
	}
	return caddyhttp.Error(http.StatusBadGateway, errors.New("nobody there"))
}

// notAHandler is a module of the namespace that handles nothing.
type notAHandler struct{}

func (notAHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.mcp_cache_none", New: func() caddy.Module { return new(notAHandler) }}
}

// stand stands for the upstream's handler.
type stand func(http.ResponseWriter, *http.Request) error

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (s stand) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return s(w, r)
}

// requestOf is a request of the modern era.
func requestOf(t testing.TB, method string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`, method)))
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "X-Client": {"yes"},
	}
	return r
}

// config is a configuration of the handler, whose upstream is called name.
// Members can be replaced; null takes one away.
func config(name string, members ...string) string {
	c := map[string]json.RawMessage{
		"upstream": json.RawMessage(fmt.Sprintf(`{"handler":"mcp_cache_stand","name":%q}`, name)),
		"store":    json.RawMessage(`{"store":"off"}`),
		"name":     json.RawMessage(`"handler_test"`),
	}
	for i := 0; i < len(members); i += 2 {
		c[members[i]] = json.RawMessage(members[i+1])
		if members[i+1] == "null" {
			delete(c, members[i])
		}
	}
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// loaded is a configuration that has been provisioned.
type loaded struct {
	*Handler

	start, cancel func()
}

// provision loads a configuration as Caddy does, but for its start.
func provision(t testing.TB, config string) (*loaded, error) {
	t.Helper()
	base, err := caddy.ProvisionContext(&caddy.Config{
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {
			BaseLog: caddy.BaseLog{WriterRaw: json.RawMessage(`{"output":"discard"}`)},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(base)
	mod, err := ctx.LoadModuleByID("http.handlers.mcp_cache", json.RawMessage(config))
	if err != nil {
		cancel()
		return nil, err
	}
	started, err := ctx.App("mcp_cache")
	if err != nil {
		t.Fatal(err)
	}
	start := func() {
		if err := started.(*app).Start(); err != nil {
			t.Error(err)
		}
	}
	return &loaded{mod.(*Handler), start, cancel}, nil
}

func mustProvision(t testing.TB, config string) *loaded {
	t.Helper()
	l, err := provision(t, config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// references returns how many configurations use what is shared.
func references(key string) int {
	count, _ := pool.References(key)
	return count
}

func TestSameConfigurationTwiceSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := mustProvision(t, config("twice"))
		two := mustProvision(t, config("twice"))
		key := one.one.backend.Key
		if one.one.backend.Backend != two.one.backend.Backend || two.one.backend.Key != key || references(key) != 2 {
			t.Fatalf("they do not share: keys %s and %s, %d references", one.one.backend.Key, two.one.backend.Key, references(key))
		}
		one.start()
		two.start()
		synctest.Wait()
		for _, r := range []revision.Revision{revision.LatestModern, revision.LatestLegacy} {
			if two.one.backend.Feeds.Of(r) == nil {
				t.Errorf("there is no feed of %v", r)
			}
		}
		one.one.backend.Cache.Pin(cachetest.Tools(t, 1))
		one.cancel()
		if references(key) != 1 || two.one.backend.Cache.Pinned(revision.V20260728, revision.Tools) == nil {
			t.Errorf("after the first is gone: %d references, tools %v", references(key),
				two.one.backend.Cache.Pinned(revision.V20260728, revision.Tools))
		}
		two.cancel()
		if references(key) != 0 {
			t.Errorf("%d references are left", references(key))
		}
		if slices.Contains(report.Live.Names(), "handler_test") {
			t.Error("a handler is still registered")
		}
		// The bubble ends only when all goroutines have.
	})
}

func TestCleanupTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := mustProvision(t, config("cleanup"))
		two := mustProvision(t, config("cleanup"))
		key := one.one.backend.Key
		for range 3 {
			if err := one.Cleanup(); err != nil {
				t.Errorf("cleaning up: %v", err)
			}
		}
		if references(key) != 1 {
			t.Errorf("%d references are left, want that of the other", references(key))
		}
		one.cancel()
		if references(key) != 1 {
			t.Errorf("%d references are left, want that of the other", references(key))
		}
		two.cancel()
		if references(key) != 0 {
			t.Errorf("%d references are left", references(key))
		}
	})
}

// TestModuleIsKnownDuringCleanup asks what the handler is, as whoever emits one
// of its events does, while it is cleaned up. What it fails with is a data race.
func TestModuleIsKnownDuringCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustProvision(t, config("known"))
		var module caddy.Module = l.Handler
		go func() {
			if id := module.CaddyModule().ID; id != "http.handlers.mcp_cache" {
				t.Errorf("the handler is %s", id)
			}
		}()
		if err := l.Cleanup(); err != nil {
			t.Error(err)
		}
		l.cancel()
		synctest.Wait()
	})
}

func TestCleanupOfNothing(t *testing.T) {
	if err := new(Handler).Cleanup(); err != nil {
		t.Errorf("got %v", err)
	}
}

// TestFailedProvision has each part of a configuration be wrong while another
// configuration with the same upstream is in force.
func TestFailedProvision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inForce := mustProvision(t, config("failed"))
		defer inForce.cancel()
		for name, c := range map[string]struct{ config, want string }{
			"no upstream":       {config("failed", "upstream", "null"), "upstream: missing"},
			"unknown upstream":  {config("failed", "upstream", `{"handler":"unheard_of"}`), "loading upstream"},
			"upstream, no name": {config("failed", "upstream", `{}`), "loading upstream"},
			"not a handler":     {config("failed", "upstream", `{"handler":"mcp_cache_none"}`), "is not an HTTP handler"},
			"unknown store":     {config("failed", "store", `{"store":"unheard_of"}`), "loading store"},
			"unknown guard":     {config("failed", "guard", `{"guard":"unheard_of"}`), "loading guard"},
			"bad setting":       {config("failed", "ttl", `-1`), "ttl: "},
			"bad origin":        {config("failed", "origins", `["x"]`), "origins: "},
			"credential":        {config("failed", "harmless", `["Authorization"]`), "harmless: Authorization says who a caller is"},
			"bad host":          {config("failed", "host", `"http://a"`), "host: "},
			"bad other host":    {config("failed", "same_hosts", `["a", "http://a"]`), "same_hosts: "},
			"bad rule":          {config("failed", "rules", `[{}]`), "rule 0: effect: "},
			"unknown option":    {config("failed", "tll", `1`), "tll"},
		} {
			l, err := provision(t, c.config)
			if err == nil {
				l.cancel()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want it to say %q", name, err, c.want)
			}
			if got := references(inForce.one.backend.Key); got != 1 {
				t.Fatalf("%s: %d references to what the other uses", name, got)
			}
			if names := report.Live.Names(); !slices.Contains(names, "handler_test") || len(report.Live.Named("handler_test")) != 1 {
				t.Errorf("%s: registered are %v", name, names)
			}
		}
	})
}

// A configuration that is rejected later, or only validated, reaches nobody.
func TestNothingStartsBeforeTheConfigurationDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stands.Store("rejected", stand(func(http.ResponseWriter, *http.Request) error {
			t.Error("the upstream was asked")
			return nil
		}))
		defer stands.Delete("rejected")
		l := mustProvision(t, config("rejected"))
		time.Sleep(time.Hour)
		for _, f := range l.one.backend.Feeds.All() {
			t.Errorf("there is a feed: %+v", f.Status())
		}
		l.cancel()
	})
}

// What shapes the feed and the cache makes them new; everything else leaves
// them as they are.
func TestWhatIsSharedOverAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := mustProvision(t, config("reload"))
		defer base.cancel()
		for name, c := range map[string]struct {
			config string
			same   bool
		}{
			"the same":         {config("reload"), true},
			"ttl":              {config("reload", "ttl", `1000000000`), true},
			"kinds":            {config("reload", "kinds", `["tools"]`), true},
			"name":             {config("reload", "name", `"another"`), true},
			"store":            {config("reload", "store", `{"store":"caddy"}`), true},
			"admit":            {config("reload", "admit", `"all"`), true},
			"memory":           {config("reload", "memory", `2097152`), true},
			"rules":            {config("reload", "rules", `[{"effect":"deny","kind":"tools","items":["a"]}]`), true},
			"max_call":         {config("reload", "max_call", `100000`), true},
			"page_size":        {config("reload", "page_size", `10`), true},
			"another upstream": {config("other"), false},
			"endpoint":         {config("reload", "endpoint", `"/api"`), false},
			"scope":            {config("reload", "scope", `"public"`), false},
			"partition":        {config("reload", "partition", `["{a}"]`), false},
			"harmless":         {config("reload", "harmless", `["X-A"]`), false},
			"host":             {config("reload", "host", `"a.example"`), false},
			"same hosts":       {config("reload", "same_hosts", `["a.example"]`), false},
			"eras":             {config("reload", "eras", `["legacy"]`), false},
			"both eras":        {config("reload", "eras", `["modern","legacy"]`), true},
			"guard":            {config("reload", "guard", `{"guard":"bearer","token":"a"}`), false},
		} {
			l := mustProvision(t, c.config)
			if same := l.one.backend.Backend == base.one.backend.Backend; same != c.same {
				t.Errorf("%s: shared %v, want %v", name, same, c.same)
			}
			l.cancel()
		}
	})
}

// TestRulesAreAConfigurationsOwn has two configurations with other rules share what they
// have of one server.
func TestRulesAreAConfigurationsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const denied = `[{"effect":"deny","kind":"tools","items":["a"]}]`
		with, without := mustProvision(t, config("rules", "rules", denied)), mustProvision(t, config("rules"))
		defer with.cancel()
		defer without.cancel()
		if with.one.backend.Backend != without.one.backend.Backend {
			t.Error("they do not share")
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", http.NoBody)
		if v := with.one.endpoint.Rules.View(r); !v.Restricts(revision.Tools) || v.Restricts(revision.Prompts) || without.one.endpoint.Rules != nil {
			t.Error("the endpoints do not have their own rules")
		}
	})
}

// TestNewestConfigurationCounts has the second of two configurations be
// rejected: what is shared goes on with the first.
func TestNewestConfigurationCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := mustProvision(t, config("newest"))
		store := func() stores.Store { return one.one.backend.Keeper.Store() }
		if store() != one.one.store {
			t.Error("the first configuration's store is not in use")
		}
		two := mustProvision(t, config("newest", "store", `{"store":"caddy"}`))
		if store() != two.one.store {
			t.Error("the second configuration's store is not in use")
		}
		two.cancel()
		if store() != one.one.store {
			t.Error("the first configuration's store is not in use again")
		}
		one.cancel()
	})
}

// TestCleanupHarmsNoRequest takes configurations away under requests that wait
// for the upstream.
func TestCleanupHarmsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stands.Store("busy", stand(func(w http.ResponseWriter, r *http.Request) error {
			if r.Header.Get("X-Client") == "" {
				return caddyhttp.Error(http.StatusBadGateway, errors.New("down")) // a feed
			}
			<-release
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}`)
			return err
		}))
		defer stands.Delete("busy")
		one := mustProvision(t, config("busy", "gate", "0"))
		one.start()
		synctest.Wait()
		var all sync.WaitGroup
		for _, method := range []string{"tools/list", "tools/call", "server/discover"} {
			all.Go(func() {
				w := httptest.NewRecorder()
				if err := one.ServeHTTP(w, requestOf(t, method), nil); err != nil || w.Code != http.StatusOK || w.Body.Len() == 0 {
					t.Errorf("%s: got %d, %s, %v", method, w.Code, w.Body, err)
				}
			})
		}
		synctest.Wait()
		two := mustProvision(t, config("busy", "gate", "0"))
		two.start()
		one.cancel()
		two.cancel() // with the last one go the feeds and the cache
		if references(two.one.backend.Key) != 0 {
			t.Error("the feeds and the cache are still there")
		}
		close(release)
		all.Wait()
		// Even a request that comes too late is forwarded.
		w := httptest.NewRecorder()
		if err := one.ServeHTTP(w, requestOf(t, "tools/list"), nil); err != nil || w.Code != http.StatusOK {
			t.Errorf("a late request got %d, %s, %v", w.Code, w.Body, err)
		}
	})
}

// The feeds address the upstream by the name that the operator has given.
func TestEndpointOfTheFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for endpoint, want := range map[string]string{`""`: "http://10.0.0.1:3001/mcp", `"/api"`: "http://10.0.0.1:3001/api"} {
			l := mustProvision(t, config("", "endpoint", endpoint,
				"upstream", `{"handler":"mcp_cache_stand","upstreams":[{"dial":"10.0.0.1:3001"}]}`))
			if l.one.urls[0] != want {
				t.Errorf("endpoint %s: got %s, want %s", endpoint, l.one.urls[0], want)
			}
			l.cancel()
		}
	})
}

// However headers are spelled and ordered that are called harmless, they are the
// same ones.
func TestHarmlessIsSharedOverAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := mustProvision(t, config("harmless", "harmless", `["X-A","X-B"]`))
		defer one.cancel()
		two := mustProvision(t, config("harmless", "harmless", `["x-b","X-a","X-B"]`))
		defer two.cancel()
		if one.one.backend.Backend != two.one.backend.Backend {
			t.Error("they do not share")
		}
	})
}
