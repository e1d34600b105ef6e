package sse

import (
	"io"
	"strings"
	"testing"
)

func TestAppendEvent(t *testing.T) {
	for data, want := range map[string]string{
		"":          "event: message\ndata: \n\n",
		`{"a":1}`:   "event: message\ndata: {\"a\":1}\n\n",
		"{\n 1}":    "event: message\ndata: {\ndata:  1}\n\n",
		"a\r\nb\rc": "event: message\ndata: a\ndata: b\ndata: c\n\n",
		"a\n":       "event: message\ndata: a\ndata: \n\n",
		"\r\n\n\r":  "event: message\ndata: \ndata: \ndata: \ndata: \n\n",
	} {
		if got := string(AppendEvent([]byte("x"), []byte(data))); got != "x"+want {
			t.Errorf("%q: got %q, want %q", data, got, "x"+want)
		}
	}
	dst, data := make([]byte, 0, 128), []byte("a\nb")
	if allocs := testing.AllocsPerRun(100, func() { AppendEvent(dst, data) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestFind(t *testing.T) {
	stream := []byte("data: a1\n\ndata: b1\n\n: c\n\ndata: b2\n\ndata: d")
	for prefix, want := range map[string]string{"a": "a1", "b": "b1", "c": "", "d": ""} {
		got := Find(stream, func(data []byte) bool { return strings.HasPrefix(string(data), prefix) })
		if string(got) != want || (got == nil) != (want == "") {
			t.Errorf("%s: got %q, want %q", prefix, got, want)
		}
	}
	if got := Find(nil, func([]byte) bool { return true }); got != nil {
		t.Errorf("got %q of an empty stream", got)
	}
}

func TestAppendEventIsRead(t *testing.T) {
	stream := AppendEvent(AppendEvent(nil, []byte("one\ntwo")), []byte("three"))
	got, _, err := readAll(NewReader(strings.NewReader(string(stream)), 100))
	if err != io.EOF || len(got) != 2 || string(got[0].Data) != "one\ntwo" || string(got[1].Data) != "three" {
		t.Errorf("got %+v, error %v", got, err)
	}
}
