package views

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestPages lists page by page, with and without what is hidden, while the list
// changes in between.
func TestPages(t *testing.T) {
	w := newHiding(t, "page_size 2", "refresh 1ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		w.SetList(scripted.ToolsList, toolsNamed("a", "b", "hidden", "c", "d", "e"))
		w.Changed(scripted.Feeds, scripted.ToolsList)
		c, admin := w.Client(revision), w.Client(revision)
		admin.Header.Set("X-Role", "admin")
		hit := func(a *fixture.Answer) bool { return a.CacheStatus().Hit && strings.Contains(string(a.Body), `"b"`) }
		c.AwaitList(scripted.ToolsList, "a hit", hit)
		admin.AwaitList(scripted.ToolsList, "a hit", hit)
		pages, cursors := caddytest.PagesOf(t, c, scripted.ToolsList)
		if got := strings.Join(pages, "|"); got != "a b|c d|e" {
			t.Fatalf("the pages are %s", got)
		}
		if again, same := caddytest.PagesOf(t, c, scripted.ToolsList); fmt.Sprint(again, same) != fmt.Sprint(pages, cursors) {
			t.Errorf("listed again, the pages are %v by %v", again, same)
		}
		all, adminCursors := caddytest.PagesOf(t, admin, scripted.ToolsList)
		if got := strings.Join(all, "|"); got != "a b|hidden c|d e" {
			t.Errorf("an admin's pages are %s", got)
		}
		// Of somebody else, of another list, or changed, a cursor is the upstream's.
		for what, a := range map[string]*fixture.Answer{
			"an admin's":       caddytest.PageAt(c, scripted.ToolsList, adminCursors[0]),
			"for another list": caddytest.PageAt(c, scripted.PromptsList, cursors[0]),
			"a changed one":    caddytest.PageAt(c, scripted.ToolsList, strings.Replace(cursors[0], "A", "B", 1)),
		} {
			if strings.Contains(string(a.Body), `"tools":[`) || strings.Contains(string(a.Body), "hidden") {
				t.Errorf("%s cursor gave %s", what, a)
			}
		}
		// The list changes: what follows the last item of the page before is next, without a
		// list in between.
		w.SetList(scripted.ToolsList, toolsNamed("0", "a", "b", "b2", "c", "d", "hidden", "e"))
		w.Changed(scripted.Feeds, scripted.ToolsList)
		fixture.Await(t, "the changed page", func() bool {
			a := caddytest.PageAt(c, scripted.ToolsList, cursors[0])
			if a.Part("error") != nil {
				t.Fatalf("while the list changes, after b comes %s", a)
			}
			return strings.Contains(string(a.Body), `"b2"`) && !strings.Contains(string(a.Body), `"d"`)
		})
		w.SetList(scripted.ToolsList, toolsNamed("first", "a", "c"))
		w.Changed(scripted.Feeds, scripted.ToolsList)
		c.AwaitList(scripted.ToolsList, "the changed list", func(a *fixture.Answer) bool {
			return strings.Contains(string(a.Body), `"first"`) && a.CacheStatus().Hit
		})
		if a := caddytest.PageAt(c, scripted.ToolsList, cursors[0]); a.Status != refusedStatus(c) || string(a.Part("error", "code")) != "-32602" {
			t.Errorf("after what is gone comes %s", a)
		}
	})
}

