package sse

import (
	"bytes"
	"testing"
)

func TestTake(t *testing.T) {
	for stream, want := range map[string]string{
		"data: a\n\n":                               "a",
		"\xef\xbb\xbfdata:a\r\n\r\n":                "a",
		"id: 1\n\ndata: x\n\nevent: y\rdata: a\r\r": "a",
		"data: a\ndata\ndata:  b\n: data: c\n\n":    "a\n\n b",
		"data: x\n\ndata: a":                        "",
		"data:\n\ndata: x\n\n":                      "",
	} {
		got := Take([]byte(stream), func(data []byte) bool { return bytes.HasPrefix(data, []byte("a")) })
		if string(got) != want {
			t.Errorf("%q: got %q, want %q", stream, got, want)
		}
	}
}

// Take finds what Find finds.
func FuzzTake(f *testing.F) {
	f.Add([]byte("data: a\n\ndata: b\ndata: c\r\n\r\n"), 1)
	f.Add([]byte("\xef\xbb\xbf: x\rdata\r\ndata:y\n\n\nid:\x00\n\n"), 0)
	f.Fuzz(func(t *testing.T, stream []byte, skip int) {
		pick := func() func([]byte) bool {
			n := 0
			return func([]byte) bool { n++; return n > skip }
		}
		want := Find(stream, pick())
		if got := Take(bytes.Clone(stream), pick()); !bytes.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", stream, got, want)
		}
	})
}
