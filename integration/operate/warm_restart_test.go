package operate

import (
	"bytes"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// storedSnapshots returns what is in Caddy's storage for mcp_cache, by name.
func storedSnapshots(t *testing.T) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	root := filepath.Join(caddytest.Running.Home, "mcp_cache")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".snapshot") {
			return err
		}
		files[path], err = os.ReadFile(path)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatalf("reading storage: %v", err)
	}
	return files
}

// restart takes the site and its upstream away, and brings the site back alone.
// When it returns, the feed has found that nobody is there.
func restart(w *caddytest.World, options ...string) {
	w.T.Helper()
	restartAs(w, caddytest.Directive(w.Host.URL, options...))
}

// restartAs is restart of any site.
func restartAs(w *caddytest.World, site string) {
	w.T.Helper()
	caddytest.GoIdle(w.T)
	w.Host.Kill()
	downs := func() int { return strings.Count(w.Proxy.Log(), `"to":"down"`) }
	before := downs()
	w.Proxy.Reload(site)
	fixture.Await(w.T, "the feeds to find nobody", func() bool { return downs() >= before+2 })
}

// wantStale fails unless all lists are stale hits with that mark.
func wantStale(t *testing.T, c *fixture.Raw, mark string) {
	t.Helper()
	for _, method := range scripted.ListMethods() {
		a := c.List(method)
		if got := a.Items(scripted.ItemsKey(method)); !caddytest.IsStale(a) || caddytest.MarkOf(a, method) != mark || len(got) != 3 {
			t.Errorf("stale %s is %s", method, a)
		}
		if s := a.CacheStatus(); !s.HasTTL || s.TTL > 0 {
			t.Errorf("stale %s has Cache-Status %q", method, s.Raw)
		}
	}
}

// wantNothing fails if a list is there.
func wantNothing(t *testing.T, c *fixture.Raw) {
	t.Helper()
	for _, method := range scripted.ListMethods() {
		if a := c.List(method); a.Status != http.StatusBadGateway {
			t.Errorf("%s is there: %s", method, a)
		}
	}
}

// TestWarmRestart restarts Caddy with its upstream down: callers without a
// credential and a session go on to list, and see that the lists are old. When
// the upstream is there again, so are fresh lists.
func TestWarmRestart(t *testing.T) {
	for _, revision := range []string{scripted.Modern, scripted.LatestLegacy, "2025-06-18", "2025-03-26"} {
		t.Run(revision, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetSessions(false)
			w.Start()
			c := w.Client(revision)
			for _, method := range scripted.ListMethods() {
				c.Settle(method)
			}
			restart(w)
			wantStale(t, c, "v1")
			if call := c.Call("tools/call", c.Params(`"name":"item-0000"`)); call.Status != http.StatusBadGateway {
				t.Errorf("a call gave %s", call)
			}
			for _, method := range scripted.ListMethods() {
				w.Mark(method, "v2")
			}
			w.Host.Start()
			for _, method := range scripted.ListMethods() {
				c.AwaitList(method, "a fresh list", func(a *fixture.Answer) bool {
					return caddytest.IsHit(a, method, "v2") && !caddytest.IsStale(a)
				})
			}
		})
	}
}

