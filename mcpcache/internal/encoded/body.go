package encoded

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded/splice"
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

// LeastSize is the size in bytes of the smallest body that is compressed.
const LeastSize = 1 << 10

const (
	// Overhead is what compressed bytes cost besides their length, in bytes.
	Overhead = 512
	// IdleTime is after how long without use compressed bytes are dropped when others
	// need their room.
	IdleTime = time.Minute
	// RetryTime is how long it takes until bytes are compressed again that could not be
	// compressed, or for which there was no room.
	RetryTime = time.Minute
)

// Source is where the bytes of a body come from.
type Source interface {
	// Digest returns a digest of the bytes.
	Digest() [32]byte
	// Size returns how many bytes there are.
	Size() int
	// Whole returns the bytes, or nil if they are kept in parts.
	Whole() []byte
	// AppendTo appends the bytes in that framing, without the prefix of an answer.
	AppendTo(dst []byte, framing Framing) []byte
}

// Body has the compressed bytes of one digest, for all entries whose bytes have that
// digest.
type Body struct {
	digest [32]byte
	refs   int // guarded by Set.mu
	frames [framings]framed
}

// Is reports whether the body has that digest.
func (b *Body) Is(digest [32]byte) bool { return b.digest == digest }

// framed has the compressed bytes in one framing.
type framed struct {
	encoded atomic.Pointer[splice.Encoded] // nil while they are not compressed
	// used is about when they were last asked for, in seconds.
	used atomic.Int64
	// next is when they may next be compressed, in seconds; never while that is being
	// done.
	next atomic.Int64
}

const never = math.MaxInt64

// touch notes that the bytes are in use. Most of the time it writes nothing.
func (f *framed) touch(now int64) {
	const rough = int64(IdleTime/time.Second) / 6
	if now-f.used.Load() > rough {
		f.used.Store(now)
	}
}

// idle reports whether nobody has asked for the bytes for a while.
func (f *framed) idle(now int64) bool {
	return now-f.used.Load() > int64(IdleTime/time.Second)
}

// claim reports whether the bytes may be compressed now. If so the caller has to have
// that done.
func (f *framed) claim(now int64) bool {
	next := f.next.Load()
	return next <= now && f.next.CompareAndSwap(next, never)
}

// size returns what the compressed bytes cost, in bytes.
func (f *framed) size() int64 {
	if e := f.encoded.Load(); e != nil {
		return sizeOf(e)
	}
	return 0
}

func sizeOf(e *splice.Encoded) int64 { return int64(e.Size()) + Overhead }
