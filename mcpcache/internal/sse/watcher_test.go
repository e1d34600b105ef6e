package sse

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
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

// heardIn returns what a watcher hears in a body that comes in chunks of a size.
func heardIn(format Format, body string, size int) (methods []string) {
	w := Watcher{Format: format}
	for len(body) > 0 {
		n := min(size, len(body))
		w.Scan([]byte(body[:n]), func(method string) { methods = append(methods, method) })
		body = body[n:]
	}
	return methods
}

// wantHeard checks what is heard in a body, however it is split.
func wantHeard(t *testing.T, format Format, body string, want ...string) {
	t.Helper()
	for size := 1; size <= len(body); size++ {
		if got := heardIn(format, body, size); !slices.Equal(got, want) {
			t.Fatalf("%q in chunks of %d: got %q, want %q", body, size, got, want)
		}
	}
}

const notice = "notifications/tools/list_changed"

// messagesWithNotice are spellings of a notice that some client acts on.
var messagesWithNotice = map[string]string{
	"plain":               `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
	"no jsonrpc":          `{"method":"notifications/tools/list_changed"}`,
	"another jsonrpc":     `{"jsonrpc":1.0,"method":"notifications/tools/list_changed"}`,
	"params null":         `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":null}`,
	"params array":        `{"jsonrpc":"2.0","params":[],"method":"notifications/tools/list_changed"}`,
	"params before":       `{"params":{"method":"x","a":[{"b":"}"}]},"method":"notifications/tools/list_changed"}`,
	"_meta null":          `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":null}}`,
	"id null":             `{"jsonrpc":"2.0","id":null,"method":"notifications/tools/list_changed"}`,
	"an id":               `{"jsonrpc":"2.0","id":7,"method":"notifications/tools/list_changed"}`,
	"a result":            `{"jsonrpc":"2.0","result":{},"method":"notifications/tools/list_changed"}`,
	"repeated, first":     `{"method":"notifications/tools/list_changed","method":"x"}`,
	"repeated, last":      `{"method":"x","method":"notifications/tools/list_changed"}`,
	"repeated jsonrpc":    `{"jsonrpc":"2.0","jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
	"of another kind":     `{"method":{"method":[]},"method":"notifications/tools/list_changed"}`,
	"another case":        `{"METHOD":"notifications/tools/list_changed"}`,
	"mixed case":          `{"Method":"notifications/tools/list_changed"}`,
	"escaped name":        `{"m\u0065thod":"notifications/tools/list_changed"}`,
	"escaped slashes":     `{"method":"notifications\/tools\/list_changed"}`,
	"escaped in part":     `{"method":"\u006eotifications\/tools\u002Flist_change\u0064"}`,
	"white space":         "{ \"method\"\t:\n\r \"notifications/tools/list_changed\" }",
	"array":               `[{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}]`,
	"array with others":   `[{"id":1,"result":{"tools":[]}},7,"x",{"method":"notifications/tools/list_changed"}]`,
	"after another":       `{"method":"x"} {"method":"notifications/tools/list_changed"}`,
	"before garbage":      `{"method":"notifications/tools/list_changed"} ]}"`,
	"after garbage":       `]}] {"method":"notifications/tools/list_changed"}`,
	"not a number":        `{"params":{"x":NaN},"method":"notifications/tools/list_changed"}`,
	"broken UTF-8":        "{\"params\":{\"x\":\"\xff\xc0\"},\"method\":\"notifications/tools/list_changed\"}",
	"quotes before":       `{"x":"\\","y":"\"","z\\\"":"\u0022}","method":"notifications/tools/list_changed"}`,
	"a mention before":    `{"x":"notifications/tools/list_changed","method":"notifications/tools/list_changed"}`,
	"a byte order mark":   "\xef\xbb\xbf{\"method\":\"notifications/tools/list_changed\"}",
	"deep inside and out": `{"params":` + strings.Repeat("[{\"method\":", 300) + "0" + strings.Repeat("}]", 300) + `,"method":"notifications/tools/list_changed"}`,
}

