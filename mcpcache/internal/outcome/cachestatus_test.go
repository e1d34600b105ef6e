package outcome

import (
	"testing"
	"time"
)

// A cache is named by a token, which begins with a letter or "*" (RFC 8941
// section 3.3.4), or by a string.
func TestCacheStatusNames(t *testing.T) {
	for name, want := range map[string]string{
		"mcp_cache": "mcp_cache", "A.b-c": "A.b-c", "zed": "zed", "Z": "Z",
		"1st": `"1st"`, "_x": `"_x"`, "-x": `"-x"`, ".x": `".x"`,
	} {
		s := NewCacheStatus(name)
		for end, got := range map[string]string{
			"; fwd=bypass; detail=method":       s.Bypass("method"),
			"; fwd=bypass; detail=cursor":       s.Bypass("cursor"),
			"; fwd=uri-miss":                    s.Miss,
			"; fwd=uri-miss; stored; collapsed": string(s.AppendFetched(nil)),
			"; hit; ttl=-13":                    string(s.AppendHit(nil, -12*time.Second-1)),
			"; detail=denied":                   s.Own("denied"),
		} {
			if got != want+end {
				t.Errorf("%s: got %q, want %q", name, got, want+end)
			}
		}
	}
}
