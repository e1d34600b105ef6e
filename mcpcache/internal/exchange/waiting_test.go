package exchange

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// TestListAfterTheWaitForMemory has a client wait until there is memory for its list. It is given the list
// only if it may still have it by then. Its next request is answered as any other.
func TestListAfterTheWaitForMemory(t *testing.T) {
	const at = revision.V20260728
	tools := func(version string) (names []string) {
		for i := range 20_000 { // more than all the memory for lists that are being read
			names = append(names, fmt.Sprintf("shown-%s-%d", version, i))
		}
		return append(names, "hidden")
	}
	for name, tt := range map[string]struct {
		meanwhile func(f *face)
		want      int
		again     int // the status of the next answer
	}{
		"nothing happens": {func(*face) {}, http.StatusOK, http.StatusOK},
		"a change is announced": {func(f *face) {
			f.backend.Cache.BumpTold(revision.SetOf(revision.Tools))
		}, http.StatusServiceUnavailable, http.StatusOK},
		"a change is announced, and a newer list comes": {func(f *face) {
			f.backend.Cache.BumpTold(revision.SetOf(revision.Tools))
			f.pinned(t, at, cache.Public, time.Hour, 0, tools("new")...)
		}, http.StatusServiceUnavailable, http.StatusOK},
		"the caller is refused": {func(f *face) {
			f.backend.Admission.RefuseContext(cache.Anonymous, at, 0)
		}, http.StatusServiceUnavailable, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := ruled(t, config{Gate: duration(0), Memory: 1 << 20})
				f.pinned(t, at, cache.Public, time.Hour, 0, tools("old")...)
				other := &cache.Entry{Kind: revision.Prompts, Revision: at, Body: &message.Body{Bytes: make([]byte, 1<<20)}}
				if !f.backend.Cache.Hold(other) {
					t.Fatal("somebody reads a list already")
				}
				var answer *httptest.ResponseRecorder
				done := make(chan struct{})
				go func() {
					defer close(done)
					answer = f.serve(t, modernRequest("tools/list", ""))
				}()
				time.Sleep(time.Second)
				synctest.Wait()
				tt.meanwhile(f)
				f.backend.Cache.Release(other)
				<-done
				if answer.Code != tt.want {
					t.Fatalf("got %d, %v, want %d", answer.Code, answer.Header(), tt.want)
				}
				again := f.serve(t, modernRequest("tools/list", ""))
				if again.Code != tt.again {
					t.Errorf("the next answer is %d, %v", again.Code, again.Header())
				}
				for _, body := range []string{answer.Body.String(), again.Body.String()} {
					if strings.Contains(body, `"hidden"`) || tt.want != http.StatusOK && strings.Contains(body, "shown-old") {
						t.Errorf("got %.300s", body)
					}
				}
			})
		})
	}
}
