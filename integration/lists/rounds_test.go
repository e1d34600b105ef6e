package lists

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestNoOldListAfterNotice is promise 2 over sockets: again and again the list
// changes, a client is told on its own stream and lists at once, while eight
// others list without a pause. Nobody whose request began after the client was
// told gets an older list.
func TestNoOldListAfterNotice(t *testing.T) {
	caddytest.EachEra(t, func(t *testing.T, revision string) {
		w := caddytest.NewUpstream(t)
		markRound(w, 0)
		w.Start()
		c := w.Warm(revision)
		s := c.Notices()
		fixture.Await(t, "the stream", func() bool { return w.Streams(caddytest.OfEra(c)) == 1 })

		var announced atomic.Int64
		hammer := startHammer(w, &announced, 8)
		defer hammer.end()
		hits := 0
		rounds := caddytest.Pick(100, 2000)
		for round := 1; round <= rounds; round++ {
			markRound(w, round)
			w.Changed(target(round, c), scripted.ToolsList)
			s.Await("notifications/tools/list_changed")
			announced.Store(int64(round))
			a := c.List(scripted.ToolsList)
			if got := roundOf(a); got != int64(round) {
				t.Fatalf("round %d: got round %d, %s", round, got, a)
			}
			if a.CacheStatus().Hit {
				hits++
			}
		}
		hammer.end()
		for _, old := range hammer.old {
			t.Errorf("an old list: %s", old)
		}
		t.Logf("%d rounds, %d of them hits at once; %d lists beside, %d hits", rounds, hits, hammer.lists.Load(), hammer.hits.Load())
		if hammer.hits.Load() == 0 {
			t.Error("nothing was ever served from the cache")
		}
	})
}

// target chooses who is told in a round: everybody, or only clients, so that
// the feed has to learn of it from the passing notice.
func target(round int, c *fixture.Raw) func(scripted.StreamInfo) bool {
	if round%2 == 0 {
		return scripted.Everybody
	}
	return caddytest.OfEra(c)
}

func markRound(w *caddytest.World, round int) {
	w.Mark(scripted.ToolsList, fmt.Sprint("round ", round))
}

// roundOf returns the round of a list, -1 if it is none.
func roundOf(a *fixture.Answer) int64 {
	var round int64
	if _, err := fmt.Sscanf(caddytest.MarkOf(a, scripted.ToolsList), "round %d", &round); err != nil {
		return -1
	}
	return round
}

// hammer is clients that list without a pause and check what they get.
type hammer struct {
	lists, hits atomic.Int64
	old         []string

	mu   sync.Mutex
	stop context.CancelFunc
	wg   sync.WaitGroup
}

func startHammer(w *caddytest.World, announced *atomic.Int64, clients int) *hammer {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hammer{stop: cancel}
	for i := range clients {
		c := w.Client(caddytest.Revisions[i%len(caddytest.Revisions)])
		h.wg.Go(func() {
			for ctx.Err() == nil {
				least := announced.Load()
				a, err := c.TryList(ctx, scripted.ToolsList)
				if ctx.Err() == nil {
					h.check(a, err, least)
				}
			}
		})
	}
	return h
}

func (h *hammer) check(a *fixture.Answer, err error, least int64) {
	h.lists.Add(1)
	if err == nil && a.CacheStatus().Hit {
		h.hits.Add(1)
	}
	if err == nil && roundOf(a) >= least {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.old) < 5 {
		h.old = append(h.old, fmt.Sprintf("after round %d: %s, %v", least, strings.TrimSpace(a.String()), err))
	}
}

func (h *hammer) end() {
	h.stop()
	h.wg.Wait()
}
