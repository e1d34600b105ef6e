package cache

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded/splice"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// compressing returns a cache that wants bodies compressed.
func compressing(t testing.TB, memory int64) *Cache {
	c := newCache(t, memory)
	c.SetPrecompress(true)
	return c
}

// compress does what is wanted now and returns how much that was.
func (c *Cache) compress(t testing.TB) (done int) {
	t.Helper()
	codec := new(splice.Codec)
	for {
		select {
		case wanted := <-c.Wanted():
			if !wanted.Current() {
				wanted.Fail()
				continue
			}
			body, _ := wanted.Body(nil)
			both, err := codec.Encode(context.Background(), body)
			if err != nil {
				t.Fatal(err)
			}
			wanted.Keep(both)
			done++
		default:
			return done
		}
	}
}

// noise returns n bytes that can be compressed a little, different each time.
func noise(n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('a' + rand.IntN(26))
	}
	return string(text)
}

func TestPinnedIsWantedAtOnce(t *testing.T) {
	c := compressing(t, 1<<20)
	e := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 20)...), 0)
	if c.Pin(e); c.compress(t) != 1 {
		t.Fatal("the snapshot was not wanted")
	}
	if c.Encoded(e, encoded.Plain, start) == nil {
		t.Fatal("there are no compressed forms")
	}
	// The same list again, on this revision and another: no more work.
	again := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 20)...), time.Second)
	legacy := c.list(Question{Revision: revision.V20251125, Kind: revision.Tools}, again.Body, 0)
	for _, same := range []*Entry{again, legacy} {
		c.Pin(same)
		if c.Encoded(same, encoded.Plain, start) != c.Encoded(e, encoded.Plain, start) {
			t.Error("unchanged bytes have other compressed forms")
		}
	}
	if got := c.compress(t); got != 0 {
		t.Errorf("unchanged bytes were compressed %d times", got)
	}
	// Another list: the old forms go with the last pin that had them.
	changed := c.list(toolsOf(Public), listOf(t, toolsFrom(1, 20)...), 2*time.Second)
	c.Pin(changed)
	if c.Encoded(changed, encoded.Plain, start) != nil || c.Encoded(legacy, encoded.Plain, start) == nil {
		t.Error("compressed forms are not those of the bytes")
	}
	before := c.used()
	c.Unpin(legacy.Revision, legacy.Kind)
	if got := c.used(); got >= before || c.Encoded(legacy, encoded.Plain, start) != nil {
		t.Errorf("uses %d bytes after unpinning, before %d", got, before)
	}
	if c.compress(t) != 1 || c.Encoded(changed, encoded.Plain, start) == nil {
		t.Error("the new snapshot was not compressed")
	}
	c.Unpin(changed.Revision, changed.Kind)
	if got := c.used(); got != 0 || c.compressed.Held(e.Digest()) != nil || c.compressed.Held(changed.Digest()) != nil {
		t.Errorf("uses %d bytes with nothing kept, or still holds what is gone", got)
	}
}

func TestKeptIsWantedWhenAskedFor(t *testing.T) {
	c := compressing(t, 1<<20)
	var e [2]*Entry
	for n := range e {
		q := toolsOf(contextNumber(n))
		c.Put(c.list(q, listOf(t, toolsFrom(0, 20)...), 0))
		e[n] = c.Get(q)
	}
	read := Question{Revision: revision.V20260728, Kind: revision.Reads, Partition: contextNumber(1), Detail: []byte(`"a"`)}
	c.Put(c.list(read, bodyOf("text", encoded.LeastSize), 0))
	if c.compress(t) != 0 {
		t.Error("compressed what nobody has asked for")
	}
	for _, asked := range []*Entry{e[0], e[1], c.Get(read)} {
		if c.Encoded(asked, encoded.Plain, start) != nil {
			t.Error("found compressed forms that nobody has made")
		}
	}
	if got := c.compress(t); got != 2 {
		t.Errorf("compressed %d bodies, want 2", got)
	}
	if c.Encoded(e[0], encoded.Plain, start) == nil || c.Encoded(e[0], encoded.Plain, start) != c.Encoded(e[1], encoded.Plain, start) ||
		c.Encoded(c.Get(read), encoded.Plain, start) == nil {
		t.Error("compressed forms are not there, or not shared")
	}
	kept := []*Entry{e[0], c.Get(read)}
	c.Purge()
	for _, e := range kept {
		if c.compressed.Held(e.Digest()) != nil {
			t.Error("holds what has been purged")
		}
	}
	if got := c.used(); got != 0 {
		t.Errorf("uses %d bytes after a purge", got)
	}
}

