package site

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
)

// TestUnreadable gives Caddy the status by which it answers a client whose request cannot be read.
func TestUnreadable(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"the connection fails":   {errors.New("connection reset"), http.StatusBadRequest},
		"the client is too slow": {fmt.Errorf("reading: %w", inbound.ErrTooSlow), http.StatusRequestTimeout},
		"a handler in front of us ends the reading": {
			fmt.Errorf("reading: %w", caddyhttp.Error(http.StatusRequestEntityTooLarge, errors.New("too large"))), http.StatusRequestEntityTooLarge,
		},
	} {
		got := Unreadable(c.err)
		if failure, ok := errors.AsType[caddyhttp.HandlerError](got); !ok || failure.StatusCode != c.want || !errors.Is(got, c.err) {
			t.Errorf("%s: got %v, want status %d", name, got, c.want)
		}
	}
	if got := Unreadable(nil); got != nil {
		t.Errorf("no error: got %v", got)
	}
}
