package reply

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/encoded"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// pieces is a response writer that notes how large the writes are, and fails
// after some of them.
type pieces struct {
	*httptest.ResponseRecorder
	sizes []int
	limit int // of writes that succeed; 0: none fails
}

var errGone = errors.New("client has gone")

func (p *pieces) Write(b []byte) (int, error) {
	p.sizes = append(p.sizes, len(b))
	if p.limit > 0 && len(p.sizes) > p.limit {
		return 0, errGone
	}
	return p.ResponseRecorder.Write(b)
}

// lists are the same list twice: in one piece, and in parts that are shared.
func lists(t *testing.T, tools ...string) (whole, shared *cache.Entry) {
	t.Helper()
	page, err := message.ParsePage([]byte(`{"tools":[`+strings.Join(tools, ",")+`]}`), revision.Tools)
	if err != nil {
		t.Fatal(err)
	}
	whole = &cache.Entry{
		Kind: revision.Tools, Revision: revision.V20260728, Partition: cache.Public,
		Body: message.Single(revision.Tools, page),
	}
	c, err := cache.New(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.Put(whole)
	shared = c.Get(cache.Question{Kind: whole.Kind, Revision: whole.Revision, Partition: whole.Partition})
	if shared == nil || shared.Whole() != nil {
		t.Fatal("the list is not in parts")
	}
	return whole, shared
}

// Answers that have to be put together are the same bytes, whatever sizes
// their parts have, in a bounded buffer.
func TestOutput(t *testing.T) {
	item := func(n, size int) string {
		return fmt.Sprintf(`{"name":"%d",`+"\r\n"+`"d":"%s"}`, n, strings.Repeat("x", size))
	}
	for name, sizes := range map[string][]int{
		"small":                {500, 500, 500},
		"just fits":            {outputSize / 2, outputSize/2 - 100},
		"does not fit":         {outputSize / 2, outputSize / 2, outputSize / 2},
		"larger than buffer":   {100, outputSize + 1, 100},
		"as large as buffer":   {outputSize - 27, 100},
		"several larger":       {2 * outputSize, 3 * outputSize},
		"many that do not fit": {40_000, 40_000, 40_000, 40_000, 40_000},
	} {
		t.Run(name, func(t *testing.T) {
			tools := make([]string, len(sizes))
			for i, size := range sizes {
				tools[i] = item(i, size)
			}
			whole, shared := lists(t, tools...)
			const prefix = "prefix "
			answer := append([]byte(prefix), whole.Body.Bytes...)
			for framing, want := range map[encoded.Framing][]byte{
				encoded.Plain: answer, encoded.Event: sse.AppendEvent(nil, answer),
			} {
				begin := prefix
				if framing == encoded.Event {
					begin = sse.Start + prefix
				}
				for _, e := range []*cache.Entry{whole, shared} {
					w := &pieces{ResponseRecorder: httptest.NewRecorder()}
					out := outputs.Get().(*output)
					out.writeEntry(w, []byte(begin), e, framing)
					if len(out.buf) != 0 || cap(out.buf) != outputSize {
						t.Errorf("the buffer has %d of %d bytes left over", len(out.buf), cap(out.buf))
					}
					out.release()
					if got := w.Body.Bytes(); !bytes.Equal(got, want) {
						t.Fatalf("framing %d: got %d bytes, want %d", framing, len(got), len(want))
					}
					if most := 2 + 2*len(want)/outputSize + 2*len(sizes); len(w.sizes) > most {
						t.Errorf("framing %d: %d writes", framing, len(w.sizes))
					}
					for _, size := range w.sizes {
						if size == 0 {
							t.Error("an empty write")
						}
					}
				}
			}
		})
	}
}

// A client that has gone is not written to again.
func TestOutputEndsWithTheClient(t *testing.T) {
	_, shared := lists(t, `{"name":"a","x":"`+strings.Repeat("x", 60_000)+`"}`, `{"name":"b","x":"`+strings.Repeat("y", 90_000)+`"}`,
		`{"name":"c","x":"`+strings.Repeat("z", 60_000)+`"}`)
	for _, framing := range []encoded.Framing{encoded.Plain, encoded.Event} {
		for limit := range 3 {
			w := &pieces{ResponseRecorder: httptest.NewRecorder(), limit: limit + 1}
			out := outputs.Get().(*output)
			out.writeEntry(w, []byte("prefix"), shared, framing)
			out.release()
			if got := len(w.sizes); got > limit+2 {
				t.Errorf("framing %d: %d writes although the one after %d failed", framing, got, limit+1)
			}
		}
	}
}