// Both framings of whole and of shared bytes are what an answer is made of.
func TestFramings(t *testing.T) {
	tools := toolsFrom(0, 5)
	tools[2] = "{\"name\":\n\"lines\",\r\n\"x\":[\r1]}"
	body := listOf(t, tools...)
	c := compressing(t, 1<<20)
	whole := c.list(toolsOf(Public), body, 0)
	c.Pin(whole)
	c.Put(c.list(toolsOf(Anonymous), body, 0))
	const prefix = `{"jsonrpc":"2.0","id":1,"result":{`
	for name, e := range map[string]*Entry{"whole": whole, "shared": c.Get(toolsOf(Anonymous))} {
		if (e.Whole() == nil) != (name == "shared") {
			t.Fatalf("%s is not", name)
		}
		for framing, want := range map[encoded.Framing][]byte{
			encoded.Plain: append([]byte(prefix), body.Bytes...),
			encoded.Event: sse.AppendEvent(nil, append([]byte(prefix), body.Bytes...)),
		} {
			begin := prefix
			if framing == encoded.Event {
				begin = sse.Start + prefix
			}
			got := e.AppendTo([]byte(begin), framing)
			if !bytes.Equal(got, want) {
				t.Errorf("%s, framing %d: got %q, want %q", name, framing, got, want)
			}
			if size := len(begin) + e.SizeIn(framing); size != len(want) {
				t.Errorf("%s, framing %d: said to have %d bytes, want %d", name, framing, size, len(want))
			}
			c.Encoded(e, framing, start)
			c.compress(t)
			both := c.Encoded(e, framing, start)
			if both == nil || !both.Has(splice.Gzip) || !both.Has(splice.Zstd) {
				t.Errorf("%s, framing %d: not compressed", name, framing)
			}
		}
	}
}

func TestWhatIsTooSmallToCompress(t *testing.T) {
	c := compressing(t, 1<<20)
	for size, want := range map[int]int{encoded.LeastSize - 1: 0, encoded.LeastSize: 1} {
		e := c.list(toolsOf(Public), bodyOf("text", size), time.Duration(size))
		c.Pin(e)
		c.Encoded(e, encoded.Plain, start)
		if got := c.compress(t); got != want {
			t.Errorf("%d bytes were compressed %d times, want %d", size, got, want)
		}
	}
}

func TestPrecompressOff(t *testing.T) {
	c := newCache(t, 1<<20)
	e := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 20)...), 0)
	c.Pin(e)
	c.Encoded(e, encoded.Plain, start)
	if c.compress(t) != 0 {
		t.Error("compressed although it is off")
	}
	c.SetPrecompress(true)
	c.Encoded(e, encoded.Plain, start)
	if c.compress(t) != 1 || c.Encoded(e, encoded.Plain, start) == nil || c.used() == 0 {
		t.Error("not compressed although it is on")
	}
	c.SetPrecompress(false)
	if c.Encoded(e, encoded.Plain, start) != nil || c.used() != 0 {
		t.Error("compressed forms are kept although it is off")
	}
}

