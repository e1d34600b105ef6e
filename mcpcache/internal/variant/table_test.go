package variant

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
)

// newTable returns a table whose clock stands still until it is moved.
func newTable() (t *Table, forward func(time.Duration)) {
	t = New([32]byte{1})
	now := time.Unix(1_000_000, 0)
	t.now = func() time.Time { return now }
	return t, func(d time.Duration) { now = now.Add(d) }
}

// A client that says the same in other words is of the same variant.
func TestVariantsAreCanonical(t *testing.T) {
	table, _ := newTable()
	first := table.Learn(Client{Capabilities: []byte(`{"a":{"x":1.0},"b":{}}`), Name: "n"})
	for name, c := range map[string]struct {
		client Client
		same   bool
	}{
		"again":            {Client{Capabilities: []byte(`{"a":{"x":1.0},"b":{}}`), Name: "n"}, true},
		"another order":    {Client{Capabilities: []byte(`{"b":{},"a":{"x":1.0}}`), Name: "n"}, true},
		"white space":      {Client{Capabilities: []byte(` { "a" : {"x": 1} , "b" : { } }`), Name: "n"}, true},
		"escapes":          {Client{Capabilities: []byte(`{"\u0061":{"x":1},"b":{}}`), Name: "n"}, true},
		"another value":    {Client{Capabilities: []byte(`{"a":{"x":2},"b":{}}`), Name: "n"}, false},
		"one less":         {Client{Capabilities: []byte(`{"a":{"x":1}}`), Name: "n"}, false},
		"another name":     {Client{Capabilities: []byte(`{"a":{"x":1},"b":{}}`), Name: "m"}, false},
		"no name":          {Client{Capabilities: []byte(`{"a":{"x":1},"b":{}}`)}, false},
		"another language": {Client{Capabilities: []byte(`{"a":{"x":1},"b":{}}`), Name: "n", Language: "de"}, false},
		"parts swapped":    {Client{Capabilities: []byte(`{"a":{"x":1},"b":{}}`), Language: "n"}, false},
	} {
		r := table.Learn(c.client)
		if r == nil || (r == first) != c.same || (r.Key == first.Key) != c.same {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	if table.Of(first.Key) != first || table.Of(cache.Variant{}) != nil {
		t.Error("a variant is not found by its key, or one that nobody has")
	}
	if other := New([32]byte{2}).Learn(first.Client); other.Key == first.Key {
		t.Error("two processes give a client the same key")
	}
}

func TestWhatIsNoVariant(t *testing.T) {
	table, _ := newTable()
	longest := strings.Repeat("n", maxClient-len(`{}`))
	if table.Learn(Client{Capabilities: []byte(`{}`), Name: longest}) == nil {
		t.Error("a client that says as much as it may is not remembered")
	}
	for name, c := range map[string]Client{
		"too long":        {Capabilities: []byte(`{}`), Name: longest + "n"},
		"a name repeated": {Capabilities: []byte(`{"a":{},"a":{}}`)},
		"no JSON":         {Capabilities: []byte(`{"a"`)},
	} {
		if r := table.Learn(c); r != nil {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	if got := len(table.known); got != 1 {
		t.Errorf("%d variants are remembered", got)
	}
}

// The variant that has not been met for the longest time makes room, never all.
func TestVariantsAreBounded(t *testing.T) {
	table, forward := newTable()
	client := func(n int) Client { return Client{Capabilities: fmt.Appendf(nil, `{"x":%d}`, n)} }
	for n := range maxVariants {
		table.Learn(client(n))
		forward(2 * touchEach)
	}
	if got := len(table.known); got != maxVariants {
		t.Fatalf("%d variants are remembered, want %d", got, maxVariants)
	}
	oldest, second := table.Learn(client(0)), table.keyOf(client(1)) // the oldest is met again
	table.Learn(client(maxVariants))
	if got := len(table.known); got != maxVariants || table.Of(second) != nil || table.Of(oldest.Key) == nil {
		t.Errorf("with one more, %d are remembered; the least used: %v, the one just met: %v",
			got, table.Of(second), table.Of(oldest.Key))
	}
	for n := range 10 * maxSpellings {
		table.Learn(Client{Capabilities: []byte(`{}` + strings.Repeat(" ", n))})
	}
	if len(table.spellings) > maxSpellings {
		t.Errorf("%d spellings are remembered", len(table.spellings))
	}
	if table.Of(oldest.Key) == nil {
		t.Error("other ways to write one variant have pushed another out")
	}
}