func TestWatcherHearsEverySpelling(t *testing.T) {
	for name, message := range messagesWithNotice {
		t.Run(name, func(t *testing.T) {
			wantHeard(t, JSON, message, notice)
			for _, end := range []string{"\n", "\r\n"} {
				lines := "data: " + strings.ReplaceAll(strings.ReplaceAll(message, "\r", ""), "\n", end+"data:") + end
				wantHeard(t, Stream, lines, notice)
				wantHeard(t, Stream, "event: else"+end+"id: 1"+end+lines+end+": comment"+end+end, notice)
				wantHeard(t, Stream, "data: {\"a\":\"}"+end+end+lines+end, notice) // after one that was cut off
			}
		})
	}
	for _, method := range append(notices[:], Acknowledged) {
		for _, spelling := range spellings(method) {
			wantHeard(t, JSON, `{"method":"`+spelling+`"}`, method)
		}
	}
}

func TestWatcherHearsEveryFraming(t *testing.T) {
	const message = `{"method":"notifications/tools/list_changed"}`
	for name, stream := range map[string]string{
		"no space":                 "data:" + message + "\n\n",
		"two spaces":               "data:  " + message + "\n\n",
		"a byte order mark":        "\xef\xbb\xbfdata: " + message + "\n\n",
		"no end":                   "data: " + message,
		"several lines":            "data: {\ndata: \"method\"\ndata:\ndata: :\ndata: \"notifications/tools/list_changed\"}\n\n",
		"with others between":      "data: {\nevent: x\n: \"\ndata\ndata: \"method\":\"notifications/tools/list_changed\"}\n\n",
		"two messages in an event": "data: {\"id\":1,\"result\":{}}\ndata: " + message + "\n\n",
		"a line each for the SDK":  "data: {\"id\":1,\r\"method\":\"notifications/tools/list_changed\"}\n\n", // CR as white space
		"after a lone CR":          "data: {\"a\":\"\r\r\ndata: " + message + "\r\r",
	} {
		t.Run(name, func(t *testing.T) {
			for size := range len(stream) {
				if got := slices.Compact(heardIn(Stream, stream, size+1)); !slices.Equal(got, []string{notice}) {
					t.Fatalf("in chunks of %d: got %q", size+1, got)
				}
			}
		})
	}
	for _, stream := range []string{"data: " + message + "\r\r", "event: x\rdata: " + message + "\r\rdata: {}\r\r"} {
		for size := range len(stream) {
			if got := heardIn(Stream, stream, size+1); !slices.Contains(got, notice) {
				t.Fatalf("%q in chunks of %d: got %q", stream, size+1, got)
			}
		}
	}
}

// What certainly no client takes for a notice costs no refresh.
func TestWatcherIgnoresMentions(t *testing.T) {
	for name, message := range map[string]string{
		"nothing":            "",
		"text in a result":   `{"id":1,"result":{"content":[{"text":"notifications/tools/list_changed"}]}}`,
		"a quoted message":   `{"id":1,"result":{"text":"{\"method\":\"notifications/tools/list_changed\"}"}}`,
		"a member of params": `{"method":"x","params":{"method":"notifications/tools/list_changed"}}`,
		"a member of result": `{"id":1,"result":{"method":"notifications/tools/list_changed"}}`,
		"in an array":        `[{"result":{"method":"notifications/tools/list_changed"}},{"method":"x","a":[{"method":"notifications/tools/list_changed"}]}]`,
		"another member":     `{"methods":"notifications/tools/list_changed","x":"notifications/tools/list_changed"}`,
		"a name":             `{"notifications/tools/list_changed":"method"}`,
		"an array's element": `["method","notifications/tools/list_changed"]`,
		"a list of methods":  `{"method":["notifications/tools/list_changed"]}`,
		"a string":           `"method":"notifications/tools/list_changed"`,
		"longer":             `{"method":"notifications/tools/list_changed2"}`,
		"much longer":        `{"method":"notifications/subscriptions/acknowledged` + strings.Repeat("d", 100) + `"}`,
		"shorter":            `{"method":"otifications/tools/list_changed"}`,
		"another notice":     `{"method":"notifications/roots/list_changed"}`,
		"another case":       `{"method":"Notifications/tools/list_changed"}`,
		"other characters":   `{"method":"notifications\u012ftools/list_changed","method":"notifications\u00zftools/list_changed"}`,
		"other escapes":      `{"method":"\notifications/tools/list_changed"}`,
	} {
		t.Run(name, func(t *testing.T) {
			wantHeard(t, JSON, message)
			wantHeard(t, Stream, "data: "+message+"\n\n")
		})
	}
	const message = `{"method":"notifications/tools/list_changed"}`
	for _, stream := range []string{
		": " + message + "\n\n", "id: " + message + "\n\n", "date: " + message + "\n\n", "datas: " + message + "\n\n", "data" + message + "\n\n",
		message, "\xef\xbbdata: " + message + "\n\n", "\n\xef\xbb\xbfdata: " + message + "\n\n", "\ndat\na: " + message + "\n\n",
	} {
		wantHeard(t, Stream, stream)
	}
	wantHeard(t, Unwatched, message)
}

