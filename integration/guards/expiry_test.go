package guards

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// shortLife is how long the feed's tokens live in these tests. A guard uses one
// for 70 % of that at least, so that two token requests within a half are two
// for one expiry, however late they come here.
const (
	shortLife = 3 * time.Second
	tooSoon   = shortLife / 2
)

// stall is how late a timer may be before the machine counts as overloaded: a
// request passes some ten goroutines on its way, and a guard leaves it a tenth
// of the token's life for that.
const stall = 30 * time.Millisecond

// clockwork notes when the machine has stood still.
type clockwork struct {
	mu   sync.Mutex
	last time.Time
	n    int
}

// startClockwork runs until the test ends.
func startClockwork(t testing.TB) *clockwork {
	c := new(clockwork)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		beat := time.NewTimer(time.Hour)
		defer beat.Stop()
		for {
			due := time.Now().Add(10 * time.Millisecond)
			beat.Reset(10 * time.Millisecond)
			select {
			case <-beat.C:
			case <-ctx.Done():
				return
			}
			if time.Since(due) > stall {
				c.mu.Lock()
				c.last, c.n = time.Now(), c.n+1
				c.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	return c
}

// stalled reports whether the machine has stood still within a second.
func (c *clockwork) stalled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.last) < time.Second
}

func (c *clockwork) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// listLoad is what clients of a guarded site list.
type listLoad struct {
	lists, stale, failed atomic.Int64
	first                atomic.Pointer[string]
	stop                 context.CancelFunc
	group                sync.WaitGroup
}

// startListLoad lets clients of both eras list, each up to 25 times a second,
// until they are stopped.
func startListLoad(s *guardedSite, clients int) *listLoad {
	ctx, cancel := context.WithCancel(s.t.Context())
	l := &listLoad{stop: cancel}
	s.t.Cleanup(l.end)
	for i := range clients {
		c := s.client(caddytest.Revisions[i%len(caddytest.Revisions)])
		l.group.Go(func() {
			pace := time.NewTicker(40 * time.Millisecond)
			defer pace.Stop()
			for ctx.Err() == nil {
				a, err := c.TryList(ctx, scripted.ToolsList)
				if ctx.Err() != nil {
					return // its end has cut it short
				}
				l.lists.Add(1)
				if err != nil || !isWhole(a) {
					l.failed.Add(1)
					text := a.String()
					if err != nil {
						text = err.Error()
					}
					l.first.CompareAndSwap(nil, &text)
				} else if caddytest.IsStale(a) {
					l.stale.Add(1)
				}
				<-pace.C
			}
		})
	}
	return l
}

func (l *listLoad) end() {
	l.stop()
	l.group.Wait()
}

// want fails the test if a list failed, or there was none.
func (l *listLoad) want(t testing.TB) {
	t.Helper()
	l.end()
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d of %d lists failed, the first: %s", n, l.lists.Load(), *l.first.Load())
	}
	if l.lists.Load() == 0 {
		t.Error("there was no list")
	}
	t.Logf("%d lists, %d failed, %d stale", l.lists.Load(), l.failed.Load(), l.stale.Load())
}

// startShortLived starts a site whose lists live 300 milliseconds, so that its
// feeds ask all the time, with tokens that live a few seconds.
func startShortLived(t *testing.T, setup func(*testing.T) guardedSetup) (*guardedSite, *authtest.Server) {
	t.Helper()
	s := setup(t)
	p := newProtected(t, "go-sdk", s.issuer, s.verify, 300*time.Millisecond)
	site := &guardedSite{protected: p, t: t, auth: s.auth, user: s.auth.Issue(userAccount, listScope, p.URL)}
	s.auth.SetLife(shortLife)
	site.proxy = caddytest.StartProxy(t, site.config(s.guard))
	for _, revision := range caddytest.Revisions {
		site.warm(revision)
	}
	return site, s.auth
}

// pass waits while a load goes on. Nothing else tells when it is enough.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// TestTokensAreRenewedUnderLoad has tokens that live three seconds, until there
// have been three: no list fails.
func TestTokensAreRenewedUnderLoad(t *testing.T) {
	site, auth := startShortLived(t, setupDiscovery)
	load := startListLoad(site, 8)
	fixture.Await(t, "the third token", func() bool { return len(auth.Requests()) >= 3 })
	load.want(t)
	site.wantOwnAccounts(t)
}

// TestTokensExpireUnderLoad does so for five minutes: no expired token is
// presented, and each token has one successor.
func TestTokensExpireUnderLoad(t *testing.T) {
	if !caddytest.Long() {
		t.Skip("compares with a clock: -long")
	}
	site, auth := startShortLived(t, setupDiscovery)
	clock := startClockwork(t)
	site.setLate(clock.stalled)
	load := startListLoad(site, 8)
	pass(t, 5*time.Minute)
	load.want(t)
	expired := site.visits(func(v visit) bool { return v.fate == "expired" })
	if expired != 0 {
		t.Errorf("%d requests came with an expired token", expired)
	}
	late := site.visits(func(v visit) bool { return v.fate == "expired on its way" })
	requests := auth.Requests()
	least := slices.MinFunc(gaps(requests), func(a, b time.Duration) int { return int(a - b) })
	if least < tooSoon {
		t.Errorf("two token requests are %v apart: more than one for an expiry", least)
	}
	fetches := site.visits(func(v visit) bool { return v.feed && v.fate == "in" })
	refused := site.visits(func(v visit) bool { return v.feed && v.fate == "refused" })
	t.Logf("%d tokens, at least %v apart; %d requests of the feeds, %d refused, %d with an expired token"+
		" (and %d while the machine stood still, which it did %d times)",
		len(requests), least, fetches, refused, expired, late, clock.count())
	site.wantOwnAccounts(t)
}

