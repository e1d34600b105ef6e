package several

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// canaryMembers are servers that want all that there is of credentials, and which canaries each
// may be sent.
func canaryMembers(t *testing.T, serve func(*caddytest.World)) (worlds []*caddytest.World, members []caddytest.Member, allowed []string) {
	for name, of := range map[string]struct{ options, allowed string }{
		"off":     {"", ""},
		"guarded": {"authorization guard\nguard bearer canary-guard", "canary-guard"},
		"forward": {"authorization forward\nguard bearer canary-feed", "canary-own"},
		"from":    {"authorization from X-GitHub-Auth", "canary-github"},
		"headers": {"headers X-Tenant", "canary-tenant"},
	} {
		w, m := caddytest.NewMember(t, name, of.options)
		serve(w)
		w.SetContents(name+"://item-0001", `"text":"x"`)
		worlds, members, allowed = append(worlds, w), append(members, m), append(allowed, of.allowed)
	}
	return worlds, members, allowed
}

// TestToolkitCanaries: whatever a client does, no server is sent a credential but its own, the
// feeds are sent none of a client's, and all is answered. Over each server's era, and each
// client's.
func TestToolkitCanaries(t *testing.T) {
	for name, serve := range map[string]func(*caddytest.World){
		"legacy": func(w *caddytest.World) { w.SetRevisions(legacyRevisions...) },
		"modern": func(w *caddytest.World) { w.SetRevisions(scripted.Modern) },
	} {
		t.Run(name, func(t *testing.T) {
			worlds, members, allowed := canaryMembers(t, serve)
			p := caddytest.StartProxy(t, caddytest.ToolkitOf(members))
			for _, revision := range []string{"2025-03-26", "2025-11-25", scripted.Modern} {
				useCanaries(t, fixture.New(t, p.URL, revision, caddytest.Canaries["Authorization"]), members)
			}
			for i, w := range worlds {
				for _, r := range w.Host.Requests(func(*fixture.Request) bool { return true }) {
					wantCanaries(t, members[i].Name, r, allowed[i])
				}
			}
		})
	}
}

// useCanaries has a client make requests of every sort at every server, with all canaries.
func useCanaries(t *testing.T, c *fixture.Raw, members []caddytest.Member) {
	t.Helper()
	for name, value := range caddytest.Canaries {
		c.Header.Set(name, value)
	}
	for _, method := range scripted.ListMethods() {
		caddytest.HasListed(t, c, method, 2*len(members))
	}
	if c.Modern() {
		c.List("server/discover")
		c.Listen().Response.Body.Close()
	} else {
		c.Call("ping", `{}`)
		c.Call("logging/setLevel", `{"level":"info"}`)
		c.Get("").Response.Body.Close()
		defer c.Delete()
	}
	for _, m := range members {
		for method, params := range map[string]string{
			"tools/call": `"name":"` + m.Name + `__item-0000","arguments":{}`, "prompts/get": `"name":"` + m.Name + `__item-0001"`,
			"resources/read": `"uri":"` + m.Name + `://item-0001"`, "completion/complete": `"ref":{"type":"ref/prompt","name":"` + m.Name + `__item-0001"},"argument":{"name":"a","value":"v"}`,
		} {
			if a := c.Call(method, c.Params(params)); a.Part("result") == nil {
				t.Errorf("%s: %s of %s gave %s: %s", c.Revision, method, m.Name, a, a.Body)
			}
		}
		c.Notify("notifications/cancelled", `{"requestId":1}`)
	}
	a, err := c.Try(t.Context(), http.MethodPut, "", nil)
	if err != nil || a.Status != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %v, %v", a, err)
	}
}

// wantCanaries fails if a request that has reached a server has another canary than its own.
func wantCanaries(t *testing.T, server string, r fixture.Request, allowed string) {
	t.Helper()
	sent := fmt.Sprint(r.URL, r.Header, string(r.Body))
	if allowed == "canary-own" && r.Feed { // as it is sent for a caller, or for the feed
		sent = strings.ReplaceAll(sent, "canary-feed", "")
	}
	if allowed != "" {
		sent = strings.ReplaceAll(sent, allowed, "")
	}
	if strings.Contains(sent, "canary") {
		t.Errorf("%s was sent %s %s", server, r.Method, sent)
	}
}

