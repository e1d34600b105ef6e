package cache

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/splice"
)

// Framing is how the bytes of an answer are sent.
type Framing uint8

const (
	// Plain bytes are sent as they are.
	Plain Framing = iota
	// Event bytes are sent as the data of one event of a stream.
	Event

	framings
)

// LeastEncoded is the size in bytes of the smallest body that is compressed.
const LeastEncoded = 1 << 10

const (
	// formsOverhead is what compressed bytes cost besides themselves.
	formsOverhead = 512
	// formsIdle is how long compressed bytes are kept that nobody has asked
	// for, when others need their room.
	formsIdle = time.Minute
	// formsRetry is how long it takes until bytes are compressed again for
	// which there was no room or that could not be compressed.
	formsRetry = time.Minute
)

// forms are the compressed forms of the bytes that have one digest, however
// many entries have those bytes. They are made when they are asked for.
type forms struct {
	digest [32]byte
	refs   int // guarded by shelf.mu
	frames [framings]form
}

// form is the bytes in one framing.
type form struct {
	encoded atomic.Pointer[splice.Encoded]
	// used is when they were last asked for, in seconds, give or take.
	used atomic.Int64
	// next is when they may next be asked for, in seconds; never while they
	// are being made.
	next atomic.Int64
}

const never = math.MaxInt64

// touch notes that the form is in use. Most of the time it writes nothing.
func (f *form) touch(now int64) {
	const rough = int64(formsIdle/time.Second) / 6
	if now-f.used.Load() > rough {
		f.used.Store(now)
	}
}

// idle reports whether nobody has asked for the form for a while.
func (f *form) idle(now int64) bool {
	return now-f.used.Load() > int64(formsIdle/time.Second)
}

// claim reports whether the caller has to see to it that the form is made.
func (f *form) claim(now int64) bool {
	next := f.next.Load()
	return next <= now && f.next.CompareAndSwap(next, never)
}

// size is what the form counts against the memory, in bytes.
func (f *form) size() int64 {
	if e := f.encoded.Load(); e != nil {
		return sizeOf(e)
	}
	return 0
}

func sizeOf(e *splice.Encoded) int64 { return int64(e.Size()) + formsOverhead }
