package volatileheaders

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

func nowhere([]cache.Partition) bool { return true }

// A header is found with the last of enough new values, and so are no more than there is
// room for.
func TestFoundIsBounded(t *testing.T) {
	h := New()
	for n := range 2 * MaxFound {
		for i := range NewValues + 1 {
			s := Sent{Client: []string{"a"}, Name: fmt.Sprint("X-", n), Values: []string{fmt.Sprint(i)}, At: time.Now()}
			if found, want := h.Watch(s, nowhere), n < MaxFound && i >= NewValues-1; found != want {
				t.Errorf("value %d of header %d: found %v", i, n, found)
			}
		}
	}
	if len(h.found) != MaxFound {
		t.Errorf("%d headers are remembered", len(h.found))
	}
}

// A client's header is watched until it has sent no more of it for a while.
func TestColdTrailMakesRoom(t *testing.T) {
	h, now := New(), time.Now()
	watch := func(client string, value int) bool {
		return h.Watch(Sent{Client: []string{client}, Name: "X", Values: []string{fmt.Sprint(value)}, At: now}, nowhere)
	}
	for n := range 100 * NumTrails { // until each trail is somebody's
		watch(strings.Repeat("a", n%7)+fmt.Sprint(n), 0)
	}
	last := func() (found bool) {
		for i := range NewValues {
			found = watch("late", i)
		}
		return found
	}
	if last() {
		t.Error("a client displaced one that was watched a moment ago")
	}
	now = now.Add(cold)
	if !last() {
		t.Error("a client is not watched though no other is")
	}
}
