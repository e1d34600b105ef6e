package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

var lineEnds = regexp.MustCompile("\r\n|\r|\n")

// refEvents reads a stream as the standard has it, all at once.
func refEvents(stream string) (events []Event) {
	lines := lineEnds.Split(strings.TrimPrefix(stream, "\ufeff"), -1)
	var name string
	var data strings.Builder
	for _, line := range lines[:len(lines)-1] { // what follows the last end is no line
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if text, ok := strings.CutSuffix(data.String(), "\n"); ok {
				if name == "" {
					name = "message"
				}
				events = append(events, Event{Name: name, Data: []byte(text)})
			}
			name = ""
			data.Reset()
		case field == "data":
			data.WriteString(value + "\n")
		case field == "event":
			name = value
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
				if event.Name != want[i].Name || !bytes.Equal(event.Data, want[i].Data) {
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

// refHeard returns the methods of the notices in JSON as a lenient parser has
// them: of one message or an array, names in any case and repeated ones too. It
// reports false if the text is not JSON.
func refHeard(text []byte) (methods []string, ok bool) {
	if !json.Valid(text) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	level, isName, isMethod := 1, false, false
	var open []json.Delim
	if text = bytes.TrimLeft(text, " \t\r\n"); text[0] == '[' {
		level = 2
	}
	for {
		token, err := d.Token()
		if err != nil {
			return methods, errors.Is(err, io.EOF)
		}
		inMessage := func() bool { return len(open) == level && open[level-1] == '{' }
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				open = append(open, v)
			} else {
				open = open[:len(open)-1]
			}
			isName = inMessage()
			continue
		case string:
			if inMessage() && !isName && isMethod && (v == Acknowledged || revision.Changed(v) != 0) {
				methods = append(methods, v)
			}
			if inMessage() && isName {
				isMethod = strings.EqualFold(v, "method")
			}
		}
		isName = inMessage() && !isName
	}
}

// refStream returns the methods of the notices in a stream, and whether all of
// its events are JSON.
func refStream(stream string) (methods []string, clean bool) {
	clean = true
	for _, event := range refEvents(stream) {
		got, ok := refHeard(event.Data)
		methods = append(methods, got...)
		clean = clean && ok
	}
	return methods, clean
}

// FuzzWatcher wants what a slow reader finds in any body, however it is split,
// and nothing else where all of it is JSON.
func FuzzWatcher(f *testing.F) {
	for _, message := range messagesWithNotice {
		f.Add(message, uint64(1))
		f.Add("data: "+message+"\n\n", uint64(2))
		f.Add("event: x\rdata: "+message+"\r\r: \ndata: {}\n\n", uint64(3))
		f.Add(`{"result":{"x":`+message+`}}`, uint64(4))
	}
	f.Fuzz(func(t *testing.T, body string, seed uint64) {
		check := func(format Format, what string, want []string, exact bool) {
			whole := heardIn(format, what, len(what))
			rng := rand.New(rand.NewPCG(seed, 0))
			w := Watcher{Format: format}
			var parts []string
			for at := 0; at < len(what); {
				next := min(at+rng.IntN(10), len(what)) // chunks may be empty
				w.Scan([]byte(what[at:next]), func(method string) { parts = append(parts, method) })
				at = next
			}
			if !slices.Equal(whole, parts) && !loneCR.MatchString(what) {
				t.Fatalf("format %d: got %q in one piece, %q in many of %q", format, whole, parts, what)
			}
			for _, method := range want {
				if !slices.Contains(parts, method) || !slices.Contains(whole, method) {
					t.Fatalf("format %d: got %q, want %q of %q", format, parts, want, what)
				}
			}
			if exact && !slices.Equal(whole, want) {
				t.Fatalf("format %d: got %q, want no more than %q of %q", format, whole, want, what)
			}
		}
		methods, ok := refHeard([]byte(body))
		check(JSON, body, methods, ok)
		methods, clean := refStream(body + "\n\n")
		if !loneCR.MatchString(body) {
			check(Stream, body+"\n\n", methods, clean)
			return
		}
		// There, some take the CR for a line end and some do not.
		loose, _ := refStream(strings.ReplaceAll(body, "\r", " ") + "\n\n")
		check(Stream, body+"\n\n", append(methods, loose...), false)
	})
}

var loneCR = regexp.MustCompile("\r([^\n]|$)")

// FuzzWatcherSpelling spells notices at random.
func FuzzWatcherSpelling(f *testing.F) {
	f.Add(uint64(1), uint8(4))
	f.Fuzz(func(t *testing.T, seed uint64, size uint8) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var stream []byte
		var want []string
		for range rng.IntN(4) + 1 {
			method := append(notices[:], Acknowledged)[rng.IntN(len(notices)+1)]
			stream = append(append(append(stream, `data: {"`...), spell(rng, "method")...), `":"`...)
			stream = append(append(stream, spell(rng, method)...), "\"}\n\n"...)
			want = append(want, method)
		}
		if got := heardIn(Stream, string(stream), int(size)+1); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q of %q", got, want, stream)
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