// TestPagesAfterARestart goes on with a list after Caddy has started again: the secret that
// has sealed the cursor is in Caddy's storage, or in a file.
func TestPagesAfterARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(strings.Repeat("0f", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string][]string{"storage": {"page_size 2", "scope public"}, "file": {"page_size 2", "scope public", "secret_file " + file}} {
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetList(scripted.ToolsList, toolsNamed("a", "b", "c"))
			w.Host.Start()
			w.Proxy = caddytest.StartProxy(t, caddytest.Directive(w.Host.URL, options...))
			for _, revision := range caddytest.Revisions {
				c := w.Client(revision)
				// Until the secret has been read, cursors are of this process alone.
				secrets := filepath.Join(caddytest.Running.Home, "mcp_cache", "secret", "ring")
				fixture.Await(t, "the secret", func() bool { _, err := os.Stat(secrets); return err == nil || name == "file" })
				first := func() (cursor string) {
					c.AwaitList(scripted.ToolsList, "the first page", func(a *fixture.Answer) bool {
						cursor = string(a.Part("result", "nextCursor"))
						return a.CacheStatus().Hit && cursor != ""
					})
					return cursor
				}
				goOn := func() bool {
					next := first()
					caddytest.GoIdle(w.T)
					w.Proxy.Reload(caddytest.Directive(w.Host.URL, options...))
					c = w.Client(revision)
					first()
					a := caddytest.PageAt(c, scripted.ToolsList, next)
					return a.CacheStatus().Hit && strings.Join(a.Items("tools"), "") == toolsNamed("c")[0]
				}
				fixture.Await(t, "a cursor to be of use after a restart", goOn)
			}
		})
	}
}

// TestViewsInPages lists page by page, in pages of the cache's, at servers of all
// kinds: as somebody of whom things are hidden, as an admin, and by the cursors of the
// other.
func TestViewsInPages(t *testing.T) {
	for name, start := range veils() {
		t.Run(name, func(t *testing.T) {
			v := start(t, "deny", "page_size 2")
			var later []func() bool
			for _, revision := range v.revisions {
				c, admin := v.caller(revision, false), v.caller(revision, true)
				for _, method := range scripted.ListMethods() {
					c.hit("a page", method, "", nil)
					admin.hit("a page", method, "", nil)
					all, cursors := c.turn(method)
					c.wantAll("pages", method, all)
					ofAdmin, adminCursors := admin.turn(method)
					admin.wantAll("pages", method, ofAdmin)
					if len(cursors) != 1 || len(adminCursors) < 2 {
						t.Errorf("%s has cursors %q, and an admin %q", method, cursors, adminCursors)
					}
					later = append(later, func() (shown bool) {
						c.ask("a page after a purge as a stream", method, c.Params(`"cursor":`+cursors[0]), streamAlone)
						a := c.ask("a page after a purge", method, c.Params(`"cursor":`+cursors[0]), nil)
						if shown = strings.Contains(string(a.Body), "open-"); !shown && string(a.Part("error", "code")) != "-32602" {
							t.Errorf("%s after a purge is %s", method, a)
						}
						return shown
					})
					for _, cursor := range adminCursors {
						c.ask("a page of an admin's", method, c.Params(`"cursor":`+cursor), nil)
						c.ask("a page of an admin's as a stream", method, c.Params(`"cursor":`+cursor), ratherStreams)
					}
				}
			}
			// Nothing is in memory for these callers any more: the server is asked, but that of
			// some cuts its lists itself.
			if status, body := caddytest.AskAdmin(t, http.MethodPost, "/mcp_cache/mcp_cache/purge", nil); status != http.StatusNoContent {
				t.Fatalf("purging gave %d, %s", status, body)
			}
			shown := 0
			for _, ask := range later {
				if ask() {
					shown++
				}
			}
			if shown == 0 {
				t.Error("after a purge no page is shown")
			}
			t.Logf("%d exchanges; after a purge %d of %d pages are shown", v.exchanges, shown, len(later))
		})
	}
}

// turn lists page by page, and returns all that, and the cursors.
func (c *caller) turn(method string) (all []byte, cursors []string) {
	c.v.t.Helper()
	a := c.ask("a page", method, c.Params(""), nil)
	for {
		all = append(all, a.Body...)
		next := nextCursor.FindSubmatch(a.Message())
		if next == nil || len(cursors) > 5 {
			return all, cursors
		}
		cursors = append(cursors, string(next[1]))
		a = c.ask("a page", method, c.Params(`"cursor":`+string(next[1])), nil)
	}
}
