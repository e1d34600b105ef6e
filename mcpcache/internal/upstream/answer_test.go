package upstream

import (
	"io"
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
)

// TestAnswersAreBounded has answers of just what is allowed, and of a byte more.
func TestAnswersAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		limit, memory int64
		cut           bool
	}{
		"all":            {6, 100, false},
		"a byte more":    {5, 100, true},
		"just the room":  {100, 6, false},
		"a byte too few": {100, 5, true},
	} {
		memory := budget.New(tt.memory)
		a := NewAnswer(http.Header{"X": {"y"}}, tt.limit, memory)
		a.WriteHeader(http.StatusEarlyHints)
		for _, part := range []string{"abc", "def"} {
			if _, err := io.WriteString(a, part); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		a.WriteHeader(http.StatusTeapot)
		want := "abcdef"
		if tt.cut {
			want = "abc"
		}
		if a.Status != http.StatusOK || string(a.Body) != want || a.Cut != tt.cut || a.Header().Get("X") != "y" {
			t.Errorf("%s: %d, %q, cut: %v", name, a.Status, a.Body, a.Cut)
		}
		if err := http.NewResponseController(a).Flush(); err != nil {
			t.Errorf("%s: flushing: %v", name, err)
		}
		if a.Close(); memory.Used() != 0 {
			t.Errorf("%s: %d bytes are still taken", name, memory.Used())
		}
	}
}
