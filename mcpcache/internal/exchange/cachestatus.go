package exchange

import (
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outcome"
)

// forwarded returns the Cache-Status of an answer of the upstream.
func forwarded(s outcome.CacheStatus, reason bypass, stored bool) string {
	switch {
	case reason == understood && stored:
		return s.Miss + "; stored"
	case reason == understood:
		return s.Miss
	}
	return s.Bypass(string(reason))
}

// appendHit appends the Cache-Status of an answer from memory that is fresh for left.
func appendHit(dst []byte, s outcome.CacheStatus, f lookupResult, left time.Duration) []byte {
	switch {
	case f.status != "":
		return append(dst, f.status...)
	case f.fetched:
		return s.AppendFetched(dst)
	}
	dst = s.AppendHit(dst, left)
	if f.stale {
		dst = append(dst, "; detail=stale"...)
	}
	return dst
}

// keptApart returns the end of the status of a miss: why the caller was not given the feed's
// public list.
func keptApart(apart identity.Difference) string {
	if apart == "" {
		return ""
	}
	return "; detail=" + string(apart)
}
