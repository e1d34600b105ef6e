package several

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestBridgeSessions: a user's calls of a legacy server are in one session, whatever ids they
// have, another user's in another; one who is not known has a session for each call.
func TestBridgeSessions(t *testing.T) {
	w, p := over(t, legacyRevisions)
	var mu sync.Mutex
	ids := make(map[string]bool)
	waiting := make(chan struct{}, 8)
	release := make(chan struct{})
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		mu.Lock()
		if ids[string(x.ID)] {
			t.Errorf("two requests have the id %s", x.ID)
		}
		ids[string(x.ID)] = true
		mu.Unlock()
		waiting <- struct{}{}
		<-release
		x.Result(fmt.Sprintf(`{"content":[],"echo":%s}`, x.Params))
	})
	ada, bob := modernUser(t, p, "ada"), modernUser(t, p, "bob")
	call := func(c *fixture.Raw, mark string) {
		message := fixture.Message("1", "tools/call", c.Params(fmt.Sprintf(`"name":"one__item-0000","arguments":{"mark":%q}`, mark)))
		a, err := c.Try(t.Context(), http.MethodPost, message, http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"one__item-0000"}})
		if err != nil || a.Status != http.StatusOK || !strings.Contains(string(a.Part("result", "echo")), mark) || string(a.Part("id")) != "1" {
			t.Errorf("the call %s gave %v, %v", mark, a, err)
		}
	}
	var calling sync.WaitGroup
	for n := range 8 {
		calling.Go(func() { call([]*fixture.Raw{ada, bob}[n%2], fmt.Sprintf("mark-%d", n)) })
	}
	for range 8 {
		<-waiting
	}
	close(release)
	calling.Wait()
	bySession := make(map[string]int)
	for _, id := range sessionsOf(w, "tools/call") {
		bySession[id]++
	}
	if len(bySession) != 2 {
		t.Errorf("eight calls of two users were in the sessions %v", bySession)
	}
}

// TestBridgeOfStrangers: callers who are not known share no session: each call has one, which
// ends with it. A server without sessions is opened once.
func TestBridgeOfStrangers(t *testing.T) {
	one, first := caddytest.NewMember(t, "one")
	two, second := caddytest.NewMember(t, "two")
	one.SetRevisions(legacyRevisions...)
	two.SetRevisions(legacyRevisions...)
	two.SetSessions(false)
	p := caddytest.StartProxy(t, caddytest.ToolkitOf([]caddytest.Member{first, second}))
	c := fixture.NewModern(t, p.URL, "")
	caddytest.HasListed(t, c, scripted.ToolsList, 4)
	caddytest.AwaitReady(t, "mcp_cache/two")
	opened := two.Host.CountFeed("initialize")
	const calls = 20
	var calling sync.WaitGroup
	for n := range calls {
		for _, server := range []string{"one", "two"} {
			calling.Go(func() {
				message := fixture.Message(fmt.Sprint(n), "tools/call", c.Params(`"name":"`+server+`__item-0000"`))
				a, err := c.Try(t.Context(), http.MethodPost, message, http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {server + "__item-0000"}})
				if err != nil || a.Status != http.StatusOK || a.ErrorCode() != 0 {
					t.Errorf("a call of %s gave %v, %v", server, a, err)
				}
			})
		}
	}
	calling.Wait()
	seen := make(map[string]bool)
	for _, id := range sessionsOf(one, "tools/call") {
		if id == "" || seen[id] {
			t.Errorf("the session %q was used twice", id)
		}
		seen[id] = true
	}
	for id := range seen {
		fixture.Await(t, "the session to end", func() bool { return !one.Lives(id) })
	}
	if n := two.Host.CountFeed("initialize") - opened; n != 1 {
		t.Errorf("a server without sessions was opened %d times", n)
	}
}

