package several

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// knowing is a way in which a server knows a caller by a credential.
type knowing struct {
	name    string
	several []string // the options of the server's block; nil: it is the only server
	header  string   // where the caller has the credential
	format  string   // how it is written there
	query   bool     // in the query of the URL instead
	isDoor  bool     // of several servers
}

// knowings are all ways.
func knowings() []knowing {
	return []knowing{
		{name: "bearer", header: "Authorization", format: "Bearer %s"},
		{name: "alone", header: "Authorization", format: "%s"},
		{name: "header", header: "X-Key", format: "%s"},
		{name: "cookie", header: "Cookie", format: "a=b; session=%s"},
		{name: "query", query: true},
		{name: "door", several: []string{"authorization forward"}, header: "Authorization", format: "Bearer %s", isDoor: true},
		{name: "door, alone", several: []string{"authorization forward"}, header: "Authorization", format: "%s", isDoor: true},
		{name: "door by from", several: []string{"authorization from X-Key"}, header: "X-Key", format: "Bearer %s", isDoor: true},
		{name: "door by from, alone", several: []string{"authorization from X-Key"}, header: "X-Key", format: "%s", isDoor: true},
		{name: "door by headers", several: []string{"headers X-Key"}, header: "X-Key", format: "%s", isDoor: true},
		{name: "door by a cookie", several: []string{"headers Cookie"}, header: "Cookie", format: "session=%s", isDoor: true},
		{name: "no door, from", several: []string{"authorization from X-Key"}, header: "X-Key", format: "%s"},
		{name: "no door, headers", several: []string{"headers X-Key"}, header: "X-Key", format: "%s"},
		{name: "door with a guard", several: []string{"authorization guard", "guard bearer planted-account-token", "headers X-Key"}, header: "X-Key", format: "%s", isDoor: true},
	}
}

// directive starts the server, and writes a handler of that name before it, with more options for the server. Another
// server is beside it, if it is one of several.
func (k knowing) directive(t *testing.T, name string, more ...string) (w *caddytest.World, directive string) {
	t.Helper()
	w, m := caddytest.NewMember(t, "knows", slices.Concat(k.several, more)...)
	w.SetHints(scripted.PrivateHour)
	w.Host.ShareCredentials()
	options := []string{"name " + name, "admit upstream 1h"}
	if k.several == nil {
		return w, caddytest.Directive(w.Host.URL, append(options, more...)...)
	}
	_, other := caddytest.NewMember(t, "other")
	if k.isDoor {
		options = append(options, "door knows")
	}
	return w, caddytest.ToolkitOf([]caddytest.Member{m, other}, options...)
}

// client returns a caller at that URL who has the credential.
func (k knowing) client(t testing.TB, to, revision, token string) *fixture.Raw {
	t.Helper()
	header := http.Header{}
	if k.query {
		to += "?token=" + token
	} else {
		header.Set(k.header, fmt.Sprintf(k.format, token))
	}
	return fixture.NewWith(t, to, revision, "", header)
}

// carries reports whether a request to the server has that credential.
func (k knowing) carries(r *fixture.Request, token string) bool {
	return strings.Contains(fmt.Sprint(r.URL, r.Header), token)
}

// TestTokenEnds has the server's acceptance of a caller end with the caller's token, wherever
// that is, although the option admit would let it count for longer.
func TestTokenEnds(t *testing.T) {
	ways := knowings()
	worlds, site := make([]*caddytest.World, len(ways)), ""
	for i, k := range ways {
		var directive string
		worlds[i], directive = k.directive(t, fmt.Sprint("way-", i))
		site += fmt.Sprintf("handle_path /way-%d/* {\n%s\n}\n", i, directive)
	}
	p := caddytest.StartProxy(t, site)
	var all sync.WaitGroup
	for i, k := range ways {
		for _, revision := range caddytest.Revisions {
			all.Go(func() {
				// A slow machine may need more time to get to a hit.
				for life := 3 * time.Second; !endWithToken(worlds[i], t, k, fmt.Sprintf("http://%s/way-%d/mcp", p.Addr, i), revision, life); life *= 2 {
				}
			})
		}
	}
	all.Wait()
}