// TestToolkitActsAsItsGuard: with authorization guard, every caller has what the guard's
// account has, and nobody sees its credential.
func TestToolkitActsAsItsGuard(t *testing.T) {
	for name, revisions := range map[string][]string{"legacy": legacyRevisions, "modern": {scripted.Modern}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "token")
			write := func(token string) {
				if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("planted-token-0001")
			w, m := caddytest.NewMember(t, "one", "authorization guard\nguard bearer {\nfile "+file+"\n}")
			w.SetRevisions(revisions...)
			w.SetHints(`"ttlMs":3600000,"cacheScope":"private"`)
			w.SetDoor(scripted.Bearers("planted-token-0001"))
			w.SetScript("tools/call", func(x *scripted.Exchange) {
				for _, name := range []string{"Content-Language", "Cache-Control", "Vary", "Retry-After", "X-Token"} {
					x.W.Header().Set(name, x.R.Header.Get("Authorization"))
				}
				x.Result(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, "sent "+x.R.Header.Get("Authorization")))
			})
			p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{m}, "admit all"))
			for _, revision := range []string{"2025-11-25", scripted.Modern} {
				c := fixture.New(t, p.URL, revision, "")
				caddytest.HasListed(t, c, scripted.ToolsList, 2)
				a := c.Call("tools/call", c.Params(`"name":"one__item-0000","arguments":{}`))
				if text := string(a.Part("result", "content")); !strings.Contains(text, "sent Bearer ***") ||
					strings.Contains(string(a.Body)+fmt.Sprint(a.Header), "planted") || a.Header.Get("Content-Language") == "" {
					t.Errorf("%s: %s, %s", revision, a, a.Body)
				}
			}
			// Another token: the refused request is sent again with it.
			w.SetDoor(scripted.Bearers("planted-token-0002"))
			write("planted-token-0002")
			for _, revision := range []string{"2025-11-25", scripted.Modern} {
				c := fixture.New(t, p.URL, revision, "")
				if a := c.Call("tools/call", c.Params(`"name":"one__item-0000","arguments":{}`)); a.Part("result") == nil {
					t.Errorf("%s, renewed: %s, %s", revision, a, a.Body)
				}
			}
			// None that is good.
			w.SetDoor(scripted.Bearers())
			c := fixture.New(t, p.URL, scripted.Modern, "")
			a := c.Call("tools/call", c.Params(`"name":"one__item-0000","arguments":{}`))
			if a.Status != http.StatusBadGateway || !strings.Contains(string(a.Body), `the MCP server \"one\" refuses the credential of its guard: HTTP status 401`) ||
				a.Header.Get("WWW-Authenticate") != "" {
				t.Errorf("without a good token: %s, %s", a, a.Body)
			}
		})
	}
}

