package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// model is what a bounded store should hold: for each question the newest answer that
// was put, in a map.
type model struct {
	t        testing.TB
	c        *Cache
	memory   int64
	roomy    bool // everything fits, so that nothing may be missing
	newest   map[string]*Entry
	clock    time.Duration
	attempts int
}

// questionOf returns one of a few questions that differ in every part.
func questionOf(a, b byte) Question {
	details := [][]byte{nil, {}, []byte(`"1"`)}
	return Question{
		Revision:  []revision.Revision{revision.V20251125, revision.V20260728}[a%2],
		Kind:      []revision.Kind{revision.Tools, revision.Reads}[a/2%2],
		Partition: []Partition{Anonymous, Public, contextNumber(1)}[b%3],
		Variant:   Variant{a / 4 % 2},
		Detail:    details[b/3%3],
	}
}

// step does one thing to both and compares them.
func (m *model) step(op, a, b, size byte) {
	m.clock++
	q := questionOf(a, b)
	switch op % 16 {
	case 0:
		m.c.Bump(revision.SetOf(q.Kind))
	case 1:
		m.c.DropPages(q.Kind)
	case 2:
		m.c.Purge()
		clear(m.newest)
	case 3:
		m.c.SetMemory(m.memory + int64(size))
	case 4, 5:
		// An answer that was under way for long.
		e := m.c.entry(q, fmt.Sprint(m.clock), m.clock-time.Duration(size)/8)
		m.put(e)
	case 6, 7, 8, 9, 10:
		e := m.c.entry(q, fmt.Sprint(m.clock), m.clock)
		m.put(e.ofCost(entryOverhead + 64 + int64(size)*m.memory/1024))
	default:
		m.compare(q)
	}
}

func (m *model) put(e *Entry) {
	m.attempts++
	key := string(appendKey(nil, e.question()))
	present := m.c.Get(e.question())
	kept := m.c.Put(e)
	if kept != (m.c.Get(e.question()) == e) {
		m.t.Fatalf("kept %v, but found otherwise", kept)
	}
	if present == nil || !present.newerThan(e) {
		m.newest[key] = e
	}
	m.compare(e.question())
}

func (m *model) compare(q Question) {
	want := m.newest[string(appendKey(nil, q))]
	got := m.c.Get(q)
	fits := want != nil && want.cost() <= m.memory/eighths*(boundedShare+compressedShare)/largestShare
	if got != want && (got != nil || m.roomy && fits) {
		m.t.Fatalf("after %d puts: %+v gives %v, want %v", m.attempts, q, got, want)
	}
	if bytes := m.c.used(); bytes < 0 || bytes > m.memory+255 {
		m.t.Fatalf("uses %d of %d bytes", bytes, m.memory)
	}
}

func newModel(t testing.TB, roomy bool) *model {
	// 144 questions of at most an eighth, or of all together a fraction.
	m := &model{t: t, memory: 64 << 10, roomy: roomy, newest: make(map[string]*Entry)}
	if roomy {
		m.memory = 64 << 20
	}
	m.c = newCache(t, m.memory)
	return m
}

// FuzzBounded drives a bounded store and a map with the same steps, four bytes each.
func FuzzBounded(f *testing.F) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, seed))
		steps := make([]byte, 4*2000)
		for i := range steps {
			steps[i] = byte(r.Uint32())
		}
		f.Add(steps, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, steps []byte, roomy bool) {
		m := newModel(t, roomy)
		for ; len(steps) >= 4; steps = steps[4:] {
			size := steps[3]
			if roomy {
				size %= 4 // 144 entries of 4/1024 of the memory fit
			}
			m.step(steps[0], steps[1], steps[2], size)
		}
	})
}
