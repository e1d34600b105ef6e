package feed

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// tokenGuard puts a token on requests.
type tokenGuard struct{}

func (tokenGuard) Authorize(_ context.Context, r *http.Request) error {
	r.Header.Set("Authorization", "Bearer of-the-feed-itself")
	return nil
}

func (tokenGuard) Identity() string { return "token" }

// What callers without credentials share is read without the guard's token, and
// kept only if anybody may be given it.
func TestReads(t *testing.T) {
	for name, c := range map[string]struct {
		result string
		kept   bool
	}{
		"public":         {`{"contents":[],"ttlMs":60000,"cacheScope":"public"}`, true},
		"private":        {`{"contents":[],"ttlMs":60000,"cacheScope":"private"}`, false},
		"no scope":       {`{"contents":[],"ttlMs":60000}`, false},
		"no TTL":         {`{"contents":[],"cacheScope":"public"}`, false},
		"TTL 0":          {`{"contents":[],"ttlMs":0,"cacheScope":"public"}`, false},
		"input required": {`{"resultType":"input_required","ttlMs":60000,"cacheScope":"public"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(modern)
			var asked http.Header
			s.On("resources/read", func(w http.ResponseWriter, r *http.Request, call call) error {
				asked = r.Header.Clone()
				return result(w, call, c.result)
			})
			run(t, s, func(w *world) {
				w.set(func(p *Policy) { p.Guard, p.PublicByDefault = tokenGuard{}, true })
				f := w.start(modern)
				f.Read([]byte(`"test://a"`), "test://a", nil)
				w.after(time.Second)
				if asked == nil || asked.Get("Authorization") != "" || asked.Get("Mcp-Name") != "test://a" {
					t.Errorf("asked with %v", asked)
				}
				q := cache.Question{Revision: modern, Kind: revision.Reads, Partition: cache.Public, Detail: []byte(`"test://a"`)}
				if got := w.cache.Get(q) != nil; got != c.kept {
					t.Errorf("kept %v, want %v", got, c.kept)
				}
			})
		})
	}
}

func TestReadsAreBounded(t *testing.T) {
	s := newServer(modern, legacy)
	s.On("resources/read", hang)
	run(t, s, func(w *world) {
		f := w.start(modern)
		for range 10 * maxReads {
			f.Read([]byte(`"test://a"`), "test://a", nil)
		}
		w.after(time.Second)
		w.wantCalls("resources/read", maxReads)
		w.after(client.RequestTimeout)
		f.Read([]byte(`"test://a"`), "test://a", nil)
		w.after(0)
		w.wantCalls("resources/read", maxReads+1)
		w.start(legacy).Read([]byte(`"test://a"`), "test://a", nil)
		w.after(time.Second)
		w.wantCalls("resources/read", maxReads+1)
	})
}
