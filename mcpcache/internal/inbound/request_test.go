package inbound

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
)

// TestReadRest reads bodies of all sizes around the limit, with memory for them and without. All memory is given back.
func TestReadRest(t *testing.T) {
	const beginning, limit = 1000, 200_000
	for _, told := range []bool{true, false} {
		for name, c := range map[string]struct {
			size   int
			memory int64
			want   Deviation
		}{
			"short":          {beginning, 0, None},
			"long":           {beginning + 1, 2 * limit, None},
			"at the limit":   {limit, 2 * limit, None},
			"over the limit": {limit + 1, 2 * limit, TooLarge},
			"without memory": {limit, limit / 2, NoRoom},
		} {
			memory := budget.New(c.memory)
			q := Request{Share: memory.Share()}
			r, content := bodyOf(c.size, told)
			if err := q.ReadBeginning(r, beginning); err != nil {
				t.Fatal(err)
			}
			d, err := q.ReadRest(nil, r, limit)
			if err != nil || d != c.want || (d == None) != (string(q.Body.Bytes) == content && q.Body.Whole) {
				t.Errorf("%s (told: %v): deviation %d, %v, %d bytes; want deviation %d", name, told, d, err, len(q.Body.Bytes), c.want)
			}
			if q.Release(); memory.Used() != 0 {
				t.Errorf("%s (told: %v): %d bytes are held for nobody", name, told, memory.Used())
			}
		}
	}
}

// idle is the connection of a client that has sent the beginning of a body, and sends no more.
type idle struct {
	*httptest.ResponseRecorder

	writes *io.PipeWriter
}

func (c *idle) SetReadDeadline(time.Time) error {
	return c.writes.CloseWithError(os.ErrDeadlineExceeded)
}

// A client that sends no more does not keep memory from others. Without its connection there is no way to tell it so.
func TestIdleClientsAreCutOff(t *testing.T) {
	for name, cut := range map[string]bool{"with the connection": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body, writes := io.Pipe()
				c := &idle{httptest.NewRecorder(), writes}
				go func() { _, _ = io.WriteString(writes, "beginning") }()
				memory := budget.New(1 << 20)
				q := Request{Share: memory.Share()}
				r := post("")
				r.Body, r.ContentLength = body, -1
				if err := q.ReadBeginning(r, 5); err != nil {
					t.Fatal(err)
				}
				var w http.ResponseWriter
				if cut {
					w = c
				} else {
					time.AfterFunc(time.Hour, func() { writes.Close() })
				}
				_, err := q.ReadRest(w, r, 100)
				if errors.Is(err, ErrTooSlow) != cut || q.Body.Whole == cut {
					t.Errorf("got %v, whole %v", err, q.Body.Whole)
				}
				q.Release()
				if memory.Used() != 0 {
					t.Errorf("%d bytes are held for nobody", memory.Used())
				}
			})
		})
	}
}

// A body is begun once, whoever asks for its beginning again.
func TestReadBeginningAgain(t *testing.T) {
	r, content := bodyOf(500, true)
	var q Request
	for range 2 {
		if err := q.ReadBeginning(r, 1000); err != nil || string(q.Body.Bytes) != content {
			t.Errorf("got %d bytes, %v", len(q.Body.Bytes), err)
		}
	}
}

// A request may be decoded by whoever needs what it says, and says the same then.
func TestDecoded(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}`
	for name, c := range map[string]struct {
		body  string
		whole bool
		id    string
	}{
		"call":        {call, true, "7"},
		"beginning":   {call, false, ""},
		"invalid":     {call[1:], true, ""},
		"a batch":     {"[" + call + "]", true, ""},
		"an answer":   {`{"jsonrpc":"2.0","id":8,"result":{}}`, true, "8"},
		"nothing yet": {"", false, ""},
	} {
		q := Request{Body: Body{Bytes: []byte(c.body), Whole: c.whole}}
		for _, first := range []bool{true, false} {
			got := q.Decoded()
			if (got != nil) != (c.id != "") || got != nil && string(got.ID) != c.id {
				t.Errorf("%s, the first time (%v): got %+v, want the id %q", name, first, got, c.id)
			}
			if c.whole {
				_, _ = q.Decode(nil)
			}
		}
	}
}

// What is given back is not looked at any more; what something else holds on to may be.
func TestReleasedRequestsSayNothing(t *testing.T) {
	for _, kept := range []bool{false, true} {
		var q Request
		if err := q.ReadBeginning(post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), 1000); err != nil {
			t.Fatal(err)
		}
		if d, err := q.Decode(nil); d != None {
			t.Fatal(err)
		}
		if kept {
			q.Body.Keep()
		}
		if q.Release(); (q.Decoded() != nil) != kept || q.Method != "ping" {
			t.Errorf("kept (%v): it says %+v, method %q", kept, q.Decoded(), q.Method)
		}
	}
}

// A list that is asked for in the words of the last one is recalled; the method is known in either case.
func TestRecall(t *testing.T) {
	var known message.Templates
	for i, recalled := range []bool{false, true} {
		id := strings.Repeat("1", i+1)
		q := Request{Body: Body{Bytes: []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}`), Whole: true}}
		if got := q.Recall(&known); got != recalled {
			t.Errorf("request %d: recalled %v", i, got)
		} else if !got {
			if d, err := q.Decode(&known); d != None || err != nil {
				t.Errorf("request %d: deviation %d, %v", i, d, err)
			}
		}
		if q.Method != "tools/list" || string(q.Message.ID) != id {
			t.Errorf("request %d: %q, id %s", i, q.Method, q.Message.ID)
		}
	}
}
