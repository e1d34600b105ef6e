package lists

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// fault is a way in which an upstream can fail.
type fault struct {
	script scripted.Script
	// status is what a call gives meanwhile, when the fault hits calls too; 0
	// for a connection that breaks.
	status int
	// listsOnly leaves calls alone: the fault is in what a list says.
	listsOnly bool
	// held is set for faults that answer nothing: a call would wait.
	held bool
}

// faultTable is every failure that leaves the host up. What becomes of each is
// the same: lists go on as they were, whole and marked stale when their time is
// over; everything else is what the upstream makes of it; and when the upstream
// is well again, so is the cache.
func faultTable(release <-chan struct{}) map[string]fault {
	return map[string]fault{
		"garbage":            {script: scripted.Garbage, status: http.StatusOK},
		"HTML":               {script: scripted.HTML, status: http.StatusOK},
		"half a body":        {script: scripted.HalfBody},
		"no body":            {script: scripted.CutAfter(0)},
		"broken connection":  {script: func(*scripted.Exchange) { panic(http.ErrAbortHandler) }, status: http.StatusBadGateway},
		"error object":       {script: scripted.ErrorObject, status: http.StatusOK},
		"500":                {script: scripted.Status(500), status: 500},
		"502":                {script: scripted.Status(502), status: 502},
		"503 with a result":  {script: scripted.ResultWith503, listsOnly: true},
		"429":                {script: scripted.TooManyRequests(1), status: 429},
		"404":                {script: scripted.Status(404), listsOnly: true},
		"204":                {script: func(x *scripted.Exchange) { x.W.WriteHeader(204) }, status: 204},
		"202":                {script: func(x *scripted.Exchange) { x.W.WriteHeader(202) }, status: 202},
		"redirect":           {script: redirect, status: http.StatusTemporaryRedirect},
		"wrong id":           {script: scripted.WrongID, listsOnly: true},
		"answer and more":    {script: scripted.AndMore, listsOnly: true},
		"JSON-RPC 1.0":       {script: scripted.OtherVersion, listsOnly: true},
		"endless list":       {script: scripted.Endless, listsOnly: true},
		"cursor cycle":       {script: scripted.CursorCycle, listsOnly: true},
		"oversized list":     {script: scripted.Oversized(64 << 10), listsOnly: true},
		"item without name":  {script: scripted.Nameless, listsOnly: true},
		"items of no list":   {script: result(`{"resultType":"complete","tools":{}}`), listsOnly: true},
		"no items":           {script: result(`{"resultType":"complete"}`), listsOnly: true},
		"null":               {script: result(`null`), listsOnly: true},
		"unknown resultType": {script: result(`{"resultType":"task","tools":[]}`), listsOnly: true},
		"repeated items":     {script: result(`{"resultType":"complete","tools":[],"tools":[{"name":"x"}]}`), listsOnly: true},
		"item of a number":   {script: result(`{"resultType":"complete","tools":[1]}`), listsOnly: true},
		"no answer":          {script: scripted.Hang(release), held: true},
		"slow loris":         {script: scripted.SlowLoris(release), held: true},
		"empty stream":       {script: func(x *scripted.Exchange) { x.Bytes(": nothing\n\n") }, status: http.StatusOK},
		"stream cut short":   {script: cutStream, status: http.StatusOK},
		"endless event":      {script: endlessEvent, listsOnly: true},
	}
}

func result(r string) scripted.Script { return func(x *scripted.Exchange) { x.Result(r) } }

func redirect(x *scripted.Exchange) {
	x.W.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
	x.Raw(http.StatusTemporaryRedirect, "text/plain", "")
}

func cutStream(x *scripted.Exchange) {
	x.Bytes("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"resu")
}

// endlessEvent sends an event until nobody reads it any more.
func endlessEvent(x *scripted.Exchange) {
	x.Bytes("data: ")
	chunk := string(make([]byte, 16<<10))
	for {
		select {
		case <-x.Done():
			return
		default:
			x.Bytes(chunk)
		}
	}
}

// TestFaultyLists has the upstream fail in lists, TestFaultyAnswers in everything.
func TestFaultyLists(t *testing.T) { surviveAll(t, true) }

func TestFaultyAnswers(t *testing.T) { surviveAll(t, false) }

func surviveAll(t *testing.T, listsOnly bool) {
	for name, f := range faultTable(nil) {
		if f.listsOnly != listsOnly {
			continue
		}
		t.Run(name, func(t *testing.T) {
			held := make(chan struct{})
			release := sync.OnceFunc(func() { close(held) })
			t.Cleanup(release)
			f := faultTable(held)[name]
			survive(t, &f, release)
		})
	}
}

// survive runs a fault against a warm cache; release ends those that hold.
func survive(t *testing.T, f *fault, release func()) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicBrief)
	w.Start("ttl 300ms", "refresh 10ms", "max_list 32KiB", "max_pages 20")
	modern, legacy := w.Warm(scripted.Modern), w.Warm(scripted.LatestLegacy)
	clients := []*fixture.Raw{modern, legacy}

	before := []int{feedLists(w, modern.Revision), feedLists(w, legacy.Revision)}
	method := "*"
	if f.listsOnly {
		method = scripted.ToolsList
	}
	w.SetScript(method, f.script)
	if !f.held { // then the feed may wait for another list
		fixture.Await(t, "the feeds of both eras to meet the fault", func() bool {
			return feedLists(w, modern.Revision) > before[0] && feedLists(w, legacy.Revision) > before[1]
		})
	}
	for _, c := range clients {
		c.AwaitList(scripted.ToolsList, "a stale hit", caddytest.IsStale)
		for range 3 {
			if a := c.List(scripted.ToolsList); !a.CacheStatus().Hit || caddytest.MarkOf(a, scripted.ToolsList) != "v1" {
				t.Errorf("under the fault, a list gave %s", a)
			}
		}
		if !f.listsOnly && !f.held {
			wantCall(t, c, f.status)
		}
	}
	w.SetScript(method, nil)
	w.Mark(scripted.ToolsList, "v2")
	release()
	well := time.Now()
	for _, c := range clients {
		c.AwaitList(scripted.ToolsList, "a fresh list", func(a *fixture.Answer) bool {
			return caddytest.IsHit(a, scripted.ToolsList, "v2") && !caddytest.IsStale(a)
		})
	}
	t.Logf("fresh after %v", time.Since(well).Round(time.Millisecond))
	for _, c := range clients {
		if a := c.Call("tools/call", c.Params(`"name":"item-0000"`)); a.Part("result", "content") == nil {
			t.Errorf("after the fault, a call gave %s", a)
		}
	}
}