// Compressed bytes have an eighth of the memory, at most.
func TestCompressedBytesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const memory = 2 << 20
		c := compressing(t, memory)
		page := func(n int, text string) Question {
			q := Question{Revision: revision.V20260728, Kind: revision.Reads, Partition: Anonymous, Detail: []byte{byte(n)}}
			if text != "" {
				body := &message.Body{Bytes: []byte(text)}
				copy(body.Digest[:], text)
				if !c.Put(c.list(q, body, 0)) {
					t.Fatal("refused")
				}
			}
			return q
		}
		const entries, size = 30, 16 << 10
		const largest = 2*size + encoded.Overhead // of a form: neither coding makes noise longer
		compressed := func(i int) bool {
			return c.Encoded(c.Get(page(i, "")), encoded.Plain, time.Now()) != nil
		}
		late := make(map[int]bool) // those that have no room
		ready := func() (n int) {
			for i := range entries {
				if late[i] = !compressed(i); !late[i] {
					n++
				}
			}
			return n
		}
		for i := range entries {
			page(i, noise(size))
		}
		ready()
		c.compress(t)
		if total := c.compressed.Bytes(); total > memory/eighths*compressedShare || total < memory/eighths*compressedShare*3/4 {
			t.Errorf("compressed forms take %d bytes of %d", total, memory/eighths*compressedShare)
		}
		if got := c.used(); got > memory || got <= entries*size {
			t.Errorf("uses %d bytes of %d", got, memory)
		}
		some := ready()
		if some == 0 || some == entries {
			t.Fatalf("%d of %d are compressed", some, entries)
		}
		// Those without room are not tried over and over.
		ready()
		if got := c.compress(t); got != 0 {
			t.Errorf("%d bodies were compressed although there is no room", got)
		}
		// What is not asked for makes room for what is.
		time.Sleep(2 * encoded.IdleTime)
		for i := range entries {
			if late[i] && compressed(i) {
				t.Errorf("%d is compressed although there was no room", i)
			}
		}
		if got := c.compress(t); got != entries-some {
			t.Errorf("%d bodies were compressed, want %d", got, entries-some)
		}
		total := c.compressed.Bytes()
		if total > memory/eighths*compressedShare {
			t.Errorf("later, compressed forms take %d bytes of %d", total, memory/eighths*compressedShare)
		}
		for i := range entries {
			switch {
			case !late[i] && compressed(i):
				t.Errorf("%d keeps its room although nobody asks for it", i)
			case late[i] && !compressed(i) && total+largest <= memory/eighths*compressedShare:
				t.Errorf("%d has no room although %d bytes of %d are taken", i, total, memory/eighths*compressedShare)
			}
		}
		c.Close()
	})
}

// A queue that is full loses nothing for good.
func TestWantedIsBounded(t *testing.T) {
	c := compressing(t, 64<<20)
	entries := make([]*Entry, 2*encoded.MaxWanted)
	for n := range entries {
		q := toolsOf(contextNumber(n))
		c.Put(c.list(q, listOf(t, toolsFrom(n, 3)...), 0))
		entries[n] = c.Get(q)
	}
	ask := func() (ready int) {
		for _, e := range entries {
			if c.Encoded(e, encoded.Plain, start) != nil {
				ready++
			}
		}
		return ready
	}
	ask()
	if got := c.compress(t); got != encoded.MaxWanted {
		t.Errorf("%d bodies were waiting, want %d", got, encoded.MaxWanted)
	}
	if got := ask(); got != encoded.MaxWanted {
		t.Errorf("%d are compressed, want %d", got, encoded.MaxWanted)
	}
	if c.compress(t); ask() != len(entries) {
		t.Errorf("%d are compressed, want all", ask())
	}
}

// What has been replaced while it was waiting is not compressed, and a body
// that cannot be compressed is not tried again at once.
func TestWantedMayBeOfNoUse(t *testing.T) {
	c := compressing(t, 1<<20)
	e := c.list(toolsOf(Public), listOf(t, toolsFrom(0, 20)...), 0)
	c.Pin(e)
	old := <-c.Wanted()
	c.Pin(c.list(toolsOf(Public), listOf(t, toolsFrom(1, 20)...), time.Second))
	if old.Current() {
		t.Error("the replaced snapshot is current")
	}
	late, err := new(splice.Codec).Encode(context.Background(), e.Body.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if old.Keep(late); c.used() != 0 {
		t.Error("kept compressed forms that nobody can use")
	}
	now := <-c.Wanted()
	if !now.Current() {
		t.Fatal("the snapshot is not current")
	}
	now.Fail()
	pinned := c.Pinned(revision.V20260728, revision.Tools)
	for at, want := range map[time.Duration]int{0: 0, 2 * encoded.RetryTime: 1} {
		c.Encoded(pinned, encoded.Plain, time.Now().Add(at))
		if got := len(c.Wanted()); got < want || want == 0 && got != 0 {
			t.Errorf("%v after it failed, %d are wanted, want %d", at, got, want)
		}
		for len(c.Wanted()) > 0 {
			(<-c.Wanted()).Fail()
		}
	}
}
