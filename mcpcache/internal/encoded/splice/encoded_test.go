package splice

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// bodies are the cases of the round trips.
var bodies = sync.OnceValue(func() map[string][]byte {
	list := listBody(5000)
	return map[string][]byte{
		"empty":          {},
		"one byte":       []byte("}"),
		"two equal":      []byte("}}"),
		"1 KiB":          list[:1024],
		"RLE":            bytes.Repeat([]byte("a"), 300<<10),
		"40 KB":          listBody(50),
		"one block":      list[:maxBlock],
		"one block + 1":  list[:maxBlock+1],
		"window":         list[:zstdWindow],
		"window + 1":     list[:zstdWindow+1],
		"4 MB":           list,
		"incompressible": randomBody(200 << 10),
	}
})

// prefixes go from none to the longest.
var prefixes = sync.OnceValue(func() [][]byte {
	return [][]byte{
		nil, []byte("{"), []byte(probe), listBody(100)[:1<<15], randomBody(maxPrefix - 1), listBody(100)[:maxPrefix],
	}
})

func TestRoundTrip(t *testing.T) {
	w := mustWorker(t)
	for name, body := range bodies() {
		t.Run(name, func(t *testing.T) {
			// The formats must hold for any body, also those that Encode
			// would leave out.
			e := encodeAnyway(t, w, body)
			for _, prefix := range prefixes() {
				checkAnswers(t, e, prefix, body)
			}
		})
	}
}

func TestEncodeKeepsWhatIsSmaller(t *testing.T) {
	smaller := map[string]bool{
		"1 KiB": true, "RLE": true, "40 KB": true, "one block": true, "one block + 1": true,
		"window": true, "window + 1": true, "4 MB": true,
	}
	for name, body := range bodies() {
		t.Run(name, func(t *testing.T) {
			e := mustEncode(t, body)
			for _, enc := range []Encoding{Gzip, Zstd} {
				if e.Has(enc) != smaller[name] {
					t.Errorf("Has(%s) = %t", enc, e.Has(enc))
				}
				if n := e.answerLen(enc, 0); n >= len(body) && n != 0 || n == 0 && smaller[name] {
					t.Errorf("Len(%s, 0) = %d with a body of %d", enc, n, len(body))
				}
			}
			// Allocations are rounded up, by no more than a quarter.
			if n, sum := e.Size(), e.answerLen(Gzip, 0)+e.answerLen(Zstd, 0); n+2*MaxOverhead < sum || n > sum+sum/4+16 {
				t.Errorf("Size = %d, two answers take %d", n, sum)
			}
			checkAnswers(t, e, []byte(probe), body)
		})
	}
}

func TestEncodeLeavesBreakEvenOut(t *testing.T) {
	w, c := mustWorker(t), new(Codec)
	// A run of equal bytes gains some, and noise after it loses it again: among
	// its beginnings are some that are encoded to their own length.
	body := append(bytes.Repeat([]byte("a"), 30), randomBody(600)[:200]...)
	seen := map[Encoding]map[int]bool{Gzip: {}, Zstd: {}}
	for n := range body {
		anyway := encodeAnyway(t, w, body[:n])
		e, err := c.Encode(t.Context(), body[:n])
		if err != nil {
			t.Fatal(err)
		}
		for enc, seen := range seen {
			order := cmp.Compare(anyway.answerLen(enc, 0), n)
			if seen[order] = true; e.Has(enc) != (order < 0) {
				t.Fatalf("%s of %d bytes takes %d: Has = %t", enc, n, anyway.answerLen(enc, 0), e.Has(enc))
			}
		}
	}
	for enc, seen := range seen {
		if len(seen) != 3 {
			t.Errorf("%s: not all of smaller, equal and larger were tried: %v", enc, seen)
		}
	}
}

