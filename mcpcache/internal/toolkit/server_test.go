package toolkit

import (
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/backend"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// A server whose feeds have not begun, as the store has not said yet what it has, may have every
// list. One that has ended has none.
func TestLackingBeforeTheFeedsBegin(t *testing.T) {
	ref := &backend.Ref{Settings: backend.Defaults(), Logger: zap.NewNop()}
	if err := ref.Acquire(caddy.NewUsagePool(), "key", "http://upstream.test/mcp"); err != nil {
		t.Fatal(err)
	}
	s := &Server{Ref: ref}
	for _, r := range eras {
		if s.isLacking(r, revision.Tools) {
			t.Errorf("at %s it has no tools before anybody could know", r)
		}
	}
	ended, err := ref.Release()
	if err != nil {
		t.Fatal(err)
	}
	<-ended
	for _, r := range eras {
		if !s.isLacking(r, revision.Tools) {
			t.Errorf("at %s it may have tools after its end", r)
		}
	}
}
