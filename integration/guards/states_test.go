package guards

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestGuardStates lets the upstream refuse the feed's account and take it back:
// the admin API says so, and clients notice nothing.
func TestGuardStates(t *testing.T) {
	for _, name := range []string{"bearer file", "oauth2 basic", "oauth2 discovery", "exchange", "jwt"} {
		t.Run(name, func(t *testing.T) {
			s := guardedSetups[name](t)
			p := newProtected(t, "mcp-go", s.issuer, s.verify, time.Hour)
			site := startGuarded(t, p, s.auth, s.guard)
			caddytest.AwaitState(t, "ready")
			clients := []*fixture.Raw{site.warm(scripted.Modern), site.warm(scripted.LatestLegacy)}
			lists := func(when string) {
				t.Helper()
				for _, c := range clients {
					if a := c.List(scripted.ToolsList); !isWhole(a) || !a.CacheStatus().Hit {
						t.Errorf("%s, a list gave %s", when, a)
					}
					if a := c.Call("tools/call", c.Params(`"name":"tool-0"`)); a.Part("result", "content") == nil {
						t.Errorf("%s, a call gave %s", when, a)
					}
				}
			}
			p.refuseFeed()
			caddytest.AwaitFeeds(t, fixture.Deadline, "a refusal", func(f caddytest.FeedReport) bool {
				return f.State == "needs_authorization" &&
					(strings.Contains(f.Failure.Message, "refused") || strings.Contains(f.Failure.Message, "401"))
			})
			lists("while the feed is refused")
			p.setDoor(nil)
			if s.correct != nil {
				s.correct(t, site)
			}
			caddytest.AwaitState(t, "ready")
			lists("after that")
			p.wantOwnAccounts(t)
		})
	}
}

// TestBearerFileRotates replaces a projected token a while before and after
// the upstream stops to take the old one.
func TestBearerFileRotates(t *testing.T) {
	auth := authtest.New(t)
	p := newProtected(t, "go-sdk", "", auth.Verify, 300*time.Millisecond)
	old := auth.Issue(feedAccount, listScope)
	file := newTokenFile(t, old)
	site := startGuarded(t, p, auth, block("bearer", "file "+file.path))
	site.warm(scripted.Modern)
	refusing := func(refused string) func(string, authtest.Identity) error {
		return func(raw string, _ authtest.Identity) error {
			if raw == refused {
				return authtest.ErrInvalid
			}
			return nil
		}
	}
	refusals := func() int { return p.visits(func(v visit) bool { return v.feed && v.fate != "in" }) }
	before := refusals()
	for range caddytest.Pick(2, 20) {
		fresh := auth.Issue(feedAccount, listScope)
		file.rotate(fresh)
		fixture.Await(t, "the new token", func() bool { return p.presented(fresh) })
		p.setDoor(refusing(old))
		caddytest.AwaitState(t, "ready")
		old = fresh
	}
	if n := refusals() - before; n != 0 {
		t.Errorf("%d requests of the feed were refused, though the file was replaced in time", n)
	}
	fresh := auth.Issue(feedAccount, listScope)
	p.setDoor(refusing(old))
	caddytest.AwaitState(t, "needs_authorization")
	file.rotate(fresh)
	caddytest.AwaitState(t, "ready")
}

// TestInsufficientScope gives the feed's account too little: there is a state,
// and no storm of retries, whatever clients do.
func TestInsufficientScope(t *testing.T) {
	s := setupSecret(t, "basic")
	guard := strings.Replace(s.guard, "scope "+listScope, "scope other", 1)
	p := newProtected(t, "go-sdk", s.issuer, s.verify, time.Hour)
	site := startGuarded(t, p, s.auth, guard)
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer cancel()
	var failed sync.Once
	for range 4 {
		c := site.client(scripted.Modern)
		load.Go(func() {
			for ctx.Err() == nil {
				if a, err := c.TryList(ctx, scripted.ToolsList); ctx.Err() == nil && (err != nil || !isWhole(a)) {
					failed.Do(func() { t.Errorf("a client's list gave %s, %v", a, err) })
				}
				// What the upstream answers to clients says nothing about the feed.
				a, err := c.Try(ctx, http.MethodPost, fixture.Message(c.NextID(), "tools/call", c.Params(`"name":"tool-0"`)),
					http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"tool-0"}})
				if ctx.Err() == nil && (err != nil || a.Part("result", "content") == nil) {
					failed.Do(func() { t.Errorf("a client's call gave %s, %v", a, err) })
				}
			}
		})
	}
	fixture.Await(t, "the state", func() bool { return caddytest.AllIn(caddytest.Feeds(t), "needs_authorization") })
	for _, f := range caddytest.Feeds(t) {
		if !strings.Contains(f.Failure.Message, "403") {
			t.Errorf("the failure is %q", f.Failure.Message)
		}
	}
	tries := func() int { return p.visits(func(v visit) bool { return v.feed }) }
	begun, before := time.Now(), tries()
	pass(t, time.Duration(caddytest.Pick(6, 60))*time.Second)
	took := time.Since(begun)
	n, most := tries()-before, len(caddytest.Feeds(t))*(mostTries(took)+1)
	if n > most {
		t.Errorf("%d tries of the feeds in %v, more than their backoff allows: %d", n, took, most)
	}
	t.Logf("%d tries of %d feeds in %v under load, of %d that their backoff allows", n, len(caddytest.Feeds(t)), took, most)
	if n := len(s.auth.Requests()); n != 1 {
		t.Errorf("%d token requests for one scope that is missing", n)
	}
}

// mostTries is how often a feed may try in a time: its backoff begins at a
// quarter of a second and doubles up to 30 seconds, each time less a half at
// most.
func mostTries(in time.Duration) (n int) {
	for delay := 125 * time.Millisecond; in >= 0; delay = min(2*delay, 15*time.Second) {
		in -= delay
		n++
	}
	return n
}