func TestSpliceRefuses(t *testing.T) {
	full := mustEncode(t, listBody(5))
	none := mustEncode(t, nil)
	tests := []struct {
		name   string
		e      *Encoded
		enc    Encoding
		prefix int
		ok     bool
	}{
		{"gzip, longest prefix", full, Gzip, maxPrefix, true},
		{"gzip, prefix too long", full, Gzip, maxPrefix + 1, false},
		{"zstd, longest prefix", full, Zstd, maxPrefix, true},
		{"zstd, prefix too long", full, Zstd, maxPrefix + 1, false},
		{"no gzip form", none, Gzip, 0, false},
		{"no zstd form", none, Zstd, 0, false},
		{"other encoding", full, "br", 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, ok := test.e.Splice(nil, test.enc, make([]byte, test.prefix))
			if ok != test.ok || (p.Head != nil) != test.ok {
				t.Errorf("Splice = %d bytes, %t", len(p.Head), ok)
			}
			if n := test.e.answerLen(test.enc, test.prefix); (n > 0) != test.ok {
				t.Errorf("Len = %d", n)
			}
		})
	}
}

// TestSpliceParts shows where the parts are.
func TestSpliceParts(t *testing.T) {
	small, large := mustEncode(t, listBody(50)), mustEncode(t, listBody(500))
	prefix := []byte(probe)
	for _, test := range []struct {
		name       string
		e          *Encoded
		enc        Encoding
		room       int
		tail, foot bool
	}{
		{"gzip with room for all", small, Gzip, small.answerLen(Gzip, len(prefix)), false, false},
		{"gzip, a byte less", small, Gzip, small.answerLen(Gzip, len(prefix)) - 1, true, true},
		{"large gzip with room for all", large, Gzip, large.answerLen(Gzip, len(prefix)), true, true},
		{"zstd with room for all", small, Zstd, small.answerLen(Zstd, len(prefix)), true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dst := append(make([]byte, 0, 4+test.room), "kept"...)
			p, ok := test.e.Splice(dst, test.enc, prefix)
			if !ok || !bytes.HasPrefix(p.Head, []byte("kept")) {
				t.Fatalf("Splice = %q, %t", p.Head, ok)
			}
			if (p.Tail != nil) != test.tail || (p.Foot != nil) != test.foot {
				t.Errorf("tail %d, foot %d", len(p.Tail), len(p.Foot))
			}
			if got := len(p.Head) - 4 + len(p.Tail) + len(p.Foot); got != test.e.answerLen(test.enc, len(prefix)) {
				t.Errorf("%d bytes, want %d", got, test.e.answerLen(test.enc, len(prefix)))
			}
			if &p.Head[0] != &dst[0] {
				t.Error("dst was not used")
			}
		})
	}
}

func TestMaxCopied(t *testing.T) {
	for _, n := range []int{maxCopied, maxCopied + 1} {
		f := gzipBody{deflate: make([]byte, n)}
		p := f.splice(make([]byte, 0, f.len(1)), []byte("{"))
		if whole := p.Tail == nil; whole != (n == maxCopied) {
			t.Errorf("%d bytes: copied %t", n, whole)
		}
	}
}

func TestSpliceAllocatesNothing(t *testing.T) {
	e := mustEncode(t, listBody(50))
	for _, enc := range []Encoding{Gzip, Zstd} {
		for _, prefix := range [][]byte{nil, []byte(probe), make([]byte, maxPrefix)} {
			dst := make([]byte, 0, len(prefix)+MaxOverhead)
			if n := testing.AllocsPerRun(50, func() {
				if p, ok := e.Splice(dst, enc, prefix); !ok || &p.Head[0] != &dst[:1][0] {
					t.Fatal("dst was not used")
				}
			}); n != 0 {
				t.Errorf("%s, prefix %d: %v allocations", enc, len(prefix), n)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	body := listBody(50)
	e := mustEncode(t, body)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 4 {
				checkAnswers(t, e, fmt.Appendf(nil, `{"id":%d%s,`, i, strings.Repeat("1", j)), body)
			}
		})
	}
	wg.Wait()
}

// answerLen returns the length in bytes of an answer in encoding enc with a prefix
// of prefixLen bytes. It returns 0 for answers that Splice would refuse.
func (e *Encoded) answerLen(enc Encoding, prefixLen int) int {
	if !e.Has(enc) || prefixLen > maxPrefix {
		return 0
	}
	if enc == Gzip {
		return e.gzip.len(prefixLen)
	}
	return e.zstd.len(prefixLen)
}
