package reply

import "time"

// CacheName returns a cache's name as Cache-Status has it (RFC 9211 section 2): a token,
// which begins with a letter, or a string.
func CacheName(name string) string {
	if c := name[0] | 0x20; c < 'a' || c > 'z' {
		return `"` + name + `"`
	}
	return name
}

// Seconds rounds down, so that what is not fresh is never shown as 0 or more.
func Seconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d < 0 && d%time.Second != 0 {
		seconds--
	}
	return seconds
}
