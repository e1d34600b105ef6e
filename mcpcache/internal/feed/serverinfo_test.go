package feed

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/variant"
)

// describes returns the result that opens a session, with those instructions.
func describes(r revision.Revision, instructions string) string {
	versions := fmt.Sprintf(`"protocolVersion":%q`, r)
	if r.Era() == revision.Modern {
		versions = fmt.Sprintf(`"supportedVersions":[%q]`, r)
	}
	return `{` + versions + `,"capabilities":{"tools":{"listChanged":true}},"instructions":"` + instructions + `"}`
}

// opening is the method that opens a session.
var opening = map[revision.Revision]string{legacy: "initialize", modern: "server/discover"}

func (w *world) wantServer(f *Feed, want string) {
	w.Helper()
	info := f.Server()
	if info == nil || string(info.Result) != want || info.Revision != f.Status().Revision {
		w.Fatalf("the server says %+v, want %.200s", info, want)
	}
}

// A feed publishes what its server says of itself: from the first session on, what
// the last one brought, and while the server is gone too.
func TestServerIsPublished(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.OnAll(refuse)
			run(t, s, func(w *world) {
				f := w.start(r)
				if f.Server() != nil {
					t.Fatalf("before the first session, the server says %+v", f.Server())
				}
				s.OnAll(nil)
				describe := func(instructions string) {
					s.On(opening[r], func(rw http.ResponseWriter, req *http.Request, c call) error {
						if r == legacy {
							rw.Header().Set("Mcp-Session-Id", instructions)
							s.Do(func() { s.Sessions[instructions] = true })
						}
						return result(rw, c, describes(r, instructions))
					})
				}
				describe("first")
				w.after(time.Minute)
				w.wantState(f, Ready)
				w.wantServer(f, describes(r, "first"))
				before := f.Server()

				// A legacy feed connects anew, a modern one asks again in time.
				describe("second")
				s.Forget()
				w.after(w.policy.TTL)
				w.wantState(f, Ready)
				w.wantServer(f, describes(r, "second"))
				if string(before.Result) != describes(r, "first") {
					t.Error("what was published before has changed")
				}

				s.OnAll(refuse)
				s.Cut()
				w.after(2 * w.policy.TTL)
				w.wantState(f, Down)
				w.wantServer(f, describes(r, "second"))
			})
		})
	}
}

// A result over the bound is not kept; the lists are.
func TestServerOverTheBound(t *testing.T) {
	for era, r := range both {
		for over := range 2 {
			t.Run(fmt.Sprint(era, over), func(t *testing.T) {
				s := newServer(r)
				want := describes(r, strings.Repeat("i", client.MaxServerInfo+over-len(describes(r, ""))))
				s.On(opening[r], gives(want))
				s.On(list, gives(`{"tools":[{"name":"a"}]}`))
				run(t, s, func(w *world) {
					f := w.start(r)
					w.wantState(f, Ready)
					w.wantItems(r, revision.Tools, "a")
					if over == 0 {
						w.wantServer(f, want)
						return
					}
					if info := f.Server(); info == nil || info.Result != nil || info.Size != len(want) || !info.Capabilities["tools"] {
						t.Errorf("the server says %+v", info)
					}
				})
			})
		}
	}
}

// Sessions as other clients say nothing of the server to us.
func TestServerIsOfTheFeedsOwnSession(t *testing.T) {
	s := newServer(legacy)
	run(t, s, func(w *world) {
		f := w.start(legacy)
		before := f.Server()
		if got := w.demand(f, variant.New([32]byte{}).Learn(nthClient(1))); got != "tools_a tools_b" {
			t.Fatalf("got %q", got)
		}
		w.wantCalls("initialize", 2)
		if f.Server() != before {
			t.Error("the session of a variant has changed what the server says")
		}
	})
}
