package operate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// outcomeOf reads the outcome off an answer.
func outcomeOf(a *fixture.Answer) string {
	switch s := a.CacheStatus(); {
	case s.Hit && s.Detail == "stale":
		return "stale"
	case s.Hit:
		return "hit"
	case s.Forward == "uri-miss":
		return "miss"
	}
	return "bypass"
}

// randomRequest sends one of many requests, most of which are well-formed.
func randomRequest(ctx context.Context, c *fixture.Raw) (*fixture.Answer, error) {
	send := func(httpMethod, method, members string) (*fixture.Answer, error) {
		body := ""
		if httpMethod == http.MethodPost {
			body = fixture.Message(c.NextID(), method, c.Params(members))
		}
		header := http.Header{}
		if c.Modern() {
			header.Set("Mcp-Method", method)
		}
		return c.Try(ctx, httpMethod, body, header)
	}
	lists := scripted.ListMethods()
	switch n := rand.IntN(20); n {
	case 0:
		return send(http.MethodPost, "tools/call", `"name":"item-0000"`)
	case 1:
		return send(http.MethodPost, "no/such-"+fmt.Sprint(rand.IntN(100)), "")
	case 2:
		return send(http.MethodPost, lists[rand.IntN(len(lists))], `"cursor":"bad"`)
	case 3:
		return send(http.MethodPost, lists[rand.IntN(len(lists))], `"filter":"`+strings.Repeat("x", rand.IntN(3000))+`"`)
	case 4:
		return send(http.MethodPut, "", "")
	case 5:
		return c.Try(ctx, http.MethodPost, "[{]", nil)
	case 6:
		return c.Try(ctx, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`, nil)
	case 7:
		return send(http.MethodPost, "server/discover", "")
	case 8:
		return send(http.MethodPost, "ping", "")
	}
	return send(http.MethodPost, lists[rand.IntN(len(lists))], "")
}

// TestCountsEqualRequestsSent sends random requests under reloads, some of
// which are rejected: each request is counted once, for what became of it.
func TestCountsEqualRequestsSent(t *testing.T) {
	w := caddytest.NewWorld(t, "max_request 2KiB")
	for _, revision := range caddytest.Revisions {
		w.Warm(revision)
	}
	const clients = 4
	requests, reloads := caddytest.Pick(1000, 10_000), caddytest.Pick(8, 20)
	raws := make([]*fixture.Raw, clients)
	for i := range raws {
		raws[i] = w.Client(caddytest.Revisions[i%len(caddytest.Revisions)])
		raws[i].Header.Set("Connection", "close")
	}
	before := settledCounts(t)
	var mu sync.Mutex
	sent := make(map[string]int)
	var wg sync.WaitGroup
	for _, c := range raws {
		wg.Go(func() {
			for n := 0; n < requests/clients; {
				a, err := randomRequest(t.Context(), c)
				if fixture.Cut(err) {
					continue // a reload has closed the connection; no handler has seen the request
				}
				if err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
				n++
				mu.Lock()
				sent[outcomeOf(a)]++
				mu.Unlock()
			}
		})
	}
	rejected := rejectedConfigurations(w.Host.URL)
	for i := range reloads {
		if i%3 == 2 {
			if w.Proxy.TryReload(rejected[i/3%len(rejected)]) == nil {
				t.Error("a wrong configuration was accepted")
			}
			continue
		}
		w.Proxy.Reload(caddytest.Directive(w.Host.URL, "max_request 2KiB", fmt.Sprintf("refresh %ds", i+1)))
	}
	wg.Wait()
	for outcome, n := range before {
		sent[outcome] += n
	}
	// A request is counted when its handler returns, a moment after its answer.
	var got map[string]int
	fixture.Await(t, "all requests to be counted", func() bool {
		got = caddytest.OutcomeCounts(t)
		return total(got) >= total(sent)
	})
	if fmt.Sprint(got) != fmt.Sprint(sent) {
		t.Errorf("counted %v, sent %v", got, sent)
	}
	if sent["hit"] == 0 || sent["bypass"] == 0 {
		t.Errorf("the requests were not of all kinds: %v", sent)
	}
	wantNoSeries(t, "rejected")
	t.Logf("%d requests, %v", total(sent), sent)
}

// settledCounts returns the counts once nothing is in flight: clients that have
// their answers may be counted a moment later.
func settledCounts(t testing.TB) map[string]int {
	t.Helper()
	counts := caddytest.OutcomeCounts(t)
	calm := 0
	fixture.Await(t, "the counts to settle", func() bool {
		now := caddytest.OutcomeCounts(t)
		if fmt.Sprint(now) == fmt.Sprint(counts) {
			calm++
		} else {
			counts, calm = now, 0
		}
		return calm >= 10
	})
	return counts
}

func total(counts map[string]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// wantNoSeries fails if a handler that is not there has series.
func wantNoSeries(t testing.TB, handler string) {
	t.Helper()
	for name, value := range caddytest.Scrape(t) {
		if strings.Contains(name, fmt.Sprintf("handler=%q", handler)) {
			t.Errorf("%s is %v although there is no such handler", name, value)
		}
	}
}

// TestMetricsFollowTheHandlers renames, adds and removes handlers: each has its
// series as long as it is there.
func TestMetricsFollowTheHandlers(t *testing.T) {
	w := caddytest.NewWorld(t, "name one")
	for _, revision := range caddytest.Revisions {
		w.Warm(revision)
	}
	caddytest.AwaitReady(t, "one")
	s := caddytest.Scrape(t)
	for name, want := range map[string]float64{
		`items{handler="one",kind="tools"}`:   3,
		`feed_up{era="legacy",handler="one"}`: 1,
		`feed_up{era="modern",handler="one"}`: 1,
	} {
		if s[name] != want {
			t.Errorf("%s is %v, want %v", name, s[name], want)
		}
	}
	w.Changed(scripted.Feeds, scripted.ToolsList)
	fixture.Await(t, "the change to be counted", func() bool {
		return caddytest.Scrape(t)[`changes_total{handler="one",kind="tools",source="feed"}`] >= 1
	})
	fixture.Await(t, "the refresh to be counted", func() bool {
		return caddytest.Scrape(t)[`refreshes_total{handler="one",kind="tools",result="unchanged"}`] >= 1
	})
	w.Proxy.Reload("handle /a/* {\n" + caddytest.Directive(w.Host.URL, "name one") + "\n}\nhandle {\n" + caddytest.Directive(w.Host.URL, "name two") + "\n}")
	if s := caddytest.Scrape(t); s[`items{handler="one",kind="tools"}`] != 3 || s[`items{handler="two",kind="tools"}`] != 3 {
		t.Error("two handlers of one upstream do not both have its items")
	}
	w.Proxy.Reload(caddytest.Directive(w.Host.URL, "name two"))
	wantNoSeries(t, "one")
	w.Proxy.Reload("respond gone 410")
	wantNoSeries(t, "two")
	refetched := caddytest.NewWorld(t, "name one")
	refetched.Warm(scripted.Modern)
	if n := caddytest.Metric(t, `items{handler="one",kind="tools"}`); n != 3 {
		t.Errorf("a handler that came back has %v items", n)
	}
}
