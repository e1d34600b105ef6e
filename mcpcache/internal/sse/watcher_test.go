package sse

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// spellings returns ways in which JSON may write an ASCII text.
func spellings(text string) []string {
	var lower, upper, mixed strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&lower, `\u%04x`, text[i])
		fmt.Fprintf(&upper, `\u%04X`, text[i])
		if i%3 == 0 {
			fmt.Fprintf(&mixed, `\u%04x`, text[i])
		} else {
			mixed.WriteByte(text[i])
		}
	}
	slashes := strings.ReplaceAll(text, "/", `\/`)
	underscore := strings.ReplaceAll(text, "_", `\u005F`)
	last := text[:len(text)-1] + fmt.Sprintf(`\u%04x`, text[len(text)-1])
	return []string{text, slashes, underscore, lower.String(), upper.String(), mixed.String(), last}
}

func TestWatcherFindsEverySpellingAndSplit(t *testing.T) {
	for _, method := range notices {
		want := revision.Changed(method)
		if want == 0 {
			t.Fatalf("%s concerns nothing", method)
		}
		for _, spelling := range spellings(method) {
			stream := []byte(`data: {"jsonrpc":"2.0","method":"` + spelling + `"}` + "\n\n")
			end := bytes.Index(stream, []byte(spelling)) + len(spelling)
			for size := 1; size <= len(stream); size++ {
				var w Watcher
				for at := 0; at < len(stream); at += size {
					next := min(at+size, len(stream))
					got := w.Scan(stream[at:next])
					if due := at < end && end <= next; due && got != want || !due && got != 0 {
						t.Fatalf("%s in chunks of %d: got %b at byte %d", spelling, size, got, at)
					}
				}
			}
		}
	}
}

func TestWatcherIgnores(t *testing.T) {
	for _, text := range []string{
		"",
		`{"method":"notifications/roots/list_changed"}`,
		`{"method":"notifications/tools/list"}`,
		`{"method":"notifications/tools/updated"}`,
		`{"method":"notifications/toolsXlist_changed"}`,
		`{"method":"Notifications/tools/list_changed"}`,
		`{"method":"tools/list_changed"}`,
		`{"method":"notifications\ntools/list_changed"}`,
		`{"method":"notifications\u012ftools/list_changed"}`,
		`{"method":"notifications\u00zftools/list_changed"}`,
		`{"method":"notifications\`,
		`{"method":"notifications\u002`,
		`\u00`, `\u`, `\`, `list_changed`, `/updated`,
	} {
		var w Watcher
		if got := w.Scan([]byte(text)); got != 0 {
			t.Errorf("%s: got %b", text, got)
		}
	}
}

func TestWatcherFindsSeveral(t *testing.T) {
	var w Watcher
	chunk := []byte(`notifications/tools/list_changed notifications/x notifications\/prompts\/list_changednotifications/resources/updated`)
	if got, want := w.Scan(chunk), revision.SetOf(revision.Tools, revision.Prompts, revision.Reads); got != want {
		t.Errorf("got %b, want %b", got, want)
	}
	if got := w.Scan(nil); got != 0 {
		t.Errorf("got %b again", got)
	}
	if got, want := w.Scan([]byte(`notifications/resources/list_changed`)), revision.SetOf(revision.Resources, revision.ResourceTemplates); got != want {
		t.Errorf("got %b, want %b", got, want)
	}
}

// What comes before a notice must not hide it.
func TestWatcherAfterAnything(t *testing.T) {
	const method = "notifications/tools/list_changed"
	for _, before := range []string{`\`, `\\`, `\u`, `\u00`, `\u00"`, `\u006`, "n", "notifications/", "notifications/tools/list_", `\u006e`, "\xff"} {
		for _, spelling := range spellings(method) {
			var w Watcher
			w.Scan([]byte(before))
			if got := w.Scan([]byte(`"` + spelling)); got != revision.SetOf(revision.Tools) {
				t.Errorf("%s after %q: got %b", spelling, before, got)
			}
		}
	}
}

func TestWatcherAllocatesNothing(t *testing.T) {
	var w Watcher
	plain, noisy := traffic(64<<10), []byte(`{"a":"\u0061","method":"notifications/tools/list_changed"}`)
	if allocs := testing.AllocsPerRun(10, func() { w.Scan(plain); w.Scan(noisy) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// traffic returns an event stream of tool results without notices. It has many
// of the bytes that notices have, and escapes.
func traffic(size int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields(`the list of tools that changed since last update is in file /var/lib/data_set/updates.json, see
		notes \"quoted\" path\\to \n and <b>bold\u003c/b\u003e caf\u00e9 number 3.14159 null true https://example.com/a/b?c=d_e`)
	var b bytes.Buffer
	for b.Len() < size {
		fmt.Fprintf(&b, `data: {"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"`, rng.IntN(1000))
		for range 200 {
			b.WriteString(words[rng.IntN(len(words))])
			b.WriteByte(' ')
		}
		b.WriteString("\"}]}}\n\n")
	}
	return b.Bytes()[:size]
}

func BenchmarkWatcher(b *testing.B) {
	list := []byte(`{"name":"read","description":"Reads a file and returns it.","inputSchema":{"type":"object","required":["path"]}},`)
	for name, chunk := range map[string][]byte{
		"64KiB list":    bytes.Repeat(list, 64<<10/len(list)),
		"64KiB slashes": traffic(64 << 10),
		"64KiB letters": bytes.Repeat([]byte("l"), 64<<10),
		"64KiB escapes": bytes.Repeat([]byte(`\u0061\u006e`), 64<<10/12),
		"200B":          traffic(200),
		"notice":        []byte(`data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n\n"),
	} {
		b.Run(name, func(b *testing.B) {
			var w Watcher
			b.SetBytes(int64(len(chunk)))
			b.ReportAllocs()
			for b.Loop() {
				w.Scan(chunk)
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	stream := traffic(1 << 20)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(stream), 1<<20)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}
