package views

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// typescriptItem is an item as clients/offers.cjs takes it.
type typescriptItem struct {
	Name     string `json:"name"`
	About    string `json:"about"`
	ReadOnly bool   `json:"readOnly"`
}

func typescriptItems(names ...string) (items []typescriptItem) {
	for _, name := range names {
		items = append(items, typescriptItem{name, about(name), readOnly(name)})
	}
	return items
}

// typescriptVeil starts a server of the TypeScript SDK behind rules.
func typescriptVeil(t *testing.T, o caddytest.Others, policy string) *veil {
	t.Helper()
	offer := offers()
	text, err := json.Marshal(map[string]any{
		"tools": typescriptItems(offer.Tools...), "prompts": typescriptItems(offer.Prompts...),
		"resources": typescriptItems(offer.Resources...), "templates": typescriptItems(offer.Templates...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OFFER", string(text))
	server := caddytest.StartOther(t, fixture.FreeAddr(t), o.Node(), "../clients/offers.cjs", o.Dir)
	direct := &url.URL{Scheme: "http", Host: server.Addr}
	pass := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(direct) }}
	host := fixture.NewHost(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A request that comes in two pieces has the SDK's server now and then end the
		// connection before it has answered.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(w, r)
	}))
	add := func(tool string) {
		body, err := json.Marshal(typescriptItems(tool)[0])
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.Post(direct.JoinPath("add").String(), "application/json", strings.NewReader(string(body)))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("adding a tool gave %v, %v", res, err)
		}
		_ = res.Body.Close()
	}
	return &veil{
		t: t, host: host, proxy: caddytest.StartProxy(t, veiled(host.URL, policy)), add: add, resumes: true, batches: true,
		revisions: []string{scripted.LatestLegacy, "2025-03-26"}, asked: func() []string { return nil },
		lacks: []string{"resources/subscribe", "resources/unsubscribe"},
	}
}

// TestViewsOfTypeScript does what TestViewsDifferential does with a server of the
// TypeScript SDK, and reads what is hidden by other spellings of its URI, which that SDK
// understands.
func TestViewsOfTypeScript(t *testing.T) {
	o := caddytest.InstalledOthers(t)
	for _, policy := range slices.Sorted(maps.Keys(policies)) {
		t.Run(policy, func(t *testing.T) {
			v := typescriptVeil(t, o, policy)
			for _, revision := range v.revisions {
				t.Run(revision, func(t *testing.T) {
					v := v.on(t)
					v.differ(revision)
					v.respell(revision)
					t.Logf("%d exchanges", v.exchanges)
				})
			}
		})
	}
}

// respell reads by other spellings of URIs.
func (v *veil) respell(revision string) {
	v.t.Helper()
	c, name := v.caller(revision, false), hushed+"-2"
	for _, uri := range []string{" test://" + name + "/note", "test://" + name + "/note ", "TEST://" + name + "/note", "test://x/../" + name + "/note"} {
		params := fmt.Sprintf(`{"uri":%q}`, uri)
		if a := c.send("a read of "+uri, http.MethodPost, fixture.Message(c.NextID(), "resources/read", params), nil, uri, name); a.ErrorCode() == 0 {
			v.t.Errorf("a read of %q gave %s", uri, a)
		}
	}
}