// TestBridgeLost: a legacy server that has lost its sessions is given another for a modern
// caller, once, and each call is made once; with session_lost end the caller is told.
func TestBridgeLost(t *testing.T) {
	for _, option := range []string{"reopen", "end"} {
		t.Run(option, func(t *testing.T) {
			w, p := over(t, legacyRevisions, "session_lost "+option)
			c := modernUser(t, p, "ada")
			var mu sync.Mutex
			done := make(map[string]int)
			w.SetScript("tools/call", func(x *scripted.Exchange) {
				if !w.Lives(x.Session) {
					x.Error(404, -32001, "session not found")
					return
				}
				mu.Lock()
				done[string(x.Params)]++
				mu.Unlock()
				x.Result(`{"content":[]}`)
			})
			call := func(n int) *fixture.Answer {
				return c.Call("tools/call", c.Params(fmt.Sprintf(`"name":"one__item-0000","arguments":{"n":%d}`, n)))
			}
			call(0)
			w.ForgetSessions()
			if option == "end" {
				if a := call(1); a.Status != http.StatusBadGateway || a.ErrorCode() != -32603 || !strings.Contains(string(a.Body), "lost") {
					t.Errorf("a call in a lost session gave %s: %s", a, a.Body)
				}
				if a := call(2); a.Status != http.StatusOK {
					t.Errorf("the next one gave %s", a)
				}
				return
			}
			var calling sync.WaitGroup
			for n := range 20 {
				calling.Go(func() {
					message := fixture.Message(fmt.Sprint(n), "tools/call", c.Params(fmt.Sprintf(`"name":"one__item-0000","arguments":{"n":%d}`, n+1)))
					a, err := c.Try(t.Context(), http.MethodPost, message, http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"one__item-0000"}})
					if err != nil || a.Status != http.StatusOK || a.ErrorCode() != 0 {
						t.Errorf("call %d gave %v, %v", n, a, err)
					}
				})
			}
			calling.Wait()
			open := make(map[string]bool)
			for _, id := range sessionsOf(w, "tools/call") {
				open[id] = w.Lives(id)
			}
			if len(open) != 2 {
				t.Errorf("calls were in the sessions %v, want the lost one and one more", open)
			}
			mu.Lock()
			defer mu.Unlock()
			for params, times := range done {
				if times != 1 {
					t.Errorf("%s was done %d times", params, times)
				}
			}
			if len(done) != 21 {
				t.Errorf("%d calls were done", len(done))
			}
		})
	}
}

// TestBridgeCancelled: a modern client that goes away has its call cancelled at a legacy server,
// in its session and by the id that the server knows; a legacy client that cancels has its
// request ended at a modern server.
func TestBridgeCancelled(t *testing.T) {
	w, p := over(t, legacyRevisions)
	c := modernUser(t, p, "ada")
	ids := make(chan string, 1)
	release := make(chan struct{})
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		ids <- string(x.ID) + " " + x.Session
		<-release
	})
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	calling.Go(func() {
		_, _ = c.Try(ctx, http.MethodPost, fixture.Message("1", "tools/call", c.Params(`"name":"one__item-0000"`)),
			http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"one__item-0000"}})
	})
	working := <-ids
	cancel()
	calling.Wait()
	fixture.Await(t, "the cancellation", func() bool { return w.Host.Count("notifications/cancelled") == 1 })
	r := w.Host.Requests(func(r *fixture.Request) bool { return r.Method == "notifications/cancelled" })[0]
	var notice struct {
		Params struct{ RequestID json.Number }
	}
	if err := json.Unmarshal(r.Body, &notice); err != nil || notice.Params.RequestID.String()+" "+r.Header.Get("Mcp-Session-Id") != working {
		t.Errorf("%s was cancelled in %s, want %s", r.Body, r.Header.Get("Mcp-Session-Id"), working)
	}
	close(release)
}

// TestBridgeCancelledByNotification: what a legacy client cancels ends at a modern server.
func TestBridgeCancelledByNotification(t *testing.T) {
	w, p := over(t, []string{scripted.Modern})
	c := fixture.NewLegacy(t, p.URL, "2025-11-25", user("ada"))
	caddytest.HasListed(t, c, scripted.ToolsList, 2)
	working, ended := make(chan struct{}), make(chan struct{})
	w.SetScript("tools/call", func(x *scripted.Exchange) {
		close(working)
		<-x.Done()
		close(ended)
	})
	answers := make(chan *fixture.Answer, 1)
	go func() {
		a, _ := c.Try(t.Context(), http.MethodPost, fixture.Message(`"long"`, "tools/call", `{"name":"one__item-0000"}`), nil)
		answers <- a
	}()
	<-working
	c.Notify("notifications/cancelled", `{"requestId":"another"}`)
	c.Notify("notifications/cancelled", `{"requestId":"long"}`)
	<-ended
	if a := <-answers; a == nil || a.Status != http.StatusOK || a.ErrorCode() != -32600 {
		t.Errorf("the call that was cancelled gave %v", a)
	}
}