// endWithToken has a caller with a token that lasts so long list until the server is asked
// again. It returns false if the token ended before the first hit.
func endWithToken(w *caddytest.World, t *testing.T, k knowing, to, revision string, life time.Duration) bool {
	encode := base64.RawURLEncoding.EncodeToString
	expiry := time.Now().Add(life).Unix()
	token := encode([]byte(`{"alg":"RS256"}`)) + "." + encode(fmt.Appendf(nil, `{"exp":%d,"for":%q}`, expiry, revision)) + "." + encode([]byte("signature"))
	c := k.client(t, to, revision, token)
	lists := func() int {
		return len(w.Host.Requests(func(r *fixture.Request) bool { return r.Method == scripted.ToolsList && k.carries(r, token) }))
	}
	list := func() *fixture.Answer {
		a, err := c.TryList(t.Context(), scripted.ToolsList)
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
			return new(fixture.Answer)
		}
		return a
	}
	hit := fixture.Poll(fixture.Deadline, 10*time.Millisecond, func() bool {
		a := list()
		return a.Header != nil && a.CacheStatus().Hit && a.CacheStatus().Detail == ""
	})
	if time.Now().Unix() >= expiry {
		return false
	}
	before := lists()
	again := fixture.Poll(fixture.Deadline, 10*time.Millisecond, func() bool {
		list()
		return lists() > before
	})
	if now := time.Now().Unix(); !hit || !again || now < expiry-1 {
		t.Errorf("%s, %s: a hit %t, and asked again %t at %d; the token's end is %d", k.name, revision, hit, again, now, expiry)
	}
	return true
}

// TestRefusalEndsLists has the server refuse with 401 or 403 a call, or a list that is not fresh any more. From then on the caller
// gets no list of that server from memory, until the server accepts the caller anew.
func TestRefusalEndsLists(t *testing.T) {
	for _, k := range knowings() {
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
			for of, speaks := range map[string][]string{"both eras": nil, "legacy": legacyRevisions, "modern": {scripted.Modern}} {
				if k.several == nil && speaks != nil {
					continue // only several servers have clients of other eras than their own
				}
				for method, more := range map[string][]string{"tools/call": nil, scripted.ToolsList: {"ttl 200ms", "max_ttl 200ms"}} {
					t.Run(fmt.Sprint(k.name, " ", status, " ", of, " ", method), func(t *testing.T) {
						w, directive := k.directive(t, "mcp_cache", more...)
						if speaks != nil {
							w.SetRevisions(speaks...)
						}
						w.Proxy = caddytest.StartProxy(t, directive)
						for _, revision := range caddytest.Revisions {
							t.Run(revision, func(t *testing.T) { refuseAfterAHit(w.On(t), k, revision, method, status) })
						}
					})
				}
			}
		}
	}
}

// refuseAfterAHit has the server let a caller in, and then refuse it at a request of that method.
func refuseAfterAHit(w *caddytest.World, k knowing, revision, method string, status int) {
	t := w.T
	const token = "planted-of-the-caller"
	w.SetDoor(func(*http.Request) int { return 0 })
	c := k.client(t, w.Proxy.URL, revision, token)
	prefix := ""
	if k.several != nil {
		prefix = "knows__"
	}
	isFresh := func(a *fixture.Answer) bool { return a.CacheStatus().Hit && a.CacheStatus().Detail == "" }
	c.AwaitList(scripted.ToolsList, "a hit", isFresh)
	w.SetDoor(func(r *http.Request) int {
		if strings.Contains(fmt.Sprint(r.URL, r.Header), token) {
			return status
		}
		return 0
	})
	var a *fixture.Answer
	if method == scripted.ToolsList {
		a = c.AwaitList(scripted.ToolsList, "the end of the list", func(a *fixture.Answer) bool {
			return !isFresh(a) || !strings.Contains(string(a.Body), prefix+"item-0000")
		})
	} else {
		a = c.Call(method, c.Params(fmt.Sprintf(`"name":%q,"arguments":{}`, prefix+"item-0000")))
	}
	refused := a.Status == status || !k.isDoor && k.several != nil
	done := method != scripted.ToolsList && a.Part("result") != nil
	if !refused || done || strings.Contains(string(a.Body), prefix+"item-0000") {
		t.Errorf("%s gave %s: %s", method, a, a.Body)
	}
	if a := c.List(scripted.ToolsList); strings.Contains(string(a.Body), `"`+prefix+`item-0000"`) {
		t.Errorf("after the refusal, the list is %s: %s", a, a.Body)
	}
	w.SetDoor(func(*http.Request) int { return 0 })
}
