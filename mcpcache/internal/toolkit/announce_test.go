package toolkit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/notices"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// listens opens the stream on which a client is told of changes of tools, prompts and resources.
func (c *caller) listens() (a *received, leave func()) {
	return c.begin(c.listening("toolsListChanged", "promptsListChanged", "resourcesListChanged"))
}

// heard returns the changes that a client was told of so far.
func (a *received) heard() (changes []string) {
	for _, method := range a.announced() {
		if name, of := strings.CutSuffix(strings.TrimPrefix(method, "notifications/"), "/list_changed"); of {
			changes = append(changes, name)
		}
	}
	return changes
}

// wantHeard checks which changes a client was told of so far.
func (a *received) wantHeard(w *world, when string, want ...string) {
	w.Helper()
	if got := a.heard(); !slices.Equal(got, want) {
		w.Errorf("%s a client was told of %q, want %q", when, got, want)
	}
}

// Clients of both eras are told once of a change that a server announces, whatever era it speaks. They are told once
// the new list is there, which is the one that they are given next.
func TestChangesAreAnnounced(t *testing.T) {
	for name, speaks := range both {
		t.Run(name, func(t *testing.T) {
			one := serves("one", speaks)
			run(t, func(w *world) {
				w.eachEra(func(c *caller) {
					a, leave := c.listens()
					defer leave()
					a.wantHeard(w, "at first")
					w.changes(one, revision.Tools, "new_at_"+c.at.Era().String())
					a.wantHeard(w, "after a change", "tools")
					c.list(revision.Tools).wantNames(w, revision.Tools, "one__new_at_"+c.at.Era().String(), "two__tools_a", "two__tools_b")
					w.changes(one, revision.ResourceTemplates, "one://"+c.at.String()+"/{x}")
					a.wantHeard(w, "after a change of templates", "tools", "resources")
					one.Notify(revision.ChangeOf(revision.Tools)) // and nothing has changed
					w.after(time.Minute)
					a.wantHeard(w, "after a notice of no change", "tools", "resources")
				})
			}, one, serves("two"))
		})
	}
}

// Clients are not told of a change before the new list is there, and then at once.
func TestChangesAreAnnouncedWithTheirLists(t *testing.T) {
	one := serves("one", modern)
	run(t, func(w *world) {
		c := w.calls(modern)
		a, leave := c.listens()
		defer leave()
		answer := one.holdsBack("tools/list")
		w.changes(one, revision.Tools, "new")
		a.wantHeard(w, "before the list is there")
		answer()
		a.wantHeard(w, "once it is there", "tools")
		c.list(revision.Tools).wantNames(w, revision.Tools, "one__new")
	}, one)
}

// Clients are told of each change that is announced, however soon it comes after another one. A list that changes
// each time that it is fetched, and of which nobody says so, is announced once in a pause.
func TestChangesInARow(t *testing.T) {
	one := serves("one", modern)
	run(t, func(w *world) {
		a, leave := w.calls(modern).listens()
		defer leave()
		for range 5 {
			w.changes(one, revision.Tools, fmt.Sprintf("new_%d", len(a.heard())))
		}
		a.wantHeard(w, "after five changes", "tools", "tools", "tools", "tools", "tools")
		one.On("tools/list", func(w http.ResponseWriter, _ *http.Request, c clienttest.Call) error {
			name := fmt.Sprintf("fetched_%d", one.Count("tools/list"))
			return clienttest.Result(w, c, fmt.Sprintf(`{"tools":[{"name":%q}],"ttlMs":1000,"cacheScope":"public"}`, name))
		})
		one.Notify(revision.ChangeOf(revision.Tools))
		w.after(time.Second)
		before, began := len(a.heard()), one.Count("tools/list")
		w.after(2 * notices.Pause)
		if told, fetched := len(a.heard())-before, one.Count("tools/list")-began; told > 3 || fetched < 5 {
			t.Errorf("a list that was fetched %d times was announced %d times in two pauses", fetched, told)
		}
	}, one)
}

// A change that a server does not announce is found by the feeds, and clients are told of it.
func TestChangesThatNobodyAnnounces(t *testing.T) {
	one := serves("one", modern)
	one.Hints, one.Quiet = `"ttlMs":60000,"cacheScope":"public"`, true
	run(t, func(w *world) {
		a, leave := w.calls(modern).listens()
		defer leave()
		one.Set(revision.Tools, "new")
		w.after(2 * time.Minute)
		a.wantHeard(w, "after the list has expired", "tools")
	}, one)
}