// TestToldBeforeARestart announces a change that cannot be fetched, and restarts
// Caddy: nobody knows who was told, so nobody is given the list from before,
// unless the operator says that those who were told may have it too. So it is in front of one
// server and of several, which do not tell their clients before the new list is there.
func TestToldBeforeARestart(t *testing.T) {
	for name, several := range map[string]bool{"one server": false, "several": true} {
		for how, options := range map[string][]string{"by default": nil, "after_notice": {"stale_if_error 24h after_notice"}} {
			t.Run(name+", "+how, func(t *testing.T) {
				w, stale := caddytest.NewUpstream(t), options != nil
				w.SetSessions(false)
				site := caddytest.Directive(w.Host.URL, options...)
				if several {
					w.SetRevisions(scripted.Modern) // or else the list of the other era might be given
					site = caddytest.ToolkitOf([]caddytest.Member{{Name: "one", URL: w.Host.URL, Options: options}})
				}
				w.Host.Start()
				w.Proxy = caddytest.StartProxy(t, site)
				c := w.Client(scripted.Modern)
				for _, method := range scripted.ListMethods() {
					c.Settle(method)
				}
				s := c.Notices()
				if !several {
					fixture.Await(t, "the stream", func() bool { return w.Streams(caddytest.OfEra(c)) == 1 })
				}
				w.SetScript(scripted.ToolsList, scripted.Status(http.StatusInternalServerError))
				if several {
					w.Changed(scripted.Everybody, scripted.ToolsList)
					if a := c.AwaitList(scripted.ToolsList, "the old list", caddytest.IsStale); caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
						t.Errorf("not told, it is given %s", a)
					}
				} else {
					w.Changed(caddytest.OfEra(c), scripted.ToolsList)
					s.Await("notifications/tools/list_changed")
					if a := c.List(scripted.ToolsList); caddytest.IsStale(a) != stale {
						t.Errorf("told, it is given %s", a)
					}
				}
				restartAs(w, site)
				if a := c.List(scripted.ToolsList); caddytest.IsStale(a) != stale || (caddytest.MarkOf(a, scripted.ToolsList) == "v1") != stale || !stale && !several && a.Status != http.StatusBadGateway {
					t.Errorf("after a restart, it is given %s", a)
				}
				if a := c.List(scripted.PromptsList); !caddytest.IsStale(a) || caddytest.MarkOf(a, scripted.PromptsList) != "v1" {
					t.Errorf("the server announced no change of prompts, and the cache answers %s", a)
				}
				w.SetScript(scripted.ToolsList, nil)
				w.Mark(scripted.ToolsList, "v2")
				w.Host.Start()
				c.AwaitList(scripted.ToolsList, "the new list", func(a *fixture.Answer) bool {
					return caddytest.IsHit(a, scripted.ToolsList, "v2") && !caddytest.IsStale(a)
				})
				restartAs(w, site)
				if a := c.List(scripted.ToolsList); !caddytest.IsStale(a) || caddytest.MarkOf(a, scripted.ToolsList) != "v2" {
					t.Errorf("after the new list and a restart, it is given %s", a)
				}
			})
		}
	}
}

// TestWarmRestartIsForNobodyElse restarts Caddy with its upstream down: whoever
// the upstream would have to know is not let in.
func TestWarmRestartIsForNobodyElse(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicHour)
	w.Start()
	session := w.Warm(scripted.LatestLegacy)
	known := w.ClientAs(scripted.Modern, "Bearer known")
	anonymous := w.Client(scripted.Modern)
	known.Settle(scripted.ToolsList)
	for _, method := range scripted.ListMethods() {
		anonymous.Settle(method)
	}
	restart(w)
	wantStale(t, anonymous, "v1")
	for name, c := range map[string]*fixture.Raw{
		"a session": session, "credentials": known, "new credentials": w.ClientAs(scripted.Modern, "Bearer new"),
	} {
		if a := c.List(scripted.ToolsList); a.Status != http.StatusBadGateway {
			t.Errorf("%s: got %s", name, a)
		}
	}
}

func TestStoreOff(t *testing.T) {
	before := storedSnapshots(t)
	w := caddytest.NewWorld(t, "store off")
	c := w.Warm(scripted.Modern)
	restart(w, "store off")
	wantNothing(t, c)
	if after := storedSnapshots(t); !maps.EqualFunc(before, after, bytes.Equal) {
		t.Errorf("%d snapshots were stored, %d are", len(before), len(after))
	}
}

// TestPrivateListsAreNotStored has a caller's own lists in the cache when Caddy
// restarts, even where everybody is let in.
func TestPrivateListsAreNotStored(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PrivateHour)
	for _, method := range scripted.ListMethods() {
		w.SetPrivateList("Bearer alice", method, scripted.Items(method, "of alice", 3))
	}
	w.Start("admit all")
	alice := w.ClientAs(scripted.Modern, "Bearer alice")
	anonymous := w.Client(scripted.Modern)
	for _, method := range scripted.ListMethods() {
		caddytest.WantHit(t, alice.Settle(method), method, "of alice")
		caddytest.WantHit(t, anonymous.Settle(method), method, "v1")
	}
	restart(w, "admit all")
	wantStale(t, anonymous, "v1")
	for _, method := range scripted.ListMethods() {
		if a := alice.List(method); a.Status != http.StatusBadGateway {
			t.Errorf("alice got %s", a)
		}
	}
	for name, content := range storedSnapshots(t) {
		if bytes.Contains(content, []byte("of alice")) {
			t.Errorf("%s has a list of alice", name)
		}
	}
}

// guardsToken is what the feed shows the server.
const guardsToken = "feed-secret-4f1c"

