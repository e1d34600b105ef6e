package operate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// ever gives the upstream another list all the time, until the test ends or
// stop is called.
func ever(w *caddytest.World, change func(n int)) (stop func()) {
	done := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			change(n)
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(done)
		changing.Wait()
	})
	w.T.Cleanup(stop)
	return stop
}

// TestKilledWhileSaving kills Caddy while it saves lists that change all the
// time, and starts it with the upstream down: each time the lists are there,
// and each of them is one that the upstream has given, whole.
func TestKilledWhileSaving(t *testing.T) {
	const items = 1500
	w := caddytest.NewUpstream(t)
	w.SetHints(`"ttlMs":20,"cacheScope":"public"`)
	addr := fixture.FreeAddr(t)
	w.Host.Start()
	caddy := caddytest.NewKillable(t, "http://"+addr+" {\n"+caddytest.Directive(w.Host.URL, "refresh 10ms", "admit upstream 1h")+"\n}")
	c := fixture.NewModern(t, "http://"+addr+"/mcp", "")
	w.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, "mark 0", items))
	w.SetList(scripted.PromptsList, scripted.Items(scripted.PromptsList, "mark 0", items/10))
	// The first time, nothing is stored yet.
	caddy.Start()
	fixture.Await(t, "the first copies", func() bool { return len(snapshotsBelow(t, caddy.Dir)) >= 2*len(scripted.ListMethods()) })
	// Whom the upstream has let in is stored with them, a little later.
	awaitAnswer(t, c, "a list that is shared", func(a *fixture.Answer) bool { return !strings.Contains(a.CacheStatus().Raw, "bypass") })
	fixture.Await(t, "the acceptance to be stored", func() bool {
		return slices.ContainsFunc(snapshotsBelow(t, caddy.Dir), func(file string) bool {
			data, err := os.ReadFile(file)
			return err == nil && bytes.Contains(data, []byte(`"admitted":`))
		})
	})
	saved, torn := 0, 0
	for round := range caddytest.Pick(5, 100) {
		stop := ever(w, func(n int) {
			mark := fmt.Sprintf("mark %d.%d", round, n)
			w.SetList(scripted.ToolsList, scripted.Items(scripted.ToolsList, mark, items))
			w.SetList(scripted.PromptsList, scripted.Items(scripted.PromptsList, mark, items/10))
		})
		awaitAnswer(t, c, "a list of this round", func(a *fixture.Answer) bool {
			return strings.HasPrefix(caddytest.MarkOf(a, scripted.ToolsList), fmt.Sprintf("mark %d.", round))
		})
		before := snapshotTimes(t, caddy.Dir)
		time.Sleep(time.Duration(rand.Int64N(int64(150 * time.Millisecond)))) // a random moment
		caddy.Kill()
		stop()
		w.Host.Kill()
		if snapshotTimes(t, caddy.Dir) != before {
			saved++
		}
		torn = halfWritten(t, caddy.Dir)
		caddy.Start()
		tools := awaitAnswer(t, c, "a stale hit", caddytest.IsStale)
		for method, count := range map[string]int{scripted.ToolsList: items, scripted.PromptsList: items / 10, scripted.ResourcesList: 3, scripted.TemplatesList: 3} {
			a := tools
			if method != scripted.ToolsList {
				a = c.AwaitList(method, "a stale hit", caddytest.IsStale) // what is stored is loaded one by one
			}
			wantWhole(t, a, method, count)
		}
		if log, err := os.ReadFile(caddy.Log); err != nil || strings.Contains(string(log), "stored snapshot ignored") {
			t.Errorf("round %d: a snapshot was ignored (%v)", round, err)
		}
		if t.Failed() {
			return
		}
		w.Host.Start()
	}
	t.Logf("%d rounds were killed after a write, %d in its middle", saved, torn)
}

// awaitAnswer lists tools until the answer is as wanted. Caddy may be starting.
func awaitAnswer(t *testing.T, c *fixture.Raw, what string, wanted func(*fixture.Answer) bool) (last *fixture.Answer) {
	t.Helper()
	done := func() bool {
		a, err := c.TryList(t.Context(), scripted.ToolsList)
		last = a
		return err == nil && a.Status == http.StatusOK && wanted(a)
	}
	if !fixture.Poll(fixture.Deadline, 10*time.Millisecond, done) {
		t.Fatalf("waited %v in vain for %s; last: %s", fixture.Deadline, what, last)
	}
	return last
}

// wantWhole fails unless a list has that many items of one mark.
func wantWhole(t *testing.T, a *fixture.Answer, method string, count int) {
	t.Helper()
	got := a.Items(scripted.ItemsKey(method))
	if len(got) != count {
		t.Errorf("%s has %d items, want %d: %s", method, len(got), count, a)
		return
	}
	want := scripted.Items(method, caddytest.MarkOf(a, method), count)
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s is torn: item %d is %s, want %s", method, i, got[i], want[i])
			return
		}
	}
}

// snapshotsBelow returns the files that hold snapshots.
func snapshotsBelow(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "storage", "mcp_cache", "*", "*.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// halfWritten counts the files of writes that were cut off. They stay.
func halfWritten(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "storage", "mcp_cache", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files) - len(snapshotsBelow(t, dir))
}

// snapshotTimes says when each snapshot was written.
func snapshotTimes(t *testing.T, dir string) string {
	t.Helper()
	var times strings.Builder
	for _, file := range snapshotsBelow(t, dir) {
		if info, err := os.Stat(file); err == nil { // it may just be replaced
			fmt.Fprintln(&times, file, info.ModTime())
		}
	}
	return times.String()
}