// feedLists is how many lists of tools the feed of a revision has asked for.
func feedLists(w *caddytest.World, revision string) int {
	return len(w.Host.Requests(func(r *fixture.Request) bool {
		return r.Feed && r.Method == scripted.ToolsList && r.Header.Get("Mcp-Protocol-Version") == revision
	}))
}

// wantCall calls a tool and fails if it does not give that status, or 0 if it
// does not break.
func wantCall(t *testing.T, c *fixture.Raw, status int) {
	t.Helper()
	params := c.Params(`"name":"item-0000"`)
	a, err := c.Try(t.Context(), http.MethodPost, fixture.Message(c.NextID(), "tools/call", params),
		http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"item-0000"}})
	switch {
	case status == 0 && err == nil:
		t.Errorf("a call over a broken connection gave %s", a)
	case status != 0 && (err != nil || a.Status != status):
		t.Errorf("a call gave %s, %v, want %d", a, err, status)
	}
}

// TestFaultsAtStart lets the first answers of an upstream be bad: nothing of
// them is ever served, and lists work as soon as the upstream does.
func TestFaultsAtStart(t *testing.T) {
	for name, f := range faultTable(nil) {
		if f.held {
			continue // TestUpstreamAbsentAtStart and the gate are about these
		}
		t.Run(name, func(t *testing.T) {
			w := caddytest.NewUpstream(t)
			w.SetScript(scripted.ToolsList, f.script)
			w.Start("refresh 10ms", "gate 0", "max_list 32KiB", "max_pages 20")
			fixture.Await(t, "the feed to meet the fault", func() bool { return w.Host.CountFeed(scripted.ToolsList) > 0 })
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				c := w.Client(revision)
				a, err := c.TryList(t.Context(), scripted.PromptsList)
				if err != nil || caddytest.MarkOf(a, scripted.PromptsList) != "v1" {
					t.Errorf("beside the fault, a list gave %s, %v", a, err)
				}
			})
			w.SetScript(scripted.ToolsList, nil)
			caddytest.EachEra(t, func(t *testing.T, revision string) {
				w := w.On(t)
				caddytest.WantHit(t, w.Client(revision).Settle(scripted.ToolsList), scripted.ToolsList, "v1")
			})
		})
	}
}

// TestCutAfterEveryByte cuts the connection after every byte of the answer to a
// refresh: no part of it is ever served. The list changes each time, for notices of changes that
// are none are followed ever more seldom.
func TestCutAfterEveryByte(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints("")
	w.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, "v00000", 1))
	w.Start("refresh 1ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		w.SetScript(scripted.ToolsList, nil)
		c := w.Warm(revision)
		first := c.List(scripted.ToolsList)
		old, whole := caddytest.MarkOf(first, scripted.ToolsList), len(first.Body)
		step := caddytest.Pick(29, 1)
		for cut := 0; cut < whole; cut += step {
			before := w.Host.CountFeed(scripted.ToolsList)
			w.SetScript(scripted.ToolsList, eraOnly(c, scripted.CutAfter(cut)))
			mark := fmt.Sprintf("v%d%04d", revision[3]-'0', cut) // of the same length
			w.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, mark, 1))
			w.Changed(scripted.Feeds, scripted.ToolsList)
			fixture.Await(t, "the cut refresh", func() bool { return w.Host.CountFeed(scripted.ToolsList) > before })
			// The list is the one from before, or what the server gives this client itself.
			a := c.List(scripted.ToolsList)
			if got := caddytest.MarkOf(a, scripted.ToolsList); got != old && got != mark || len(a.Items("tools")) != 1 {
				t.Fatalf("after a cut at %d, a list gave %s", cut, a)
			}
			w.SetScript(scripted.ToolsList, nil)
			c.AwaitList(scripted.ToolsList, "a fresh list", func(a *fixture.Answer) bool {
				return caddytest.IsHit(a, scripted.ToolsList, mark) && !caddytest.IsStale(a)
			})
			old = mark
		}
	})
}

// TestRestartForgetsSessions restarts the upstream so that it knows no session
// any more, the feed's neither.
func TestRestartForgetsSessions(t *testing.T) {
	w := caddytest.NewUpstream(t)
	w.SetHints(scripted.PublicBrief)
	w.Start("ttl 300ms", "refresh 10ms")
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := w.On(t)
		w.Mark(scripted.ToolsList, "v1")
		w.Warm(revision)
		w.Host.Kill()
		w.ForgetSessions()
		w.Mark(scripted.ToolsList, "v2")
		w.Host.Start()
		again := w.Client(revision)
		again.AwaitList(scripted.ToolsList, "the restarted upstream's list", func(a *fixture.Answer) bool {
			return caddytest.IsHit(a, scripted.ToolsList, "v2") && !caddytest.IsStale(a)
		})
	})
}
