package lists

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// takesNoAnswers has a server never take the answers to its own requests. It
// counts them.
func takesNoAnswers(next http.Handler, answers *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		if bytes.HasPrefix(body, []byte(`{"jsonrpc":"2.0","id":"ping-`)) {
			answers.Add(1)
			<-r.Context().Done()
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// usage counts the process's goroutines and, where that can be found out, its
// descriptors.
func usage() (goroutines, descriptors int) {
	files, _ := os.ReadDir("/proc/self/fd") // not everywhere
	return runtime.NumGoroutine(), len(files)
}

// watchUsage looks at the process's usage until it is stopped, and returns the
// most that there was.
func watchUsage(t *testing.T) (stop func() (goroutines, descriptors int)) {
	done, most := make(chan struct{}), make(chan [2]int)
	go func() {
		var peak [2]int
		pause := time.NewTicker(time.Millisecond)
		defer pause.Stop()
		for {
			g, d := usage()
			peak = [2]int{max(peak[0], g), max(peak[1], d)}
			select {
			case <-pause.C:
			case <-done:
				most <- peak
				return
			}
		}
	}()
	stop = sync.OnceValues(func() (int, int) {
		close(done)
		peak := <-most
		return peak[0], peak[1]
	})
	t.Cleanup(func() { stop() })
	return stop
}

// TestServersRequestsCostLittle has a server ask both feeds thousands of times
// on one answer, and take no answer of theirs: the list is read, goroutines and
// descriptors stay as they are.
func TestServersRequestsCostLittle(t *testing.T) {
	const requests = 21_400
	caddytest.CheckGoroutines(t)
	w := caddytest.NewUpstream(t)
	var pings strings.Builder
	for i := range requests {
		fmt.Fprintf(&pings, "data: {\"jsonrpc\":\"2.0\",\"id\":\"ping-%d\",\"method\":\"ping\"}\n\n", i)
	}
	var answers atomic.Int64
	w.Host = fixture.NewDownHost(t, takesNoAnswers(w.Server, &answers))
	w.Start("refresh 10ms")
	for _, revision := range caddytest.Revisions {
		w.Warm(revision)
	}
	beforeGoroutines, beforeDescriptors := usage()
	w.SetScript(scripted.ToolsList, func(x *scripted.Exchange) {
		if x.Feed {
			x.Bytes(pings.String())
		}
		x.Default()
	})
	w.Mark(scripted.ToolsList, "v2")
	stop := watchUsage(t)
	w.Changed(scripted.Feeds, scripted.ToolsList)
	for _, revision := range caddytest.Revisions {
		w.Client(revision).AwaitList(scripted.ToolsList, "the list behind all that", func(a *fixture.Answer) bool { return caddytest.IsHit(a, scripted.ToolsList, "v2") })
	}
	goroutines, descriptors := stop()
	t.Logf("goroutines: %d before, %d at most; descriptors: %d, %d; %d answers", beforeGoroutines, goroutines, beforeDescriptors, descriptors, answers.Load())
	if grown := goroutines - beforeGoroutines; grown > 200 {
		t.Errorf("there were %d goroutines more than before", grown)
	}
	if grown := descriptors - beforeDescriptors; grown > 100 {
		t.Errorf("there were %d descriptors more than before", grown)
	}
	if n := answers.Load(); n == 0 || n > 100 {
		t.Errorf("the server was sent %d answers", n)
	}
}
