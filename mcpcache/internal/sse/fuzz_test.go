package sse

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

var lineEnds = regexp.MustCompile("\r\n|\r|\n")

// refEvents reads a stream as the standard has it, all at once.
func refEvents(stream string) (events []Event) {
	lines := lineEnds.Split(strings.TrimPrefix(stream, "\ufeff"), -1)
	var name, id, lastID string
	var data strings.Builder
	for _, line := range lines[:len(lines)-1] { // what follows the last end is no line
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			lastID = id
			if text, ok := strings.CutSuffix(data.String(), "\n"); ok {
				if name == "" {
					name = "message"
				}
				events = append(events, Event{Name: name, ID: lastID, Data: []byte(text)})
			}
			name = ""
			data.Reset()
		case field == "data":
			data.WriteString(value + "\n")
		case field == "event":
			name = value
		case field == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	return events
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"", "data: a\n\n", "\xef\xbb\xbfid: 1\r\nevent: x\rdata:a\ndata\n\r\n", ": c\n\ndata: a\r\rdata: b", "id: a\x00\nid\n\ndata:\n\n", "retry: 5\ndata: \r\n\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		want := refEvents(stream)
		for _, src := range []io.Reader{strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream))} {
			got, _, err := readAll(NewReader(src, len(stream)))
			if err != io.EOF || len(got) != len(want) {
				t.Fatalf("got %+v, error %v, want %+v", got, err, want)
			}
			for i, event := range got {
				if event.Name != want[i].Name || event.ID != want[i].ID || !bytes.Equal(event.Data, want[i].Data) {
					t.Fatalf("event %d: got %+v, want %+v", i, event, want[i])
				}
			}
		}
	})
}

func FuzzAppendEvent(f *testing.F) {
	for _, seed := range []string{"", "a", "a\nb", "\r\n\r", "{\n}\n", ": \ufeff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		stream := AppendEvent(nil, []byte(data))
		got, _, err := readAll(NewReader(bytes.NewReader(stream), len(data)))
		want := lineEnds.ReplaceAllString(data, "\n")
		if err != io.EOF || len(got) != 1 || got[0].Name != "message" || string(got[0].Data) != want {
			t.Fatalf("got %+v, error %v, want %+v", got, err, want)
		}
	})
}

var (
	refEscape = regexp.MustCompile(`\\u00([0-9a-fA-F]{2})|\\/`)
	refNotice = regexp.MustCompile(strings.Join(notices[:], "|"))
)

// refScan returns the kinds of the notices in a text: unescaped in one go, as it
// is, and for every way to read its backslashes.
func refScan(text string) (found revision.KindSet) {
	plain := refEscape.ReplaceAllStringFunc(text, func(escape string) string {
		var c byte
		if _, err := fmt.Sscanf(escape, `\u00%02x`, &c); err != nil {
			return "/"
		}
		return string(rune(c))
	})
	for _, method := range refNotice.FindAllString(plain, -1) {
		found |= revision.Changed(method)
	}
	return found
}

// FuzzWatcher puts notices, spelled at random, into a stream that is cut at
// random, and wants each of them reported with the chunk that has its end.
func FuzzWatcher(f *testing.F) {
	f.Add([]byte("data: {}\n\n"), uint64(1), uint8(4))
	f.Add([]byte(`\u006e\\notifications/\u00`), uint64(2), uint8(200))
	f.Add([]byte(`"notifications\/tools\/list_changed"`), uint64(3), uint8(0))
	f.Add(bytes.Repeat([]byte(`x`), 1000), uint64(4), uint8(255))
	f.Fuzz(func(t *testing.T, noise []byte, seed uint64, spread uint8) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var stream []byte
		due := map[int]revision.KindSet{} // by the index of the last byte
		for range rng.IntN(4) + 1 {
			stream = append(stream, noise[:rng.IntN(len(noise)+1)]...)
			method := notices[rng.IntN(len(notices))]
			stream = append(append(stream, '"'), spell(rng, method)...)
			due[len(stream)-1] |= revision.Changed(method)
		}
		stream = append(stream, noise...)

		var w, whole Watcher
		var union revision.KindSet
		for at := 0; at < len(stream); {
			next := min(at+rng.IntN(int(spread)+2), len(stream)) // chunks may be empty
			got := w.Scan(bytes.Clone(stream[at:next]))
			union |= got
			for ; at < next; at++ {
				if got|due[at] != got {
					t.Fatalf("got %b with the end of %b at byte %d of %q", got, due[at], at, stream)
				}
			}
		}
		if got := whole.Scan(stream); got != union {
			t.Fatalf("got %b in one piece, %b in many of %q", got, union, stream)
		}
		if want := refScan(string(stream)); union|want != union {
			t.Fatalf("got %b, want at least %b of %q", union, want, stream)
		}
	})
}

// spell writes a text as some JSON encoder might.
func spell(rng *rand.Rand, text string) (out []byte) {
	chance := rng.IntN(4)
	for i := range len(text) {
		switch c := text[i]; {
		case rng.IntN(4) >= chance:
			out = append(out, c)
		case c == '/' && rng.IntN(2) == 0:
			out = append(out, `\/`...)
		case rng.IntN(2) == 0:
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = fmt.Appendf(out, `\u%04X`, c)
		}
	}
	return out
}
