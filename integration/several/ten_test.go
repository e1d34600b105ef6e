package several

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// oddTool is a tool as few servers write it, so that nothing that reads numbers, escapes or
// members as it likes leaves it as it is.
const oddTool = `{"title":"né\u00e9 \ud83d\ude00","big":12345678901234567890.1200E+2, "inner":{"name":"n","x":[1e400,-0]},` +
	`"name" : "o\u0064d","inputSchema":{"type":"object","properties":{"name":{"type":"string","name":"name"}}},"_meta":{"x":{"name":null}},"unknown":"\/"}`

// TestTenServers has five healthy servers of both eras behind one endpoint, and five of which
// one refuses connections, one never answers, one takes its time, and two answer with errors.
func TestTenServers(t *testing.T) {
	var members []caddytest.Member
	healthy := make(map[string]*caddytest.World)
	for name, revisions := range map[string][]string{
		"sessions": legacyRevisions, "older": {"2025-06-18"}, "modern": {scripted.Modern}, "both": nil, "never": {scripted.Modern},
	} {
		w, m := caddytest.NewMember(t, name)
		w.SetList(scripted.ToolsList, scripted.Page{oddTool}, caddytest.OwnItems(scripted.ToolsList, name))
		if revisions != nil {
			w.SetRevisions(revisions...)
		}
		if name == "never" { // fresh
			w.SetHints(`"ttlMs":0,"cacheScope":"public"`)
		}
		healthy[name], members = w, append(members, m)
	}
	held, release := make(chan struct{}), make(chan struct{})
	wait := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case held <- struct{}{}:
			default:
			}
			select {
			case <-release:
				next.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		})
	}
	hole := make(chan struct{})
	t.Cleanup(func() { close(hole) })
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) })
	}
	never := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hole:
		case <-r.Context().Done():
		}
	})
	slow := caddytest.NewUpstreamBehind(t, func(s *scripted.Server) http.Handler { return wait(s) })
	slow.SetHints(scripted.PublicHour)
	slow.Host.Start()
	members = append(members,
		caddytest.Member{Name: "refusing", URL: fixture.NewDownHost(t, http.NotFoundHandler()).URL}, caddytest.Member{Name: "hole", URL: fixture.NewHost(t, never).URL},
		caddytest.Member{Name: "slow", URL: slow.Host.URL}, caddytest.Member{Name: "broken", URL: fixture.NewHost(t, status(500)).URL}, caddytest.Member{Name: "closed", URL: fixture.NewHost(t, status(401)).URL})
	sick := []string{"refusing", "hole", "slow", "broken", "closed"}
	slices.SortFunc(members, func(a, b caddytest.Member) int { return strings.Compare(a.Name, b.Name) }) // the sick ones among the others
	p := caddytest.StartProxy(t, caddytest.ToolkitOf(members, "gate 100ms"))
	<-held // the feed of the slow one waits

	var want []string
	for _, m := range members {
		if healthy[m.Name] == nil {
			continue
		}
		want = append(want, strings.Replace(oddTool, `"o\u0064d"`, `"`+m.Name+`__o\u0064d"`, 1))
		for _, item := range caddytest.OwnItems(scripted.ToolsList, m.Name) {
			want = append(want, strings.Replace(item, `"name":"item`, `"name":"`+m.Name+`__item`, 1))
		}
	}
	lists := make(map[string][]byte)
	for _, revision := range append(legacyRevisions, scripted.Modern) {
		c := fixture.New(t, p.URL, revision, "") // and is answered, if it opens a session
		fixture.Await(t, "the tools of the healthy servers", func() bool { return slices.Equal(c.List(scripted.ToolsList).Items("tools"), want) })
		a := c.List(scripted.ToolsList)
		if !strings.Contains(a.CacheStatus().Raw, "detail=partial") {
			t.Errorf("a list of %s is %s", revision, a)
		}
		lists[revision] = a.Part("result", "tools")
	}
	// Hits ask nobody but the one whose lists are never fresh, and refreshes that change nothing
	// change no byte.
	for name := range healthy {
		caddytest.AwaitReady(t, "mcp_cache/"+name)
	}
	asked := make(map[string]int)
	for name, w := range healthy {
		asked[name] = w.Host.Count(scripted.ToolsList)
	}
	for range 3 {
		for revision, list := range lists {
			if a := fixture.New(t, p.URL, revision, "").List(scripted.ToolsList); !bytes.Equal(a.Part("result", "tools"), list) {
				t.Errorf("a list of %s has changed: %s", revision, a.Body)
			}
		}
	}
	for name, w := range healthy {
		if n := w.Host.Count(scripted.ToolsList) - asked[name]; (n != 0) != (name == "never") {
			t.Errorf("lists from memory asked %s %d times", name, n)
		}
	}
	var refreshes sync.WaitGroup
	for name := range healthy { // not the sick ones, for which it would wait
		refreshes.Go(func() {
			if code, body := caddytest.AskAdmin(t, http.MethodPost, "/mcp_cache/mcp_cache/"+name+"/refresh?kind=tools", nil); code != http.StatusOK {
				t.Errorf("a refresh of %s gave %d: %s", name, code, body)
			}
		})
	}
	refreshes.Wait()
	for revision, list := range lists {
		if a := fixture.New(t, p.URL, revision, "").List(scripted.ToolsList); !bytes.Equal(a.Part("result", "tools"), list) {
			t.Errorf("after a refresh that changed nothing, a list of %s is %s", revision, a.Body)
		}
	}
	for _, revision := range append(legacyRevisions, scripted.Modern) {
		c := fixture.New(t, p.URL, revision, "")
		for name := range healthy {
			if a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":"%s__item-0000"`, name))); a.Status != http.StatusOK || a.ErrorCode() != 0 {
				t.Errorf("%s: a call of %s gave %s: %s", revision, name, a, a.Body)
			}
		}
		for _, name := range sick {
			if a := c.Call("tools/call", c.Params(fmt.Sprintf(`"name":"%s__x"`, name))); a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), `\"`+name+`\"`) {
				t.Errorf("%s: a call of %s gave %s: %s", revision, name, a, a.Body)
			}
		}
	}
	close(release) // the slow one has answered
	for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
		c := fixture.New(t, p.URL, revision, "")
		fixture.Await(t, "the tools of the slow server", func() bool { return len(c.List(scripted.ToolsList).Items("tools")) == len(want)+3 })
	}
}
