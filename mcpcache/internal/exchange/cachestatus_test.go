package exchange

import (
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
)

func TestCacheStatus(t *testing.T) {
	s := outcome.NewCacheStatus("mcp_cache")
	hit := lookupResult{entry: &cache.Entry{}}
	stale := lookupResult{entry: &cache.Entry{}, stale: true}
	for want, got := range map[string]string{
		"mcp_cache; hit; ttl=297":                    string(appendHit(nil, s, hit, 297*time.Second+999*time.Millisecond)),
		"mcp_cache; hit; ttl=0":                      string(appendHit(nil, s, hit, time.Millisecond)),
		"mcp_cache; hit; ttl=-12; detail=stale":      string(appendHit(nil, s, stale, -12*time.Second)),
		"mcp_cache; hit; ttl=-1; detail=stale":       string(appendHit(nil, s, stale, -1)),
		"mcp_cache; hit; ttl=-13; detail=stale":      string(appendHit(nil, s, stale, -12*time.Second-1)),
		"mcp_cache; fwd=uri-miss; stored":            forwarded(s, understood, true),
		"mcp_cache; fwd=uri-miss":                    forwarded(s, understood, false),
		"mcp_cache; fwd=bypass; detail=cursor":       forwarded(s, bypassCursor, false),
		"mcp_cache; fwd=bypass; detail=accept":       forwarded(s, bypassAccept, true),
		"mcp_cache; fwd=uri-miss; stored; collapsed": string(appendHit(nil, s, lookupResult{entry: &cache.Entry{}, fetched: true}, time.Hour)),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
