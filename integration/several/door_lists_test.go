package several

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestDoorIsAskedOnceForAList has clients list at a door whose list the cache does not keep, as it is too large or
// never fresh. The cache asks the door once for each request, also when the door lets the client in by that list.
func TestDoorIsAskedOnceForAList(t *testing.T) {
	for name, revisions := range map[string][]string{"legacy": legacyRevisions, "modern": {scripted.Modern}} {
		for _, revision := range []string{scripted.LatestLegacy, scripted.Modern} {
			for _, list := range []struct{ size, ttl int }{{1 << 20, 3_600_000}, {1 << 10, 0}} {
				t.Run(fmt.Sprint(name, ", ", revision, ", ", list.size), func(t *testing.T) {
					p := newDoored(t, revisions, "memory 4MiB")
					p.door.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
						x.Result(fmt.Sprintf(`{"resultType":"complete","ttlMs":%d,"cacheScope":"private","tools":[`+
							`{"name":"one","description":"%s","inputSchema":{"type":"object"}}]}`, list.ttl, strings.Repeat("x", list.size)))
					})
					c := fixture.New(t, p.URL, revision, "Bearer good") // in the legacy era, it is let in here
					for range 3 {
						before := p.door.Host.Count(scripted.ToolsList)
						a := c.List(scripted.ToolsList)
						if !bytes.Contains(a.Part("result", "tools"), []byte("door__one")) {
							t.Fatalf("the list is answered %s", a)
						}
						if n := p.door.Host.Count(scripted.ToolsList) - before; n != 1 {
							t.Errorf("the door was asked %d times for one list", n)
						}
					}
				})
			}
		}
	}
}

// TestDoorsListsAreNotKeptForListeners has clients listen for hours, whom the door lets in by lists that the cache does not keep.
func TestDoorsListsAreNotKeptForListeners(t *testing.T) {
	const size, listeners = 1 << 20, 40
	p := newDoored(t, []string{scripted.Modern}, "memory 4MiB", "precompress off")
	p.door.SetDoor(nil)
	large := strings.Repeat("x", size)
	p.door.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		x.Result(`{"resultType":"complete","ttlMs":3600000,"cacheScope":"private","tools":[` +
			`{"name":"one","description":"` + large + `","inputSchema":{"type":"object"}}]}`)
	})
	listen := func(i int) { fixture.NewModern(t, p.URL, fmt.Sprint("Bearer of listener ", i)).Listen() }
	listen(0) // what all of them need is there
	before := caddytest.Heap()
	for i := range listeners {
		listen(1 + i)
	}
	fixture.Await(t, "the memory of half the lists at least", func() bool { return caddytest.Heap()-before < listeners*size/2 })
}