// Clients are told when a server is there, or is not, all of a sudden: its items come and go.
func TestServersComeAndGo(t *testing.T) {
	one := serves("one", modern)
	one.OnAll(clienttest.Refuse)
	two := serves("two", modern)
	two.settings.Stale.IfError = time.Minute
	two.Hints = `"ttlMs":60000,"cacheScope":"public"`
	run(t, func(w *world) {
		w.after(w.Settings.Gate)
		c := w.calls(modern)
		a, leave := c.listens()
		defer leave()
		one.OnAll(nil)
		w.after(time.Minute)
		kindsHeard := func(from int) []string { return slices.Compact(slices.Sorted(slices.Values(a.heard()[from:]))) }
		if got := kindsHeard(0); !slices.Equal(got, []string{"prompts", "resources", "tools"}) {
			t.Errorf("when a server has come, a client was told of %q", got)
		}
		before := len(a.heard())
		w.fails(two, clienttest.Refuse)
		two.Cut()
		w.after(10 * time.Minute)
		if got := kindsHeard(before); !slices.Equal(got, []string{"prompts", "resources", "tools"}) {
			t.Errorf("when a server's lists are too old, a client was told of %q", got)
		}
		c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b")
	}, one, two)
}

// A client that is given a list without a server's part, as it may know of a change that the part lacks, is told once
// the part is there again.
func TestWithheldPartsAreAnnounced(t *testing.T) {
	for name, personal := range map[string]bool{"of everybody": false, "of a caller": true} {
		t.Run(name, func(t *testing.T) {
			one := serves("one", modern)
			if personal {
				one.personal()
			}
			run(t, func(w *world) {
				c := w.calls(modern, "Authorization", "Bearer ada")
				c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b", "two__tools_a", "two__tools_b")
				a, leave := c.listens()
				defer leave()
				answers := one.Script("tools/list")
				one.On("tools/list", clienttest.Hang)
				one.of.Cache.BumpTold(revision.SetOf(revision.Tools)) // as by a notice that clients of another instance have heard
				w.after(time.Second)
				before := len(a.heard())
				list := c.list(revision.Tools)
				if list.wantNames(w, revision.Tools, "two__tools_a", "two__tools_b"); !strings.HasSuffix(list.status(), "detail=partial") {
					t.Errorf("the list says %s", list)
				}
				one.On("tools/list", answers)
				w.after(5 * time.Minute)
				c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b", "two__tools_a", "two__tools_b")
				w.after(time.Second)
				if got := a.heard()[before:]; !slices.Contains(got, "tools") {
					t.Errorf("once the part was there again, a client was told of %q", got)
				}
			}, one, serves("two"))
		})
	}
}

// Clients are told soon of a change that is announced by a server which shows callers lists of their own. The endpoint
// cannot know whose lists have changed, and asks for each when its caller lists.
func TestChangesOfCallersLists(t *testing.T) {
	one := private("one", modern)
	run(t, func(w *world) {
		c := w.calls(modern, "Authorization", "Bearer ada")
		c.list(revision.Tools)
		a, leave := c.listens()
		defer leave()
		for n, want := range [][]string{{"tools"}, {"tools", "tools"}} {
			one.Notify(revision.ChangeOf(revision.Tools))
			w.after(reconcileEvery)
			a.wantHeard(w, "soon", want...)
			if asked := one.listsOf("ada"); asked != n+1 {
				t.Errorf("before the caller lists, the server was asked %d times", asked)
			}
			c.list(revision.Tools)
			if asked := one.listsOf("ada"); asked != n+2 {
				t.Errorf("after the caller has listed, the server was asked %d times", asked)
			}
			w.after(time.Minute)
			a.wantHeard(w, "later", want...)
		}
	}, one)
}

// Streams of clients go on when another configuration takes over: clients are told of its changes.
func TestStreamsOutliveConfigurations(t *testing.T) {
	one := serves("one", modern)
	run(t, func(w *world) {
		c := w.calls(modern)
		a, leave := c.listens()
		defer leave()
		before := w.Endpoint
		next, err := New(before.Settings, []*Server{one.of}, w.observed, before.Logger)
		if err != nil {
			t.Fatal(err)
		}
		w.Endpoint = next
		w.begin()
		before.Close()
		w.after(time.Second)
		a.wantHeard(w, "after a reload that changes nothing")
		w.changes(one, revision.Tools, "new")
		if a.wantHeard(w, "after a change", "tools"); a.isOver() {
			t.Error("the stream has ended")
		}
	}, one)
}