// TestGuardedListsAreNotStored restarts Caddy in front of a server that has
// shown its lists to the guard's account: they are there again only if the
// server said that they are public.
func TestGuardedListsAreNotStored(t *testing.T) {
	for hints, public := range map[string]bool{scripted.PublicHour: true, scripted.PrivateHour: false, "": false} {
		t.Run(hints, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetHints(hints)
			for _, method := range scripted.ListMethods() {
				w.SetPrivateList("Bearer "+guardsToken, method, scripted.Items(method, "for the guard", 3))
			}
			w.Host.Start()
			options := []string{"guard bearer " + guardsToken, "admit all"}
			w.Proxy = caddytest.StartProxy(t, caddytest.Directive(w.Host.URL, options...))
			c := w.Client(scripted.Modern)
			caddytest.AwaitState(t, "ready")
			restart(w, options...)
			if public {
				wantStale(t, c, "for the guard")
			} else {
				wantNothing(t, c)
			}
			stored := slices.ContainsFunc(slices.Collect(maps.Values(storedSnapshots(t))), func(content []byte) bool {
				return bytes.Contains(content, []byte("for the guard")) && !bytes.Contains(content, []byte(`"cacheScope":"public"`))
			})
			if stored {
				t.Error("a list that is not public is stored")
			}
			for name, content := range storedSnapshots(t) {
				if bytes.Contains(content, []byte(guardsToken)) {
					t.Errorf("%s has the token", name)
				}
			}
		})
	}
}

// TestListThatBecomesPrivate has a server change its mind: the copy that was
// stored when the list was public is not given to anybody any more.
func TestListThatBecomesPrivate(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicBrief)
	w.Host.Start()
	options := []string{"guard bearer " + guardsToken, "admit all", "refresh 50ms"}
	w.Proxy = caddytest.StartProxy(t, caddytest.Directive(w.Host.URL, options...))
	c := w.Client(scripted.Modern)
	c.Settle(scripted.ToolsList)
	w.SetHints(scripted.PrivateHour)
	for _, method := range scripted.ListMethods() {
		c.AwaitList(method, "a list of its own", func(a *fixture.Answer) bool { return !a.CacheStatus().Hit })
	}
	restart(w, options...)
	wantNothing(t, c)
}

// TestReloadToAnotherStore reloads with another store: it is given the lists
// that are there, although nothing is fetched.
func TestReloadToAnotherStore(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicHour)
	w.Start("store off")
	c := w.Client(scripted.Modern)
	for _, method := range scripted.ListMethods() {
		c.Settle(method)
	}
	caddytest.AwaitReady(t, "mcp_cache")
	fetches := w.Host.CountFeed(scripted.ToolsList)
	w.Proxy.Reload(caddytest.Directive(w.Host.URL))
	restart(w)
	wantStale(t, c, "v1")
	if now := w.Host.CountFeed(scripted.ToolsList); now != fetches {
		t.Errorf("the lists were fetched %d times more", now-fetches)
	}
	restart(w, "store off")
	wantNothing(t, c)
}

// TestDamagedSnapshotsAreIgnored damages what is stored: the lists that are
// damaged are not there, the others are, and the log says which.
func TestDamagedSnapshotsAreIgnored(t *testing.T) {
	before := storedSnapshots(t)
	w := caddytest.NewWorld(t)
	c := w.Client(scripted.Modern)
	for _, method := range scripted.ListMethods() {
		c.Settle(method)
	}
	caddytest.GoIdle(w.T)
	damaged := 0
	for name, content := range storedSnapshots(t) {
		if _, other := before[name]; other || !strings.HasSuffix(name, "2026-07-28.tools.snapshot") {
			continue
		}
		damaged++
		if err := os.WriteFile(name, content[:len(content)/2], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if damaged != 1 {
		t.Fatalf("%d snapshots of the tools are stored", damaged)
	}
	restart(w)
	if a := c.List(scripted.PromptsList); !caddytest.IsStale(a) {
		t.Errorf("prompts gave %s", a)
	}
	if a := c.List(scripted.ToolsList); a.Status != http.StatusBadGateway {
		t.Errorf("damaged tools gave %s", a)
	}
	if log := w.Proxy.Log(); strings.Count(log, "stored snapshot ignored") != 1 || !strings.Contains(log, "2026-07-28.tools.snapshot") {
		t.Error("the log does not say that the snapshot was ignored")
	}
}

// TestLoopbackIsTheHostsOwn restarts as another host that shares the storage:
// what it means by 127.0.0.1 is another server, whose lists it has not got.
func TestLoopbackIsTheHostsOwn(t *testing.T) {
	w := caddytest.NewWorld(t)
	c := w.Client(scripted.Modern)
	for _, method := range scripted.ListMethods() {
		c.Settle(method)
	}
	caddytest.AwaitReady(t, "mcp_cache")
	caddytest.GoIdle(w.T)
	name := filepath.Join(caddy.AppDataDir(), "instance.uuid")
	own, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rename := func(id []byte) {
		if err := os.WriteFile(name, id, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { rename(own) })
	rename([]byte("00000000-0000-4000-8000-000000000001"))
	restart(w)
	wantNothing(t, c)
	caddytest.GoIdle(w.T)
	rename(own)
	restart(w)
	wantStale(t, c, "v1")
}
