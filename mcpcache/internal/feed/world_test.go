package feed

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

const (
	legacy = revision.LatestLegacy
	modern = revision.LatestModern
)

// The server that the feeds of the tests speak with, and how it answers.
type (
	server = clienttest.Server
	call   = clienttest.Call
	script = clienttest.Script
)

var (
	newServer = clienttest.New
	result    = clienttest.Result
	reply     = clienttest.Reply
	gives     = clienttest.Gives
	failure   = clienttest.Failure
	status    = clienttest.Status
	raw       = clienttest.Raw
	answerTo  = clienttest.AnswerTo
	refuse    = clienttest.Refuse
	hang      = clienttest.Hang
)

// both is for tests that are the same in both eras.
var both = map[string]revision.Revision{"legacy": legacy, "modern": modern}

// world is a server, and feeds of it, in fake time.
type world struct {
	*testing.T
	server    *server
	transport upstream.Transport
	cache     *cache.Cache
	policy    Policy
	group     *Group
	logger    *zap.Logger
	logs      *observer.ObservedLogs
	lost      int // how often sessions were said to be lost
}

// run runs a test in a bubble, which ends only when all goroutines have.
func run(t *testing.T, s *server, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		w := &world{
			T: t, server: s, logs: logs, logger: zap.New(core),
			policy: Policy{
				Kinds: revision.SetOf(revision.Kinds()...), Times: Times{TTL: 5 * time.Minute, MaxTTL: 24 * time.Hour},
				Refresh: time.Second, Policy: client.Policy{MaxList: 1 << 20, MaxPages: 1000, Endpoint: "http://upstream.test/mcp"},
			},
		}
		var err error
		if w.cache, err = cache.New(1 << 20); err != nil {
			t.Fatal(err)
		}
		w.transport.Use(s)
		w.group = NewGroup("http://upstream.test/mcp", &w.transport, w.cache, func() { w.lost++ }, &w.policy, w.logger)
		defer func() {
			w.group.Stop()
			w.group.AwaitClosed()
			w.cache.Close()
			time.Sleep(5 * time.Second) // abandoned answers end in their time
		}()
		test(w)
	})
}

// start starts the feed of a revision and waits until nothing happens at once.
func (w *world) start(r revision.Revision) *Feed {
	w.Helper()
	w.group.Start(r)
	synctest.Wait()
	return w.group.Of(r)
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// outdate makes the lists of a kind outdated, so that the next caller misses.
func (w *world) outdate(k revision.Kind) { w.cache.Bump(revision.SetOf(k)) }

// set changes the policy.
func (w *world) set(change func(p *Policy)) {
	p := w.policy
	change(&p)
	w.policy = p
	w.group.Set(&p, w.logger)
	synctest.Wait()
}

func (w *world) wantState(f *Feed, want State) {
	w.Helper()
	if got := f.Status(); got.State != want {
		w.Fatalf("state is %s, want %s; failure: %+v", got.State, want, got.Failure)
	}
}

// wantItems checks a pinned snapshot; no names at all mean an empty list.
func (w *world) wantItems(r revision.Revision, k revision.Kind, want ...string) *cache.Entry {
	w.Helper()
	e := w.cache.Pinned(r, k)
	if e == nil {
		w.Fatalf("no %s are pinned", k)
	}
	if !slices.Equal(e.Body.Names(), want) {
		w.Fatalf("%s are %v, want %v", k, e.Body.Names(), want)
	}
	return e
}

// wantCalls checks how often a method has been called in all.
func (w *world) wantCalls(method string, want int) {
	w.Helper()
	if got := w.server.Count(method); got != want {
		w.Fatalf("%s was called %d times, want %d", method, got, want)
	}
}

// states returns the states that the log says a feed went through.
func (w *world) states(r revision.Revision) []State {
	var states []State
	for _, line := range w.logs.FilterMessage("feed changed state").All() {
		fields := line.ContextMap()
		if fields["revision"] == r.String() {
			states = append(states, State(fields["to"].(string)))
		}
	}
	return states
}

func (w *world) wantStates(r revision.Revision, want ...State) {
	w.Helper()
	if got := w.states(r); !slices.Equal(got, want) {
		w.Errorf("the log says %v, want %v", got, want)
	}
}