// gaps are the times between requests, of which there must be three.
func gaps(requests []authtest.Request) (between []time.Duration) {
	for i := 1; i < len(requests); i++ {
		between = append(between, requests[i].At.Sub(requests[i-1].At))
	}
	return between
}

// TestTokenEndpointOutage takes the token endpoint down for a while, in which
// tokens expire: lists go on, and soon after it is back the feeds are right.
func TestTokenEndpointOutage(t *testing.T) {
	site, auth := startShortLived(t, func(t *testing.T) guardedSetup { return setupSecret(t, "post") })
	load := startListLoad(site, 4)
	var mu sync.Mutex
	var tries []time.Time
	auth.Break(authtest.TokenPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		tries = append(tries, time.Now())
		mu.Unlock()
		authtest.Status(http.StatusServiceUnavailable).ServeHTTP(w, r)
	}))
	down := time.Now()
	issued := len(auth.Requests())
	fixture.Await(t, "old copies, and a second try", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return load.stale.Load() > 0 && len(tries) > 1
	})
	if caddytest.Long() {
		pass(t, time.Minute)
	}
	auth.Mend(authtest.TokenPath)
	back := time.Now()
	fixture.AwaitFor(t, 2*time.Minute, "a token", func() bool { return len(auth.Requests()) > issued })
	recovered := auth.Requests()[issued].At
	fixture.AwaitFor(t, time.Minute, "the state ready", func() bool { return caddytest.AllIn(caddytest.Feeds(t), "ready") })
	ready := time.Now()
	load.want(t)
	mu.Lock()
	defer mu.Unlock()
	// The time until the next try doubles, give or take 30 %.
	last := tries[len(tries)-1].Sub(tries[len(tries)-2])
	longest := time.Duration(float64(last) * 2 * 1.3 / 0.7)
	if took := recovered.Sub(tries[len(tries)-1]); caddytest.Long() && took > longest+longest/10 {
		t.Errorf("after a try in vain the next came %v later, more than the backoff of %v", took, longest)
	}
	t.Logf("down for %v with %d tries; a token %v after it was back, all feeds ready %v after",
		back.Sub(down), len(tries), recovered.Sub(back), ready.Sub(back))
}

// TestOneTokenForAllRefused has 200 refreshes, of every kind at four
// revisions, meet a 401 together with what the feeds do anyway: it costs one
// token.
func TestOneTokenForAllRefused(t *testing.T) {
	s := setupSecret(t, "basic")
	p := newProtected(t, "mcp-go", s.issuer, s.verify, time.Hour)
	site := startGuarded(t, p, s.auth, s.guard)
	all := []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}
	for _, revision := range all {
		site.warm(revision)
	}
	caddytest.AwaitState(t, "ready")
	before := s.auth.Requests()
	held := holdRefused(p)
	defer held.release()
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			if status, body := caddytest.AskAdmin(t, http.MethodPost, "/mcp_cache/mcp_cache/refresh", nil); status != http.StatusOK {
				t.Errorf("a refresh gave %d: %s", status, body)
			}
		})
	}
	fixture.Await(t, "the refused requests", func() bool { return held.count() >= 4*len(all) })
	refused := held.count()
	held.release()
	group.Wait()
	if n := len(s.auth.Requests()) - len(before); n != 1 {
		t.Errorf("%d token requests, want one", n)
	}
	if reports := caddytest.Feeds(t); !caddytest.AllIn(reports, "ready") {
		t.Errorf("the feeds are %+v", reports)
	}
	c := site.client(caddytest.Revisions[0])
	if a := c.Settle(scripted.ToolsList); !isWhole(a) {
		t.Errorf("a list gave %s", a)
	}
	t.Logf("200 refreshes, %d requests refused at once, one token request", refused)
}

// heldRefusals are requests with a token that is good no more, which wait for
// each other before they are refused.
type heldRefusals struct {
	n    atomic.Int64
	once sync.Once
	open chan struct{}
}

// holdRefused refuses the tokens that the feed's account has now.
func holdRefused(p *protected) *heldRefusals {
	h := &heldRefusals{open: make(chan struct{})}
	issued := make(map[string]bool)
	for _, r := range p.Requests(func(r *fixture.Request) bool { return r.Feed }) {
		issued[r.Header.Get("Authorization")] = true
	}
	next := p.handler()
	p.setHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !issued[r.Header.Get("Authorization")] {
			next.ServeHTTP(w, r)
			return
		}
		h.n.Add(1)
		<-h.open
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		http.Error(w, "revoked", http.StatusUnauthorized)
	}))
	return h
}

func (h *heldRefusals) count() int { return int(h.n.Load()) }

func (h *heldRefusals) release() { h.once.Do(func() { close(h.open) }) }
