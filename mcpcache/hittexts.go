package mcpcache

import (
	"strconv"
	"sync/atomic"
)

// hitText is what an answer from the cache says of itself in its header:
// Cache-Status and Content-Length. It is immutable.
type hitText struct {
	seconds int64 // of freshness that are left
	size    int   // of the body, in bytes
	status  string
	length  string
}

// newHitText appends the length to the status, so that both values are one
// string: one allocation less.
func newHitText(status []byte, seconds int64, size int) *hitText {
	n := len(status)
	text := string(strconv.AppendInt(status, int64(size), 10))
	return &hitText{seconds: seconds, size: size, status: text[:n], length: text[n:]}
}

// hitTexts keeps the texts of a few hits: those with the same list within the
// same second say the same, if their ids are equally long.
type hitTexts [16]atomic.Pointer[hitText]

func (t *hitTexts) place(size int) *atomic.Pointer[hitText] { return &t[uint(size)%uint(len(t))] }

// load returns the text of a hit that is fresh for that many seconds and has
// that size, or nil.
func (t *hitTexts) load(seconds int64, size int) *hitText {
	if text := t.place(size).Load(); text != nil && text.seconds == seconds && text.size == size {
		return text
	}
	return nil
}

// store keeps the text of a hit that is fresh.
func (t *hitTexts) store(text *hitText) { t.place(text.size).Store(text) }
