package toolkit

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// wantSpoken has a client call a server, and checks in which era the server is called.
func (w *world) wantSpoken(c *caller, m *member, want revision.Revision) {
	w.Helper()
	before := len(m.asked("tools/call"))
	a := c.call(m.of.Name + "__tools_a")
	a.wantOf(w, m.of.Name)
	all := m.asked("tools/call")
	if len(all) != before+1 {
		w.Fatalf("a call reached %s %d times", m.of.Name, len(all)-before)
	}
	if got := all[before].Header.Get("Mcp-Protocol-Version"); got != want.String() {
		w.Errorf("a client of %s has %s called at %q, want %s", c.at, m.of.Name, got, want)
	}
}

// A server is called in the client's era if it speaks that, and else in the other one. At each it is called at the
// newest revision that it speaks, for legacy clients no newer than theirs.
func TestServersAreCalledInTheirEra(t *testing.T) {
	all, old := serves("all"), serves("old", legacy)
	fresh, older := serves("fresh", modern), serves("older", revision.V20250618)
	run(t, func(w *world) {
		for _, tt := range []struct {
			at   revision.Revision
			of   *member
			want revision.Revision
		}{
			{modern, all, modern},
			{legacy, all, legacy},
			{modern, old, legacy},
			{legacy, old, legacy},
			{modern, fresh, modern},
			{legacy, fresh, modern},
			{modern, older, revision.V20250618},
			{legacy, older, revision.V20250618},
		} {
			w.wantSpoken(w.calls(tt.at), tt.of, tt.want)
		}
	}, all, old, fresh, older)
}

// A server that fails in a client's era while all is well in the other one is called in that, and its lists are the
// other era's. It is called in the client's era again once that is well.
func TestServersAreCalledWhereTheyAreWell(t *testing.T) {
	one := serves("one")
	// The lists of the modern era are told by the revision that requests for them name.
	failing := func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
		if r.Header.Get("Mcp-Protocol-Version") == modern.String() {
			return clienttest.Refuse(w, r, c)
		}
		return one.Answer(w, r, c)
	}
	run(t, func(w *world) {
		c := w.calls(modern)
		w.wantSpoken(c, one, modern)
		one.OnAll(failing)
		one.Cut()
		w.after(time.Minute)
		w.wantSpoken(c, one, legacy)
		c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b")
		one.OnAll(nil)
		w.after(10 * time.Minute)
		w.wantSpoken(c, one, modern)
	}, one)
}

// A server that has ceased to speak an era is called in the other one, and the endpoint says no more that it is of
// the first.
func TestServersThatChangeTheirEra(t *testing.T) {
	one := serves("one", modern)
	run(t, func(w *world) {
		c := w.calls(modern)
		w.wantSpoken(c, one, modern)
		one.Do(func() { one.Speaks = []string{legacy.String()} })
		refused := clienttest.Failure(http.StatusBadRequest, -32022, legacy.String())
		for _, method := range []string{"server/discover", "subscriptions/listen"} {
			one.On(method, refused)
		}
		for _, k := range lists {
			one.On(k.Method(), func(w http.ResponseWriter, r *http.Request, c clienttest.Call) error {
				if r.Header.Get("Mcp-Session-Id") == "" {
					return refused(w, r, c)
				}
				return one.Answer(w, r, c)
			})
		}
		one.Cut()
		w.after(10 * time.Minute)
		w.wantSpoken(c, one, legacy)
		c.list(revision.Tools).wantNames(w, revision.Tools, "one__tools_a", "one__tools_b")
	}, one)
}

// A server that is of no use yet after a restart is shown by the lists that were stored, of whichever era they are. They
// are stale, as nobody has heard of changes meanwhile. The first request waits for a store that takes its time.
func TestServersAreShownAsTheyWereStored(t *testing.T) {
	for name, speaks := range both {
		t.Run(name, func(t *testing.T) {
			before := serves("one", speaks)
			run(t, func(w *world) { w.after(time.Minute) }, before) // by its end, the lists are stored
			after := serves("one", speaks)
			after.store = before.store
			after.OnAll(clienttest.Refuse)
			after.store.SetTrouble(func(context.Context, string, string) error {
				time.Sleep(20 * time.Millisecond) // for each of its values
				return nil
			})
			runWith(t, setup{waits: true}, func(w *world) {
				w.Endpoint.Run() // and nobody waits for what that begins
				for _, at := range []revision.Revision{modern, legacy} {
					c := &caller{w: w, at: at}
					if at == legacy {
						c.open()
					}
					a := c.list(revision.Tools)
					if a.wantNames(w, revision.Tools, "one__tools_a", "one__tools_b"); a.status() != "hit; detail=stale" {
						t.Errorf("at %s the list says %s", c.at, a)
					}
				}
			}, after)
		})
	}
}

// The endpoint describes itself to modern clients by one answer, which has the instructions of servers of both eras,
// and to legacy clients when they open a session.
func TestServersAreDescribed(t *testing.T) {
	one, two, none := serves("one", modern), serves("two", legacy), serves("none", modern)
	one.On("server/discover", clienttest.Gives(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"Ask one.","ttlMs":3600000,"cacheScope":"public"}`))
	two.On("initialize", func(w http.ResponseWriter, _ *http.Request, c clienttest.Call) error {
		w.Header().Set("Mcp-Session-Id", "s")
		return clienttest.Result(w, c, `{"protocolVersion":"2025-11-25","capabilities":{"prompts":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"Ask two."}`)
	})
	for _, k := range lists {
		two.On(k.Method(), clienttest.Gives(`{"`+k.ItemsKey()+`":[]}`))
	}
	runWith(t, setup{waits: true}, func(w *world) {
		type described struct {
			SupportedVersions []string                   `json:"supportedVersions"`
			ProtocolVersion   string                     `json:"protocolVersion"`
			Capabilities      map[string]json.RawMessage `json:"capabilities"`
			Instructions      string                     `json:"instructions"`
		}
		read := func(a *received) (d described) {
			t.Helper()
			if err := json.Unmarshal(a.response().Result, &d); err != nil {
				t.Fatalf("%v: %s", err, a)
			}
			return d
		}
		c := &caller{w: w, at: legacy}
		d := read(c.initialize()) // before anything was asked of the servers
		if want := "# one\n\nAsk one.\n\n# two\n\nAsk two."; d.ProtocolVersion != legacy.String() || d.Instructions != want {
			t.Errorf("legacy clients are told %+v, want the instructions %q", d, want)
		}
		for _, capability := range []string{"tools", "prompts", "resources"} {
			if d.Capabilities[capability] == nil {
				t.Errorf("legacy clients are not told of %s", capability)
			}
		}
		a := w.calls(modern).list(revision.Discover)
		if a.status() != "hit" {
			t.Errorf("the description says %s", a)
		}
		d = read(a)
		if want := "# one\n\nAsk one.\n\n# two\n\nAsk two."; d.Instructions != want || !slices.Equal(d.SupportedVersions, []string{modern.String()}) {
			t.Errorf("modern clients are told %+v, want the instructions %q", d, want)
		}
	}, one, two, none)
}