// TestToolkitHidesTheGuardsCredential has a server repeat its guard's credential in base64 with line
// breaks. No client receives it: in the answer to a call, in a list of several servers, or in a list
// of one. The endpoint rejects an answer in a content coding that nobody asked for, since it could not
// find the credential there.
func TestToolkitHidesTheGuardsCredential(t *testing.T) {
	const token = "planted-token-0001-that-is-longer-than-a-line"
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + token))
	broken := strings.Join([]string{encoded[:20], encoded[20:40], encoded[40:]}, "\r\n")
	quoted, _ := json.Marshal(broken)
	middle := encoded[20:40]
	for name, revisions := range map[string][]string{"legacy": legacyRevisions, "modern": {scripted.Modern}} {
		t.Run(name, func(t *testing.T) {
			w, m := caddytest.NewMember(t, "one", "prefix off", "authorization guard", "guard bearer "+token)
			alone, direct := caddytest.NewMember(t, "alone", m.Options...)
			// In a session of its own, a client is given the list in which nothing is hidden. Whether others
			// then share the feed's is left to chance.
			alone.SetSessions(false)
			for _, server := range []*caddytest.World{w, alone} {
				server.SetRevisions(revisions...)
				server.SetList(scripted.ToolsList, scripted.Page{`{"name":"get","description":` + string(quoted) + `,"inputSchema":{"type":"object"}}`})
			}
			p := caddytest.StartProxy(t, "handle_path /several/* {\n"+caddytest.ToolkitOf([]caddytest.Member{m}, "admit all", "name several")+"\n}\nhandle_path /one/* {\n"+
				caddytest.Directive(direct.URL, "guard bearer "+token, "admit all", "scope public always", "name one")+"\n}")
			for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
				c := fixture.New(t, "http://"+p.Addr+"/several/mcp", revision, "")
				if a := caddytest.HasListed(t, c, scripted.ToolsList, 1); strings.Contains(string(a.Body), middle) || !strings.Contains(string(a.Body), "****") {
					t.Errorf("%s, several: the list is %s", revision, a.Body)
				}
				if c.Modern() == (name == "modern") {
					a := fixture.New(t, "http://"+p.Addr+"/one/mcp", revision, "").Settle(scripted.ToolsList)
					if strings.Contains(string(a.Body), middle) || !strings.Contains(string(a.Body), "****") {
						t.Errorf("%s, one: the list is %s", revision, a.Body)
					}
				}
				for form, answer := range map[string]func(x *scripted.Exchange, result string){
					"JSON":     func(x *scripted.Exchange, result string) { x.Result(result) },
					"a stream": func(x *scripted.Exchange, result string) { x.Event(x.Envelope(result)) },
				} {
					w.SetScript("tools/call", func(x *scripted.Exchange) {
						answer(x, `{"resultType":"complete","content":[{"type":"text","text":`+string(quoted)+`}]}`)
					})
					a := c.Call("tools/call", c.Params(`"name":"get","arguments":{}`))
					if strings.Contains(string(a.Body), middle) || !strings.Contains(a.Text(), "****") {
						t.Errorf("%s, %s: a call gave %s: %s", revision, form, a, a.Body)
					}
				}
				for _, coding := range []string{"gzip", "br", "gzip, br"} {
					w.SetScript("tools/call", func(x *scripted.Exchange) {
						x.W.Header().Set("Content-Encoding", coding)
						var zipped bytes.Buffer
						z := gzip.NewWriter(&zipped)
						fmt.Fprint(z, x.Envelope(`{"resultType":"complete","content":[{"type":"text","text":"`+token+`"}]}`))
						z.Close()
						x.Raw(http.StatusOK, "application/json", zipped.String())
					})
					a := c.Call("tools/call", c.Params(`"name":"get","arguments":{}`))
					if coding == "gzip" { // reverse_proxy has asked for that, and unpacks it
						if text := a.Text(); text != strings.Repeat("*", len(token)) {
							t.Errorf("%s, %s: a call gave %s: %s", revision, coding, a, a.Body)
						}
						continue
					}
					if a.Status != http.StatusBadGateway || a.ErrorCode() != -32603 || !strings.Contains(string(a.Body), `\"one\"`) || a.Header.Get("Content-Encoding") != "" {
						t.Errorf("%s, %s: a call gave %s: %s", revision, coding, a, a.Body)
					}
				}
			}
		})
	}
}

