package sse

import (
	"bytes"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// notices are the methods of change notices.
var notices = [...]string{
	"notifications/tools/list_changed",
	"notifications/prompts/list_changed",
	"notifications/resources/list_changed",
	"notifications/resources/updated",
}

// noticePrefix is what all notices begin with.
const noticePrefix = "notifications/"

// maxCarry is one less than the longest notice with every character escaped: the
// most of it that can have passed without its end.
const maxCarry = len("notifications/resources/list_changed")*len(`\u0000`) - 1

// Watcher looks for change notices in the bytes of an event stream or of a JSON
// body as they pass, however they are split and whichever way JSON allows to
// escape them. It does not parse: a method name anywhere counts as a notice, for
// one notice too many costs a refresh, and one missed a stale list. The zero
// value is ready. It is not safe for concurrent use.
type Watcher struct {
	tail [maxCarry]byte // the last bytes that have passed
	n    int            // how many of them
}

// Scan returns the kinds whose notice ended in this chunk. It allocates nothing.
func (w *Watcher) Scan(chunk []byte) revision.KindSet {
	// A notice that began before the chunk ends within its first bytes.
	var seam [2 * maxCarry]byte
	n := copy(seam[:], w.tail[:w.n])
	n += copy(seam[n:], chunk[:min(len(chunk), maxCarry)])
	found := find(seam[:n], w.n)
	if len(chunk) > maxCarry {
		found |= find(chunk, 0)
	}
	w.keep(chunk)
	return found
}

// keep remembers the last bytes that have passed.
func (w *Watcher) keep(chunk []byte) {
	if len(chunk) >= maxCarry {
		w.n = copy(w.tail[:], chunk[len(chunk)-maxCarry:])
		return
	}
	if over := w.n + len(chunk) - maxCarry; over > 0 {
		w.n = copy(w.tail[:], w.tail[over:w.n])
	}
	w.n += copy(w.tail[w.n:], chunk)
}

// find returns the kinds of the notices in b that end after the first past bytes.
func find(b []byte, past int) (found revision.KindSet) {
	if !suspicious(b) {
		return 0
	}
	for i, c := range b {
		if c != noticePrefix[0] && c != '\\' {
			continue
		}
		if method, end := noticeAt(b, i); end > past {
			found |= revision.Changed(method)
		}
	}
	return found
}

var (
	changed = []byte("_changed")
	updated = []byte("/updated")
	escape  = []byte(`\u00`)
)

// suspicious reports whether b may have a notice: the end of one as it is, or an
// escape of one of its characters. Most bytes are only looked at here. The words
// begin with bytes that are rare, which bytes.Index likes.
func suspicious(b []byte) bool {
	if bytes.Contains(b, changed) || bytes.Contains(b, updated) {
		return true
	}
	for {
		i := bytes.Index(b, escape)
		if i < 0 || i+len(`\u0000`) > len(b) {
			return false
		}
		b = b[i+len(escape):]
		switch b[0] {
		case '2', '5', '6', '7': // "/", "_" and letters
			return true
		}
	}
}

// noticeAt returns the notice that begins at b[i] and the index of its end.
func noticeAt(b []byte, i int) (method string, end int) {
	start, ok := match(b, i, noticePrefix)
	if !ok {
		return "", 0
	}
	for _, method := range notices {
		if end, ok := match(b, start, strings.TrimPrefix(method, noticePrefix)); ok {
			return method, end
		}
	}
	return "", 0
}

// match reports whether text is at b[i], in any spelling that JSON has for it,
// and returns the index of its end.
func match(b []byte, i int, text string) (end int, ok bool) {
	for j := range len(text) {
		c, size := char(b[i:])
		if size == 0 || c != text[j] {
			return 0, false
		}
		i += size
	}
	return i, true
}

// char returns the ASCII character that b begins with, as part of a JSON string,
// and how many bytes it takes: 0 when there is none or it is none of a notice's.
func char(b []byte) (c byte, size int) {
	switch {
	case len(b) == 0:
		return 0, 0
	case b[0] != '\\':
		return b[0], 1
	case len(b) >= 2 && b[1] == '/':
		return '/', 2
	case len(b) >= 6 && b[1] == 'u' && b[2] == '0' && b[3] == '0':
		hi, lo := hex(b[4]), hex(b[5])
		if hi < 0 || lo < 0 {
			return 0, 0
		}
		return byte(hi<<4 | lo), 6
	}
	return 0, 0
}

// hex returns the value of a hexadecimal digit, or -1.
func hex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
