package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// pageAt asks for a page of a list by its cursor, as a raw JSON string, or the first.
func pageAt(c *fixture.Raw, method, cursor string) *fixture.Answer {
	members := ""
	if cursor != "" {
		members = `"cursor":` + cursor
	}
	return c.Call(method, c.Params(members))
}

// pagesOf lists page by page, and returns the names of the items on each.
func pagesOf(t testing.TB, c *fixture.Raw, method string) (pages []string, cursors []string) {
	t.Helper()
	for cursor := ""; ; {
		a := pageAt(c, method, cursor)
		if a.Part("result") == nil || len(pages) > 10 {
			t.Fatalf("page %d gave %s", len(pages), a)
		}
		pages = append(pages, namesOn(a, method))
		if cursor = string(a.Part("result", "nextCursor")); cursor == "" {
			return pages, cursors
		}
		cursors = append(cursors, cursor)
	}
}

// namesOn returns the names of the items on a page.
func namesOn(a *fixture.Answer, method string) string {
	var names []string
	for _, item := range a.Items(scripted.ItemsKey(method)) {
		names = append(names, nameIn(item))
	}
	return strings.Join(names, " ")
}

func nameIn(item string) string {
	_, rest, _ := strings.Cut(item, `"name":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// TestPages lists page by page, with and without what is hidden, while the list
// changes in between.
func TestPages(t *testing.T) {
	w := newHiding(t, "page_size 2", "refresh 1ms")
	eachEra(t, func(t *testing.T, revision string) {
		w := w.on(t)
		w.SetList(scripted.ToolsList, toolsNamed("a", "b", "hidden", "c", "d", "e"))
		w.Changed(scripted.Feeds, scripted.ToolsList)
		c, admin := w.client(revision), w.client(revision)
		admin.Header.Set("X-Role", "admin")
		hit := func(a *fixture.Answer) bool { return a.CacheStatus().Hit && strings.Contains(string(a.Body), `"b"`) }
		c.AwaitList(scripted.ToolsList, "a hit", hit)
		admin.AwaitList(scripted.ToolsList, "a hit", hit)
		pages, cursors := pagesOf(t, c, scripted.ToolsList)
		if got := strings.Join(pages, "|"); got != "a b|c d|e" {
			t.Fatalf("the pages are %s", got)
		}
		if again, same := pagesOf(t, c, scripted.ToolsList); fmt.Sprint(again, same) != fmt.Sprint(pages, cursors) {
			t.Errorf("listed again, the pages are %v by %v", again, same)
		}
		all, adminCursors := pagesOf(t, admin, scripted.ToolsList)
		if got := strings.Join(all, "|"); got != "a b|hidden c|d e" {
			t.Errorf("an admin's pages are %s", got)
		}
		// Of somebody else, of another list, or changed, a cursor is the upstream's.
		for what, a := range map[string]*fixture.Answer{
			"an admin's":       pageAt(c, scripted.ToolsList, adminCursors[0]),
			"for another list": pageAt(c, scripted.PromptsList, cursors[0]),
			"a changed one":    pageAt(c, scripted.ToolsList, strings.Replace(cursors[0], "A", "B", 1)),
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
			a := pageAt(c, scripted.ToolsList, cursors[0])
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
		if a := pageAt(c, scripted.ToolsList, cursors[0]); a.Status != refusedStatus(c) || string(a.Part("error", "code")) != "-32602" {
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
			w := newUpstream(t)
			w.SetList(scripted.ToolsList, toolsNamed("a", "b", "c"))
			w.host.Start()
			w.proxy = startProxy(t, mcpCache(w.host.URL, options...))
			for _, revision := range revisions {
				c := w.client(revision)
				// Until the secret has been read, cursors are of this process alone.
				secrets := filepath.Join(running.home, "mcp_cache", "secret", "ring")
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
					goIdle(w.t)
					w.proxy.reload(mcpCache(w.host.URL, options...))
					c = w.client(revision)
					first()
					a := pageAt(c, scripted.ToolsList, next)
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
			if status, body := askAdmin(t, http.MethodPost, "/mcp_cache/mcp_cache/purge", nil); status != http.StatusNoContent {
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
