package sse

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll returns all events with their data copied, and the last one's error.
func readAll(r *Reader) (events []Event, last Event, err error) {
	for {
		event, err := r.Next()
		if err != nil {
			return events, event, err
		}
		event.Data = bytes.Clone(event.Data)
		events = append(events, event)
	}
}

func TestReader(t *testing.T) {
	for name, tt := range map[string]struct {
		stream string
		want   []Event
	}{
		"nothing":         {"", nil},
		"one":             {"data: a\n\n", []Event{{Name: "message", Data: []byte("a")}}},
		"named":           {"event: x\ndata: a\n\ndata: b\n\n", []Event{{Name: "x", Data: []byte("a")}, {Name: "message", Data: []byte("b")}}},
		"CRLF":            {"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []Event{{Name: "message", Data: []byte("a\nb")}, {Name: "message", Data: []byte("c")}}},
		"CR":              {"data: a\rdata: b\r\rdata: c\r\r", []Event{{Name: "message", Data: []byte("a\nb")}, {Name: "message", Data: []byte("c")}}},
		"mixed ends":      {"data: a\n\rdata: b\r\n\ndata: c\r\r\n", []Event{{Name: "message", Data: []byte("a")}, {Name: "message", Data: []byte("b")}, {Name: "message", Data: []byte("c")}}},
		"byte order mark": {"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", []Event{{Name: "message", Data: []byte("a")}}},
		"comments":        {": hi\n\n:\ndata: a\n:x\ndata: b\n\n", []Event{{Name: "message", Data: []byte("a\nb")}}},
		"one space":       {"data:a\ndata:  b\ndata\ndata: \n\n", []Event{{Name: "message", Data: []byte("a\n b\n\n")}}},
		"empty data":      {"data\n\ndata:\n\n", []Event{{Name: "message", Data: []byte{}}, {Name: "message", Data: []byte{}}}},
		"no data":         {"event: x\n\ndata: a\n\n", []Event{{Name: "message", Data: []byte("a")}}},
		"unknown field":   {"foo: x\nData: y\n data: z\ndata: a\n\n", []Event{{Name: "message", Data: []byte("a")}}},
		"colons":          {"data: {\"a\":1}\n\n", []Event{{Name: "message", Data: []byte(`{"a":1}`)}}},
		"pending":         {"data: a\n\ndata: b\n", []Event{{Name: "message", Data: []byte("a")}}},
		"pending line":    {"data: a\n\ndata: b", []Event{{Name: "message", Data: []byte("a")}}},
		"id and retry":    {"id: 1\nretry: 5\n\nid: 2\nretry: 5\ndata: b\n\n", []Event{{Name: "message", Data: []byte("b")}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, src := range []io.Reader{
				strings.NewReader(tt.stream),
				iotest.OneByteReader(strings.NewReader(tt.stream)),
				iotest.DataErrReader(strings.NewReader(tt.stream)),
			} {
				got, last, err := readAll(NewReader(src, 100))
				if err != io.EOF || !reflect.DeepEqual(got, tt.want) {
					t.Errorf("got %+v, error %v, want %+v", got, err, tt.want)
				}
				if last.Name != "" || last.Data != nil {
					t.Errorf("got %+v with the error", last)
				}
			}
		})
	}
}

// An event is due when its blank line has begun: the LF of a CRLF may be long in coming.
func TestReaderDoesNotWait(t *testing.T) {
	for _, stream := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r"} {
		pr, pw := io.Pipe()
		go pw.Write([]byte(stream)) // and nothing more
		event, err := NewReader(pr, 100).Next()
		if err != nil || string(event.Data) != "a" {
			t.Errorf("%q: got %q, error %v", stream, event.Data, err)
		}
		pr.Close()
	}
}

func TestReaderTooLarge(t *testing.T) {
	const limit = 10_000
	long := strings.Repeat("x", limit)
	for name, tt := range map[string]struct {
		stream string
		want   error
	}{
		"one line":           {"data: " + long + "\n\n", nil},
		"one line, more":     {"data: " + long + "x\n\n", ErrTooLarge},
		"two lines":          {"data: " + long[:limit-1] + "\ndata:\n\n", nil},
		"two lines, more":    {"data: " + long[:limit-1] + "\ndata:x\n\n", ErrTooLarge},
		"two events":         {"data: " + long + "\n\ndata: " + long + "\n\n", nil},
		"many comments":      {strings.Repeat(":"+long+"\n", 3) + "data: a\n\n", nil},
		"endless line":       {": " + long + long, ErrTooLarge},
		"first line and BOM": {string(bom) + "data: " + long + "\n\n", nil},
		"many empty lines":   {strings.Repeat("data\n", limit+2), ErrTooLarge},
	} {
		r := NewReader(strings.NewReader(tt.stream), limit)
		_, _, err := readAll(r)
		if tt.want == nil && err != io.EOF || tt.want != nil && err != tt.want {
			t.Errorf("%s: got error %v, want %v", name, err, tt.want)
		}
		if _, again := r.Next(); again != err {
			t.Errorf("%s: got error %v after %v", name, again, err)
		}
	}
}

func TestReaderError(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 100)
	if event, err := r.Next(); err != nil || string(event.Data) != "a" {
		t.Fatalf("got %q, error %v", event.Data, err)
	}
	if _, err := r.Next(); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
}

func TestReaderDropsLargeBuffers(t *testing.T) {
	r := NewReader(strings.NewReader("data: "+strings.Repeat("x", 1<<20)+"\n\ndata: a\n\n"), 2<<20)
	for range 2 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(r.split.data) > keptBuffer || cap(r.split.line) > keptBuffer {
		t.Errorf("kept buffers of %d and %d bytes", cap(r.split.data), cap(r.split.line))
	}
}

// TestSplitter: pieces give the events of the whole, and comments if they are wanted.
func TestSplitter(t *testing.T) {
	long := strings.Repeat("x", 2*keptBuffer)
	stream := ": hello\r\n\r\nevent: a\ndata: 1\n:\ndata: 2\n\ndata: " + long + "\ndata: 3\n\ndata:" + long + "\n\n"
	want := []string{":", ":", "1\n2", long + "\n3", long}
	for _, size := range []int{1, 7, 4096, len(stream)} {
		s := Splitter{MaxEvent: 3 * keptBuffer, Comments: true}
		var got []string
		for piece := range slices.Chunk([]byte(stream), size) {
			for {
				event, rest, found, err := s.Next(piece)
				if err != nil {
					t.Fatal(err)
				}
				if !found {
					break
				}
				if piece = rest; event.Comment {
					got = append(got, ":")
				} else {
					got = append(got, string(event.Data))
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pieces of %d, got %d events", size, len(got))
		}
		if held := s.Held(); held > 8*keptBuffer {
			t.Errorf("%d bytes are held", held)
		}
	}
}
