// Package variant remembers the variants of an upstream's clients. The cache expects that clients
// of one variant get the same lists, if their credentials are the same. Variants differ by the
// client's capabilities, and in sessions by its name too. They also differ by the client's
// language, once an answer has shown that the upstream goes by it. The package also remembers
// which lists the clients of each variant got.
//
// It knows nothing of requests and of feeds.
package variant

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/flight"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

const (
	// maxVariants is how many variants of one upstream are remembered. Real clients come
	// in a handful.
	maxVariants = 64
	// maxClient is how many bytes a client may say of itself. The variant of one
	// that says more is not remembered.
	maxClient = 4 << 10
	// maxSpellings bounds Table.spellings.
	maxSpellings = 256
)

// Client is what the clients of a variant have in common.
type Client struct {
	// Capabilities is a JSON object in canonical form (RFC 8785).
	Capabilities []byte
	// Name is what the client of a session calls itself; "" without sessions.
	Name string
	// Language is the Accept-Language of its requests; "" if the upstream ignores it.
	Language string
	// Request is what its requests ask for besides their message, and Asked stands for it.
	// Both are zero for clients whose requests ask as the feed's do.
	Request client.Request
	Asked   cache.Asked
}

// Table remembers the variants of one upstream. Its methods may be called from
// several goroutines at once.
type Table struct {
	secret [32]byte // keys the hashes: nobody can make up two clients of one variant
	now    func() time.Time

	mu    sync.RWMutex
	known map[cache.Variant]*Record
	// agreed is called when clients of a variant are given the list that the feed is; nil: nobody
	// wants to know.
	agreed func(revision.Revision, revision.Kind)
	// spellings has the variant of each description of a client, as written: the
	// same capabilities can be written in several ways.
	spellings map[string]cache.Variant
}

// New returns an empty table.
func New(secret [32]byte) *Table {
	return &Table{
		secret: secret, now: time.Now,
		known: make(map[cache.Variant]*Record), spellings: make(map[string]cache.Variant),
	}
}

// OnAgree has agreed called when clients of a variant turn out to be given the list that the feed
// is. It has to be called before anything is learned. agreed must return at once.
func (t *Table) OnAgree(agreed func(revision.Revision, revision.Kind)) { t.agreed = agreed }

// Given returns the variants whose clients are given a snapshot, in a certain order.
func (t *Table) Given(e *cache.Entry) []*Record {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var given []*Record
	for _, r := range t.known {
		if r.Seen(e.Revision, e.Kind).Agrees(e) {
			given = append(given, r)
		}
	}
	slices.SortFunc(given, func(a, b *Record) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return given
}

// Learn returns what is known of a client's variant, and remembers it if it is
// new: the least recently used makes room. Capabilities need not be canonical. It
// returns nil if the client says too much, or if parsers may differ about what it
// says.
func (t *Table) Learn(c Client) *Record {
	if len(c.Capabilities)+len(c.Name)+len(c.Language)+c.Request.Size() > maxClient {
		return nil
	}
	var room [256]byte
	written := append(room[:0], c.Capabilities...)
	written = append(append(written, 0), c.Name...)
	written = append(append(written, 0), c.Language...)
	written = append(append(written, 0), c.Asked[:]...)
	t.mu.RLock()
	key, ok := t.spellings[string(written)]
	record := t.known[key]
	t.mu.RUnlock()
	if ok && record != nil {
		record.touch(t.now())
		return record
	}
	canonical, err := message.Canonical(c.Capabilities)
	if err != nil {
		return nil
	}
	c.Capabilities = canonical
	return t.remember(c, string(written))
}

// Of returns what is known of a variant, or nil if it had to make room.
func (t *Table) Of(v cache.Variant) *Record {
	t.mu.RLock()
	record := t.known[v]
	t.mu.RUnlock()
	if record != nil {
		record.touch(t.now())
	}
	return record
}

func (t *Table) remember(c Client, written string) *Record {
	key := t.keyOf(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.spellings[written]; !known {
		t.makeRoomForSpelling()
		t.spellings[written] = key
	}
	record := t.known[key]
	if record == nil {
		if len(t.known) >= maxVariants {
			t.forgetOne()
		}
		record = &Record{Key: key, Client: c, agreed: t.agreed}
		t.known[key] = record
	}
	record.used.Store(t.now().UnixNano())
	return record
}

// makeRoomForSpelling forgets any one of the spellings if there are too many,
// which costs the next request with that one a little time. The caller holds t.mu.
func (t *Table) makeRoomForSpelling() {
	if len(t.spellings) < maxSpellings {
		return
	}
	for spelling := range t.spellings {
		delete(t.spellings, spelling)
		return
	}
}

// forgetOne forgets the variant that has not been used for the longest time. The
// caller holds t.mu.
func (t *Table) forgetOne() {
	var oldest *Record
	for _, r := range t.known {
		if oldest == nil || r.used.Load() < oldest.used.Load() {
			oldest = r
		}
	}
	delete(t.known, oldest.Key)
}

// keyOf returns the key of a client whose capabilities are in canonical form.
func (t *Table) keyOf(c Client) cache.Variant {
	said := append([]byte{}, t.secret[:]...)
	for _, part := range [...]string{string(c.Capabilities), c.Name, c.Language, string(c.Asked[:])} {
		said = binary.AppendUvarint(said, uint64(len(part)))
		said = append(said, part...)
	}
	sum := sha256.Sum256(said)
	return cache.Variant(sum[:8])
}

// touchEach is how precisely it is known when a variant was last used.
const touchEach = time.Second

func (r *Record) touch(now time.Time) {
	if at := now.UnixNano(); at-r.used.Load() > int64(touchEach) {
		r.used.Store(at)
	}
}

// UsedSince reports whether a client of the variant has been met since then.
func (r *Record) UsedSince(at time.Time) bool { return r.used.Load() >= at.UnixNano() }

// Record is what is known of one variant.
type Record struct {
	// Key stands for the variant in the cache.
	Key cache.Variant
	// Client is how its clients ask.
	Client Client

	used   atomic.Int64 // Unix nanoseconds
	lists  lists
	scouts flight.Group[listOf, struct{}]
	agreed func(revision.Revision, revision.Kind)
	// met is the context of the first caller who was met, shared is true once there was
	// another.
	met    atomic.Pointer[cache.Partition]
	shared atomic.Bool
}

// Meet notes that a caller of that context asks as the clients of the variant do.
func (r *Record) Meet(context cache.Partition) {
	if r.shared.Load() {
		return
	}
	first := r.met.Load()
	if first == nil && r.met.CompareAndSwap(nil, &context) {
		first = &context
	}
	if context.HasNoCredentials() || first != nil && *first != context {
		r.shared.Store(true)
	}
}

// IsShared reports whether callers of several contexts ask as the clients of the variant do,
// or any caller without credentials may.
func (r *Record) IsShared() bool { return r.shared.Load() }

// AsksLikeFeed reports whether the clients of the variant ask for the same as the feed.
func (r *Record) AsksLikeFeed() bool { return r.Client.Asked == cache.Asked{} }