// Of what can't be read, each part may be a notice of everything.
func TestWatcherOfWhatCannotBeRead(t *testing.T) {
	w := Watcher{Format: Unreadable}
	for _, chunk := range []string{"\x1f\x8b", "x"} {
		var got []string
		w.Scan([]byte(chunk), func(method string) { got = append(got, method) })
		if !slices.Equal(got, notices[:]) {
			t.Errorf("got %q", got)
		}
	}
	w.Scan(nil, func(method string) { t.Errorf("got %s of nothing", method) })
	for _, method := range notices {
		if revision.Changed(method) == 0 {
			t.Errorf("%s concerns nothing", method)
		}
	}
}

func TestWatcherAllocatesNothing(t *testing.T) {
	plain, noisy := traffic(64<<10), []byte("data: {\"METHOD\":\"notifications\\/tools/list_changed\"}\r\r")
	for _, format := range []Format{JSON, Stream, Unreadable} {
		w := Watcher{Format: format}
		var found revision.KindSet
		hear := func(method string) { found |= revision.Changed(method) }
		if allocs := testing.AllocsPerRun(10, func() { w.Scan(plain, hear); w.Scan(noisy, hear) }); allocs != 0 {
			t.Errorf("format %d: %v allocations", format, allocs)
		}
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
	inData := func(s string) []byte { return []byte("data: {" + s + "}\n\n") }
	for name, chunk := range map[string][]byte{
		"64KiB list":    inData(`"tools":[` + string(bytes.Repeat(list, 64<<10/len(list))) + "0]"),
		"64KiB text":    traffic(64 << 10),
		"64KiB letters": inData(`"x":"` + strings.Repeat("l", 64<<10) + `"`),
		"64KiB escapes": inData(`"x":"` + strings.Repeat(`\u0061\u006e`, 64<<10/12) + `"`),
		"64KiB numbers": inData(`"x":[` + strings.Repeat("1,", 32<<10) + "0]"),
		"200B":          traffic(200),
		"notice":        []byte(`data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n\n"),
	} {
		b.Run(name, func(b *testing.B) {
			w := Watcher{Format: Stream}
			b.SetBytes(int64(len(chunk)))
			b.ReportAllocs()
			for b.Loop() {
				w.Scan(chunk, func(string) {})
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

// TestWatcherHearsIDs: the ids of messages are heard as they are written, however the body is split.
func TestWatcherHearsIDs(t *testing.T) {
	long := `"` + strings.Repeat("x", 2*maxID) + `"`
	for body, want := range map[string][]string{
		`{"id":1,"result":{"id":2},"x":[{"id":3}]}`:                         {"1"},
		`{"result":{"id":2}, "id" : "a\"b,}\u0041" }`:                       {`"a\"b,}\u0041"`},
		`[{"id":1},{"ID":-2.0e1 , "i\u0064\u0000":null},{"id":{"id":[3]}}]`: {"1", "-2.0e1", "null", `{"id":[3]}`},
		`{"id":` + long + `}`:                                               {long[:maxID]},
		`{"idx":1,"i":2,"xid":3,"method":"id"}`:                             nil,
	} {
		for format, body := range map[Format]string{JSON: body, Stream: "data: " + body + "\n\n: x\r\rdata: " + body + "\n\n"} {
			for _, size := range []int{1, 2, 3, 5, len(body)} {
				var got []string
				w := Watcher{Format: format, ID: func(raw []byte) { got = append(got, string(raw)) }}
				for rest := []byte(body); len(rest) > 0; {
					n := min(size, len(rest))
					w.Scan(rest[:n], func(string) {})
					rest = rest[n:]
				}
				if format == Stream {
					got = got[:min(len(got), len(want))] // the second is heard twice
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%.200q in chunks of %d: heard %.200q, want %.200q", body, size, got, want)
				}
			}
		}
	}
}
