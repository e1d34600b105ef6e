package exchange

import (
	"strconv"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/identity"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/reply"
)

// statusTexts are the values of the Cache-Status header (RFC 9211) of one handler.
type statusTexts struct {
	name   string
	miss   string
	method string // of what is not cached, as most that is forwarded
}

func newStatusTexts(name string) statusTexts {
	name = reply.CacheName(name)
	return statusTexts{name: name, miss: name + "; fwd=uri-miss", method: name + "; fwd=bypass; detail=" + string(bypassMethod)}
}

// appendHit appends the status of an answer from the cache that is fresh for
// left.
func (s statusTexts) appendHit(dst []byte, f found, left time.Duration) []byte {
	switch {
	case f.status != "":
		return append(dst, f.status...)
	case f.fetched:
		return append(append(dst, s.miss...), "; stored; collapsed"...)
	}
	dst = append(append(dst, s.name...), "; hit; ttl="...)
	dst = strconv.AppendInt(dst, reply.Seconds(left), 10)
	if f.stale {
		dst = append(dst, "; detail=stale"...)
	}
	return dst
}

// forwarded returns the status of an answer of the upstream.
func (s statusTexts) forwarded(reason bypass, stored bool) string {
	switch {
	case reason == understood && stored:
		return s.miss + "; stored"
	case reason == understood:
		return s.miss
	case reason == bypassMethod:
		return s.method
	}
	return s.name + "; fwd=bypass; detail=" + string(reason)
}

// keptApart returns the end of the status of a miss: why the caller was not given the feed's
// public list.
func keptApart(apart identity.Difference) string {
	if apart == "" {
		return ""
	}
	return "; detail=" + string(apart)
}

// refused returns the status of the refusal of a request for its origin.
func (s statusTexts) refused() string { return s.name + "; detail=origin" }

// denied returns the status of a refusal by rules.
func (s statusTexts) denied() string { return s.name + "; detail=denied" }
