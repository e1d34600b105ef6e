package lists

import (
	"context"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestClientMatrix runs the clients of both SDKs against the servers of both,
// at every revision: everything works, and once the cache is warm, another
// client's lists cost the upstream nothing.
func TestClientMatrix(t *testing.T) {
	for name, start := range fixture.SDKServers() {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			p := caddytest.StartProxy(t, caddytest.Directive(s.URL))
			for _, revision := range s.Revisions {
				for client, connect := range fixture.SDKClients() {
					t.Run(client+" at "+revision, func(t *testing.T) {
						first := connect(t, p.URL, revision)
						s.UseAll(t, first, revision)
						wantFreeLists(t, s, p, func() fixture.SDKClient { return connect(t, p.URL, revision) }, revision)
					})
				}
			}
		})
	}
}

// wantFreeLists waits until the cache is warm, and fails if a new client's
// lists then reach the upstream.
func wantFreeLists(t *testing.T, s *fixture.SDKServer, p *caddytest.Proxy, connect func() fixture.SDKClient, revision string) {
	t.Helper()
	probe := fixture.New(t, p.URL, revision, "")
	for _, method := range scripted.ListMethods() {
		probe.Settle(method)
	}
	if revision >= scripted.Modern {
		probe.Settle("server/discover")
	}
	// What such clients are shown has to be found out with the first of them, and
	// the feeds of other revisions may still be finding out what the server speaks.
	// One client that costs nothing may have come between two of their requests.
	cost := func() (total int) {
		for _, method := range scripted.ListMethods() {
			total += s.Count(method)
		}
		return total
	}
	free := 0
	fixture.Await(t, "two clients in a row whose lists cost nothing", func() bool {
		before := cost()
		_, err := connect().List(t.Context())
		if free++; err != nil || cost() != before {
			free = 0
		}
		return free == 2
	})
	methods := scripted.ListMethods()
	if revision >= scripted.Modern {
		methods = append(methods, "server/discover")
	}
	before := make(map[string]int)
	for _, method := range methods {
		before[method] = s.CountClients(method)
	}
	counts, err := connect().List(t.Context())
	if err != nil || counts != fixture.BaseCounts {
		t.Errorf("cached lists have %v items, %v; want %v", counts, err, fixture.BaseCounts)
	}
	for _, method := range methods {
		if n := s.CountClients(method) - before[method]; n != 0 {
			t.Errorf("the next client's %s reached the upstream %d times", method, n)
		}
	}
}

// TestSDKClientsSeeChanges lets a server grow a tool: every client is told, and
// whoever then lists finds it.
func TestSDKClientsSeeChanges(t *testing.T) {
	for name, start := range fixture.SDKServers() {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			p := caddytest.StartProxy(t, caddytest.Directive(s.URL))
			revision := s.Revisions[0]
			probe := fixture.New(t, p.URL, revision, "")
			probe.Settle(scripted.ToolsList)
			client := fixture.NewGoSDKClient(t, p.URL, revision)
			notices := probe.Notices()
			s.Grow()
			notices.Await("notifications/tools/list_changed")
			if n := walk(probe, scripted.ToolsList, "tools"); n != fixture.BaseCounts[0]+1 {
				t.Errorf("after the notice the list has %d tools, want %d", n, fixture.BaseCounts[0]+1)
			}
			fixture.Await(t, "the SDK client's notice", func() bool {
				select {
				case <-client.Changed():
					return true
				default:
					return false
				}
			})
			counts, err := client.List(t.Context())
			if err != nil || counts[0] != fixture.BaseCounts[0]+1 {
				t.Errorf("the told client lists %d tools, %v", counts[0], err)
			}
		})
	}
}

// walk returns how many items a list has, on all pages that it comes in.
func walk(c *fixture.Raw, method, key string) int {
	a, n := c.List(method), 0
	for range 10 {
		n += len(a.Items(key))
		cursor := a.Part("result", "nextCursor")
		if cursor == nil {
			break
		}
		a = c.Call(method, c.Params(`"cursor":`+string(cursor)))
	}
	return n
}

// TestCancellation cancels a call in the way of each era: by a notification, or
// by going away.
func TestCancellation(t *testing.T) {
	for name, stateless := range map[string]bool{scripted.LatestLegacy: false, scripted.Modern: true} {
		t.Run(name, func(t *testing.T) {
			s := fixture.NewGoSDKServer(t, stateless)
			c := fixture.NewGoSDKClient(t, caddytest.StartProxy(t, caddytest.Directive(s.URL)).URL, name)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error, 1)
			go func() { failed <- c.Wait(ctx) }()
			fixture.Await(t, "the call", func() bool { return len(s.Waiting) > 0 })
			cancel()
			if err := <-failed; err == nil {
				t.Error("the cancelled call succeeded")
			}
			fixture.Await(t, "the cancellation", func() bool { return len(s.Cancelled) > 0 })
		})
	}
}