// TestToolkitPersonalLists: a server that is sent callers' credentials shows each caller its
// own lists, and so does the toolkit; what one is shown is nobody else's, calls go by it, and
// hits ask nobody.
func TestToolkitPersonalLists(t *testing.T) {
	for name, revisions := range map[string][]string{"legacy": legacyRevisions, "modern": {scripted.Modern}, "both": append([]string{scripted.Modern}, legacyRevisions...)} {
		t.Run(name, func(t *testing.T) {
			_, first := caddytest.NewMember(t, "all")
			w, m := caddytest.NewMember(t, "own", "authorization from X-Key")
			w.SetRevisions(revisions...)
			w.SetHints(`"ttlMs":3600000,"cacheScope":"private"`)
			w.SetDoor(scripted.Bearers("a", "b"))
			for _, who := range []string{"a", "b"} {
				w.SetPrivateList("Bearer "+who, scripted.ToolsList, scripted.Page{
					`{"name":"of-` + who + `","inputSchema":{"type":"object"}}`, `{"name":"` + strings.Repeat("long-", 9) + who + `","inputSchema":{"type":"object"}}`,
				})
			}
			p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, m}))
			for _, revision := range []string{"2025-06-18", scripted.Modern} {
				clients := map[string]*fixture.Raw{}
				for _, who := range []string{"a", "b"} {
					c := fixture.New(t, p.URL, revision, "")
					c.Header.Set("X-Key", "Bearer "+who)
					clients[who] = c
					a := caddytest.HasListed(t, c, scripted.ToolsList, 4)
					if items := strings.Join(a.Items("tools"), ""); !strings.Contains(items, `"own__of-`+who) || strings.Count(items, `"own__of-`) != 1 {
						t.Errorf("%s is shown %s", who, items)
					}
					if scope := string(a.Part("result", "cacheScope")); c.Modern() && scope != `"private"` {
						t.Errorf("the list is %s", scope)
					}
				}
				asked := w.Host.Count(scripted.ToolsList)
				for range 5 {
					for who, c := range clients {
						if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit || !strings.Contains(string(a.Body), "own__of-"+who) {
							t.Errorf("%s is shown %s, %s", who, a, a.Body)
						}
					}
				}
				if again := w.Host.Count(scripted.ToolsList); again != asked {
					t.Errorf("hits asked the server %d times", again-asked)
				}
				// What is shortened is each caller's own, too.
				for who, c := range clients {
					items := c.List(scripted.ToolsList).Items("tools")
					long := items[3]
					long = long[strings.Index(long, "own__"):]
					long = long[:strings.Index(long, `"`)]
					for _, called := range []string{"own__of-" + who, long} {
						if a := c.Call("tools/call", c.Params(`"name":"`+called+`","arguments":{}`)); a.Part("result") == nil {
							t.Errorf("%s calls %s: %s %s", who, called, a, a.Body)
						}
					}
				}
				// Who sends nothing sees the others' items, and that is all that there is.
				c := fixture.New(t, p.URL, revision, "")
				caddytest.HasListed(t, c, scripted.ToolsList, 2)
				if a := c.Call("tools/call", c.Params(`"name":"own__of-a","arguments":{}`)); a.Status != http.StatusBadGateway ||
					!strings.Contains(string(a.Body), `the MCP server \"own\" refuses the caller's credentials`) {
					t.Errorf("without a credential: %s %s", a, a.Body)
				}
			}
			// A change that one call has made is in that caller's next list.
			c := fixture.New(t, p.URL, scripted.Modern, "")
			c.Header.Set("X-Key", "Bearer a")
			caddytest.HasListed(t, c, scripted.ToolsList, 4)
			w.SetPrivateList("Bearer a", scripted.ToolsList, scripted.Page{`{"name":"new-a","inputSchema":{"type":"object"}}`})
			w.SetScript("tools/call", func(x *scripted.Exchange) {
				x.Event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				x.Result(`{"content":[]}`)
			})
			c.Call("tools/call", c.Params(`"name":"own__of-a","arguments":{}`))
			if a := c.List(scripted.ToolsList); !strings.Contains(string(a.Body), "own__new-a") || strings.Contains(string(a.Body), "own__of-a") {
				t.Errorf("after the change: %s %s", a, a.Body)
			}
		})
	}
}

// TestToolkitAsksOnce: a server that refuses a caller, or answers nobody, is not asked at each
// of that caller's lists, which say so by their ttlMs; and the others' items are all there.
func TestToolkitAsksOnce(t *testing.T) {
	_, first := caddytest.NewMember(t, "all")
	refusing, second := caddytest.NewMember(t, "refusing", "authorization from X-Key")
	broken, third := caddytest.NewMember(t, "broken", "authorization from X-Key")
	for _, w := range []*caddytest.World{refusing, broken} {
		w.SetRevisions(scripted.Modern)
	}
	refusing.SetDoor(scripted.Bearers())
	broken.SetScript("tools/list", func(x *scripted.Exchange) { x.Error(http.StatusInternalServerError, -32603, "out of order") })
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second, third}))
	c := fixture.NewModern(t, p.URL, "")
	c.Header.Set("X-Key", "Bearer of-a-caller")
	asked := func(w *caddytest.World) int {
		return len(w.Host.Requests(func(r *fixture.Request) bool {
			return r.Method == scripted.ToolsList && r.Header.Get("Authorization") == "Bearer of-a-caller"
		}))
	}
	began := time.Now()
	for range 20 {
		a := c.List(scripted.ToolsList)
		if len(a.Items("tools")) != 2 || string(a.Part("result", "ttlMs")) != "0" || a.CacheStatus().Detail != "partial" {
			t.Fatalf("%s: %s", a, a.Body)
		}
	}
	took := time.Since(began)
	if n := asked(refusing); n > 1+int(took/time.Minute) {
		t.Errorf("in %s, the server that refuses the caller was asked %d times", took, n)
	}
	if n := asked(broken); n > 1+int(took/(10*time.Second)) {
		t.Errorf("in %s, the server that fails was asked %d times", took, n)
	}
	// What is left of the refusal is how long a list is fresh that lacks nothing else.
	a := c.List("prompts/list")
	var ttl int64
	if err := json.Unmarshal(a.Part("result", "ttlMs"), &ttl); err != nil || ttl <= 0 || ttl > time.Minute.Milliseconds() || len(a.Items("prompts")) != 4 ||
		string(a.Part("result", "cacheScope")) != `"private"` {
		t.Errorf("prompts: %v, %s: %s", err, a, a.Body)
	}
}

