package outcome

import (
	"strconv"
	"time"
)

// CacheStatus makes the values of the Cache-Status header (RFC 9211) of one handler. It is made by [NewCacheStatus].
type CacheStatus struct {
	// Name is the handler's, as it stands in the header.
	Name string
	// Miss says that the answer is the server's, as there was none in memory.
	Miss string

	fetched, method string
}

// NewCacheStatus returns that of a handler with a name: a token, if it begins with a letter, or else a
// string (RFC 9211 section 2).
func NewCacheStatus(name string) CacheStatus {
	if c := name[0] | 0x20; c < 'a' || c > 'z' {
		name = `"` + name + `"`
	}
	miss := name + "; fwd=uri-miss"
	return CacheStatus{Name: name, Miss: miss, fetched: miss + "; stored; collapsed", method: name + "; fwd=bypass; detail=method"}
}

// AppendHit says that an answer comes from memory, and is fresh for left, which is negative for a stale one.
func (s CacheStatus) AppendHit(dst []byte, left time.Duration) []byte {
	dst = append(append(dst, s.Name...), "; hit; ttl="...)
	return strconv.AppendInt(dst, wholeSeconds(left), 10)
}

// AppendFetched says that an answer was fetched for this client, and is in memory now.
func (s CacheStatus) AppendFetched(dst []byte) []byte { return append(dst, s.fetched...) }

// Bypass says why a request was forwarded without a look into memory. It makes no text for the reason "method".
func (s CacheStatus) Bypass(reason string) string {
	if reason == "method" {
		return s.method
	}
	return s.Name + "; fwd=bypass; detail=" + reason
}

// Own says of an answer of ours that is no list what it is.
func (s CacheStatus) Own(detail string) string { return s.Name + "; detail=" + detail }

// wholeSeconds rounds down, so that what is not fresh is never shown as 0 or more.
func wholeSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d < 0 && d%time.Second != 0 {
		seconds--
	}
	return seconds
}
