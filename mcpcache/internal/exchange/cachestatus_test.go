package exchange

import (
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

func TestCacheStatus(t *testing.T) {
	s := newStatusTexts("mcp_cache")
	hit := found{entry: &cache.Entry{}}
	stale := found{entry: &cache.Entry{}, stale: true}
	for want, got := range map[string]string{
		"mcp_cache; hit; ttl=297":                    string(s.appendHit(nil, hit, 297*time.Second+999*time.Millisecond)),
		"mcp_cache; hit; ttl=0":                      string(s.appendHit(nil, hit, time.Millisecond)),
		"mcp_cache; hit; ttl=-12; detail=stale":      string(s.appendHit(nil, stale, -12*time.Second)),
		"mcp_cache; hit; ttl=-1; detail=stale":       string(s.appendHit(nil, stale, -1)),
		"mcp_cache; hit; ttl=-13; detail=stale":      string(s.appendHit(nil, stale, -12*time.Second-1)),
		"mcp_cache; fwd=uri-miss; stored":            s.forwarded(understood, true),
		"mcp_cache; fwd=uri-miss":                    s.forwarded(understood, false),
		"mcp_cache; fwd=bypass; detail=cursor":       s.forwarded(bypassCursor, false),
		"mcp_cache; fwd=bypass; detail=accept":       s.forwarded(bypassAccept, true),
		"mcp_cache; fwd=uri-miss; stored; collapsed": string(s.appendHit(nil, found{entry: &cache.Entry{}, fetched: true}, time.Hour)),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A cache is named by a token, which begins with a letter or "*" (RFC 8941
// section 3.3.4), or by a string.
func TestCacheStatusNames(t *testing.T) {
	for name, want := range map[string]string{
		"mcp_cache": "mcp_cache", "A.b-c": "A.b-c", "zed": "zed", "Z": "Z",
		"1st": `"1st"`, "_x": `"_x"`, "-x": `"-x"`, ".x": `".x"`,
	} {
		if got := newStatusTexts(name).forwarded(bypassMethod, false); got != want+"; fwd=bypass; detail=method" {
			t.Errorf("%s: got %q", name, got)
		}
		if got := newStatusTexts(name).forwarded(understood, false); got != want+"; fwd=uri-miss" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