// TestToolkitTellsOfPersonalChanges: clients are told when a server announces a change that may
// be one of lists that it shows to single callers, and have the new list then.
func TestToolkitTellsOfPersonalChanges(t *testing.T) {
	for name, revisions := range map[string][]string{"legacy": legacyRevisions, "modern": {scripted.Modern}} {
		t.Run(name, func(t *testing.T) {
			w, m := caddytest.NewMember(t, "one", "authorization forward\nguard bearer of-the-feed", "refresh 1ms")
			w.SetRevisions(revisions...)
			w.SetHints(`"ttlMs":3600000,"cacheScope":"private"`)
			w.SetDoor(scripted.Bearers("of-a-caller", "of-the-feed"))
			page := func(i int) scripted.Page {
				return scripted.Page{fmt.Sprintf(`{"name":"n%d","inputSchema":{"type":"object"}}`, i)}
			}
			w.SetPrivateList("Bearer of-a-caller", scripted.ToolsList, page(0))
			p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{m}))
			for _, revision := range []string{"2025-11-25", scripted.Modern} {
				c := fixture.New(t, p.URL, revision, "Bearer of-a-caller")
				caddytest.HasListed(t, c, scripted.ToolsList, 1)
				fixture.Await(t, "the feed's stream", func() bool { return w.Streams(scripted.Feeds) == 1 })
				s := c.Notices()
				for i := range 10 {
					w.SetPrivateList("Bearer of-a-caller", scripted.ToolsList, page(i))
					w.Changed(scripted.Feeds, scripted.ToolsList)
					s.Await(toolsChanged)
					if a := c.List(scripted.ToolsList); !strings.Contains(string(a.Body), fmt.Sprintf(`"one__n%d"`, i)) {
						t.Fatalf("after change %d: %s: %s", i, a, a.Body)
					}
				}
			}
		})
	}
}

// TestToolkitAsksAnewAfterAChange: who lists after a change was announced does not wait for what
// was asked for before.
func TestToolkitAsksAnewAfterAChange(t *testing.T) {
	w, m := caddytest.NewMember(t, "one", "authorization forward\nguard bearer of-the-feed", "refresh 1ms")
	w.SetRevisions(scripted.Modern)
	w.SetDoor(scripted.Bearers("of-a-caller", "of-the-feed"))
	w.SetHints(`"ttlMs":3600000,"cacheScope":"private"`)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{m}, "gate 30s"))
	c := fixture.NewModern(t, p.URL, "Bearer of-a-caller")
	caddytest.HasListed(t, c, scripted.PromptsList, 2) // it is in
	fixture.Await(t, "the feed's stream", func() bool { return w.Streams(scripted.Feeds) == 1 })

	var asked atomic.Int64
	release := make(chan struct{})
	w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		if x.Auth == "Bearer of-a-caller" && asked.Add(1) == 1 {
			select {
			case <-release:
			case <-x.Done():
				return
			}
			x.Result(`{"tools":[{"name":"old","inputSchema":{"type":"object"}}],"ttlMs":3600000,"cacheScope":"private","resultType":"complete"}`)
			return
		}
		x.Default()
	})
	first := make(chan *fixture.Answer, 1)
	go func() { first <- c.List(scripted.ToolsList) }()
	fixture.Await(t, "the server to be asked", func() bool { return asked.Load() == 1 })
	w.SetList(scripted.ToolsList, scripted.Page{`{"name":"new","inputSchema":{"type":"object"}}`})
	before := w.Host.CountFeed(scripted.ToolsList)
	w.Changed(scripted.Feeds, scripted.ToolsList)
	fixture.Await(t, "the feed to hear of it", func() bool { return w.Host.CountFeed(scripted.ToolsList) > before })
	if a := c.List(scripted.ToolsList); !strings.Contains(string(a.Body), "one__new") {
		t.Errorf("after the change: %s: %s", a, a.Body)
	}
	close(release)
	<-first
	if a := c.List(scripted.ToolsList); !strings.Contains(string(a.Body), "one__new") {
		t.Errorf("once the first answer is there: %s: %s", a, a.Body)
	}
}
