package responsefilter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

var hiding = message.Filter{
	Keep: func(_ revision.Kind, item []byte) bool { return !bytes.Contains(item, []byte("hidden")) },
}

const (
	list  = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"hidden"}]}}`
	shown = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}`
	other = `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"hidden"}}`
	// notice is of a resource that the client is not to be told of.
	notice = `{"method":"notifications/resources/updated","params":{"uri":"hidden"}}`
)

// answer has an answer written in pieces of that size.
func answer(t *testing.T, o Options, status int, contentType, body string, size int) (*httptest.ResponseRecorder, *Writer, error) {
	t.Helper()
	if o.Memory == nil {
		o.Memory = budget.New(1 << 20)
	}
	if o.Limit == 0 {
		o.Limit = 1 << 20
	}
	if o.Filter == nil {
		o.Filter = hiding.Apply
	}
	below := httptest.NewRecorder()
	w := New(below, o)
	if contentType != "" {
		w.Header().Set("Content-Type", contentType)
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.Header().Set("Etag", "x")
	w.WriteHeader(status)
	var err error
	for rest := body; rest != "" && err == nil; {
		n := min(size, len(rest))
		_, err = io.WriteString(w, rest[:n])
		rest = rest[n:]
	}
	if finished := w.Finish(); finished != nil {
		err = finished
	}
	w.Close()
	if used := o.Memory.Used(); used != 0 {
		t.Errorf("%d bytes are still taken", used)
	}
	return below, w, err
}

// silent is a filter that tells of no resource.
func silent() message.Filter {
	f := hiding
	f.Tells = func(string) bool { return false }
	return f
}

func TestAnswers(t *testing.T) {
	const events = "text/event-stream"
	event := func(data string) string { return string(sse.AppendEvent(nil, []byte(data))) }
	for name, tt := range map[string]struct {
		options     Options
		status      int
		contentType string
		body, want  string
	}{
		"a list":             {Options{Whole: true}, 200, "application/json", list, shown},
		"a list, of a call":  {Options{}, 200, "application/json", list, list},
		"no list":            {Options{Whole: true}, 200, "application/json", other, other},
		"an error as JSON":   {Options{Whole: true}, 404, "application/json", list, shown},
		"a JSON error page":  {Options{Whole: true}, 404, "application/json", `{"title":"none"}`, `{"title":"none"}`},
		"an error":           {Options{Whole: true}, 200, "application/json", `{"id":1,"error":{}}`, `{"id":1,"error":{}}`},
		"an odd error page":  {Options{Whole: true}, 401, "application/json", `{"Error":1,"error":2}`, `{"Error":1,"error":2}`},
		"an error page":      {Options{Whole: true}, 500, "text/plain", "hidden", "hidden"},
		"accepted":           {Options{Whole: true}, 202, "", "", ""},
		"nothing":            {Options{Whole: true}, 200, "application/json", "", ""},
		"a stream":           {Options{Whole: true}, 200, events, event(other) + event(list), event(other) + event(shown)},
		"a replayed one":     {Options{Get: true}, 200, events, event(other) + event(list), event(other) + event(shown)},
		"a GET's, no type":   {Options{Get: true}, 200, "text/plain", event(list), event(shown)},
		"a GET's list":       {Options{Get: true}, 200, "application/json", list + "\n\n", shown},
		"a GET's, as text":   {Options{Get: true}, 200, "text/plain", list, shown},
		"a GET's page":       {Options{Get: true}, 200, "text/html", "<p>\n\n</p>", "<p>\n\n</p>"},
		"a GET's last event": {Options{Get: true}, 200, "text/plain", "data: " + list, "data: " + shown + "\n\n"},
		"a sign of life":     {Options{Get: true}, 200, events, "data: keepalive\n\ndata: null\n\n" + event(list), "data: keepalive\n\ndata: null\n\n" + event(shown)},
		"half a letter":      {Options{Get: true}, 200, events, event(`{"method":"x","params":"\ud83d"}`), event(`{"method":"x","params":"\ud83d"}`)},
		"a GET's refusal":    {Options{Get: true}, 405, "text/plain", list, list},
		"a stream elsewhere": {Options{}, 200, events, event(list), event(shown)},
		"a page elsewhere":   {Options{}, 200, "text/html", list, list},
		"with an id, CRLF": {
			Options{}, 200, events, "id: 1\r\nretry: 5\r\ndata: " + list + "\r\n\r\n: x\r\n\r\n",
			"id: 1\nretry: 5\ndata: " + shown + "\n\n: x\r\n\r\n",
		},
		"on lines of its own": {
			Options{}, 200, events, "data:" + list[:17] + "\ndata:" + list[17:] + "\rid:7\r\r", "id:7\ndata: " + shown + "\n\n",
		},
		"without an end":  {Options{}, 200, events, event(other) + "data: " + list + "\n", event(other)},
		"an endpoint":     {Options{}, 200, events, "event: endpoint\ndata: /messages?id=1\n\n" + event(list), "event: endpoint\ndata: /messages?id=1\n\n" + event(shown)},
		"of another name": {Options{}, 200, events, "event: x\ndata: " + list + "\n\n", "event: x\ndata: " + shown + "\n\n"},
		"other fields":    {Options{}, 200, events, "idx: 1\ndatax: " + list + "\n\n", "idx: 1\ndatax: " + list + "\n\n"},
		"priming":         {Options{}, 200, events, "id: 1\ndata: \n\ndata\n\n", "id: 1\ndata: \n\ndata\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 7, len(tt.body) + 1} {
				got, w, err := answer(t, tt.options, tt.status, tt.contentType, tt.body, size)
				if err != nil || got.Code != tt.status || got.Body.String() != tt.want || !w.Started() {
					t.Errorf("in pieces of %d: %d, error %v\ngot  %q\nwant %q", size, got.Code, err, got.Body, tt.want)
				}
				length := got.Header().Get("Content-Length")
				if tt.want != tt.body && length != "" && length != fmt.Sprint(len(tt.want)) {
					t.Errorf("Content-Length is %s of %d", length, len(tt.want))
				}
				if tt.want == shown && got.Header().Get("Etag") != "" {
					t.Error("the tag of another answer is passed on")
				}
			}
		})
	}
}

func TestWhatCannotBeFiltered(t *testing.T) {
	const events = "text/event-stream"
	for name, tt := range map[string]struct {
		options     Options
		status      int
		contentType string
		body        string
		want        error
		started     bool
	}{
		"a GET's bad list":   {Options{Get: true}, 200, "application/json", list[:30], ErrUnreadable, false},
		"no JSON":            {Options{Whole: true}, 200, "application/json", list[1:], ErrUnreadable, false},
		"ambiguous":          {Options{Whole: true}, 200, "application/json", `{"result":{"tools":[],"Tools":[{"name":"hidden"}]}}`, ErrUnreadable, false},
		"an odd error":       {Options{Whole: true}, 404, "application/json", `{"Error":1,"error":2,"x":{"tools":[{"name":"hidden"}]}}`, ErrUnreadable, false},
		"a notice alone":     {Options{Whole: true, Filter: silent().Apply}, 200, "application/json", notice, ErrUnreadable, false},
		"no room, a notice":  {Options{Lenient: true, Filter: silent().Apply, Memory: budget.New(10)}, 200, events, "data: " + notice + strings.Repeat(" ", leastEvent) + "\n\n", ErrTooLarge, true},
		"another charset":    {Options{Whole: true}, 200, "application/json; charset=utf-16", list, ErrUnreadable, false},
		"of an unknown type": {Options{Whole: true}, 200, "text/plain", list, ErrUnreadable, false},
		"too large":          {Options{Whole: true, Limit: int64(len(list)) - 1}, 200, "application/json", list, ErrTooLarge, false},
		"no room":            {Options{Whole: true, Memory: budget.New(10)}, 200, "application/json", list, ErrTooLarge, false},
		"a bad event":        {Options{}, 200, events, "data: " + list[1:] + "\n\n", ErrUnreadable, true},
		"a message":          {Options{}, 200, events, "event: message\ndata: {\"tools\":\n\n", ErrUnreadable, true},
		"a message, twice":   {Options{}, 200, events, "event: x\nevent: message\ndata: \xff\n\n", ErrUnreadable, true},
		"a named one":        {Options{}, 200, events, "event: x\ndata: \x00{name\n\n", ErrUnreadable, true},
		"a bad list":         {Options{Lenient: true}, 200, events, "data: " + strings.Replace(list, `"id":1`, `"id":NaN`, 1) + "\n\n", ErrUnreadable, true},
		"no message":         {Options{Whole: true}, 200, "application/json", `{"tools":[{"name":"hidden"}]}`, ErrUnreadable, false},
		"a list alone":       {Options{Whole: true}, 200, "application/json", `[{"name":"hidden"}]`, ErrUnreadable, false},
		"a large event":      {Options{Limit: int64(len(list))}, 200, events, "data: " + list + "\n\n", ErrTooLarge, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 1 << 10} {
				got, w, err := answer(t, tt.options, tt.status, tt.contentType, tt.body, size)
				if !errors.Is(err, tt.want) || w.Started() != tt.started || strings.Contains(got.Body.String(), "name") {
					t.Errorf("error %v, started: %v, got %q", err, w.Started(), got.Body)
				}
			}
		})
	}
	if got, _, err := answer(t, Options{Whole: true, Limit: int64(len(list))}, 200, "application/json", list, 5); err != nil || got.Body.String() != shown {
		t.Errorf("an answer of just the limit: %q, error %v", got.Body, err)
	}
}

// What is of a call is never withheld for being long or no message: the events before
// and after it are filtered.
func TestLenient(t *testing.T) {
	long := `data: {"id":1,` + "\r\n" + `data: "result":{"tools":"` + strings.Repeat("x", 4*len(list)) + "\"}}\n\n"
	got, _, err := answer(t, Options{Lenient: true, Memory: budget.New(0)}, 200, "text/event-stream", "data: "+strings.Repeat("x", 2*leastEvent)+"\n\n", 7)
	if err != nil || got.Body.Len() != len("data: \n\n")+2*leastEvent {
		t.Errorf("without memory: %d bytes, error %v", got.Body.Len(), err)
	}
	for _, odd := range []string{long, "data: {\n\n", "id: 1\ndata: {}{}\n\n", strings.ReplaceAll(long, "\n\n", "\r\n\r\n")} {
		body := "data: " + list + "\n\n" + odd + "data: " + list + "\n\n" + long + "data: " + list + "\n\n"
		want := strings.ReplaceAll(body, list, shown)
		for _, size := range []int{1, 2, 7, len(body)} {
			got, _, err := answer(t, Options{Lenient: true, Limit: 2 * int64(len(list))}, 200, "text/event-stream", body, size)
			// The LF of a CR LF that something was cut at is no loss.
			same := strings.NewReplacer("\r\n", "\n", "\r", "\n")
			if err != nil || same.Replace(got.Body.String()) != same.Replace(want) {
				t.Errorf("in pieces of %d: error %v\ngot  %q\nwant %q", size, err, got.Body, want)
			}
		}
	}
}

// A long response goes as it comes. All else is read before it goes, however long it is, and is
// never passed on unread.
func TestGlance(t *testing.T) {
	o := Options{Filter: silent().Apply, Lenient: true, Glance: 100}
	long := strings.Repeat("x", 500)
	response := `data: {"id":1,"result":{"content":"` + long + `"}}` + "\n\n"
	told := `data: {"method":"notifications/message","params":{"data":"` + long + `"}}` + "\n\n"
	update := `data: {"params":{"uri":"hidden","x":"` + long + `"},"method":"notifications/resources/updated"}` + "\n\n"
	for _, size := range []int{1, 7, 1000, 10_000} {
		got, _, err := answer(t, o, 200, "text/event-stream", told+update+response+update+told, size)
		if want := told + response + told; err != nil || got.Body.String() != want {
			t.Errorf("in pieces of %d: error %v\ngot  %q\nwant %q", size, err, got.Body, want)
		}
		small := o
		small.Limit = 200
		for body, want := range map[string]string{response: response, update: "", told: ""} {
			got, _, err := answer(t, small, 200, "text/event-stream", body, min(size, 50))
			if got.Body.String() != want || (want == "") != errors.Is(err, ErrTooLarge) {
				t.Errorf("beyond the limit %q gives %q, error %v", body, got.Body, err)
			}
		}
	}
	below := httptest.NewRecorder()
	w := New(below, Options{Filter: silent().Apply, Lenient: true, Glance: 100, Limit: 1 << 20, Memory: budget.New(1 << 20)})
	defer w.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	if _, err := io.WriteString(w, response[:150]); err != nil || below.Body.String() != response[:150] {
		t.Errorf("of the beginning of a response %q is passed on, error %v", below.Body, err)
	}
}

// JSON in which there should be no list is read before it goes, but for a long response, which goes
// as it comes. What nobody can read does not go at all.
func TestGlanceAtJSON(t *testing.T) {
	o := Options{Filter: silent().Apply, Lenient: true, Glance: 100, Other: func(id []byte) bool { return string(id) != "1" }}
	long := strings.Repeat("x", 500)
	update := `{"method":"notifications/resources/updated","params":{"uri":"hidden","x":"` + long + `"}}`
	for body, want := range map[string]string{
		`{"id":1,"result":{}}`:                                  `{"id":1,"result":{}}`,
		`{"id":1,"result":{"x":"` + long + `"}}`:                `{"id":1,"result":{"x":"` + long + `"}}`,
		`{"result":{"x":"` + long + `"},"id":1}`:                `{"result":{"x":"` + long + `"},"id":1}`,
		`{"result":{"x":{"id":2,"y":"` + long + `"}},"id": 1 }`: `{"result":{"x":{"id":2,"y":"` + long + `"}},"id": 1 }`,
		`[` + update + `,{"id":1,"result":{}}]`:                 `[{"id":1,"result":{}}]`,
		notice:                                                  "", update: "",
		`{"id":2,"result":{"x":"` + long + `"}}`:                   "",
		`{"result":{"x":"` + long + `"},"id":2}`:                   "",
		`{"id":1,"result":{"x":"` + long + `"},"id":2}`:            "",
		`{"id":1,"result":{"x":"` + long + `"},"ID":2}`:            "",
		`{"id":1,"result":{"x":"` + long + `"},"\u0069d\u0000":2}`: "",
		`{"id":1,"result":{"x":"` + long + `"},"Method":"a"}`:      "",
		`{"id":"` + long + `","method":"x","params":{}}`:           `{"id":"` + long + `","method":"x","params":{}}`,
	} {
		for _, size := range []int{1, 7, 10_000} {
			got, w, err := answer(t, o, 200, "application/json", body, size)
			switch {
			case want != "" && (err != nil || got.Body.String() != want):
				t.Errorf("%q in pieces of %d gives %q, error %v", body, size, got.Body, err)
			case want == "" && (!errors.Is(err, ErrUnreadable) || size > len(body) && w.Started() || got.Body.Len() >= len(body)):
				t.Errorf("%q in pieces of %d gives %q, error %v", body, size, got.Body, err)
			}
		}
	}
	for contentType, coding := range map[string]string{"application/json": "br", "text/event-stream": "deflate", "text/event-stream; charset=utf-16": "", "application/json; charset=utf-16": ""} {
		below := httptest.NewRecorder()
		o.Limit, o.Memory = 1<<10, budget.New(1<<20)
		w := New(below, o)
		w.Header().Set("Content-Type", contentType)
		if coding != "" {
			w.Header().Set("Content-Encoding", coding)
		}
		_, _ = io.WriteString(w, "data: "+notice+"\n\n")
		if err := w.Finish(); !errors.Is(err, ErrUnreadable) || w.Started() || below.Body.Len() > 0 {
			t.Errorf("of %s in %q, %q is passed on, error %v", contentType, coding, below.Body, err)
		}
		w.Close()
	}
}

// Of a notice that is not for the caller no more than its id is passed on, for who
// resumes behind it.
func TestNoticesAreLeftOut(t *testing.T) {
	o := Options{Filter: silent().Apply, Lenient: true, Memory: budget.New(0)}
	for body, want := range map[string]string{
		"data: " + notice + "\n\n": "", "id: 7\nevent: message\ndata: " + notice + "\n\n": "id: 7\n\n",
		"data: " + other + "\n\ndata: " + notice + "\n\ndata: " + other + "\n\n": "data: " + other + "\n\ndata: " + other + "\n\n",
	} {
		got, _, err := answer(t, o, 200, "text/event-stream", body, 5)
		if err != nil || got.Body.String() != want {
			t.Errorf("%q becomes %q, error %v", body, got.Body, err)
		}
	}
}

// An event is passed on as soon as it has ended.
func TestEventsAreFlushed(t *testing.T) {
	below := httptest.NewRecorder()
	w := New(below, Options{Filter: hiding.Apply, Limit: 1 << 10, Memory: budget.New(1 << 20)})
	defer w.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	if err := http.NewResponseController(w).Flush(); err != nil || !below.Flushed {
		t.Errorf("the header is not flushed: %v", err)
	}
	below.Flushed = false
	if _, err := io.WriteString(w, "data: "+list+"\n\ndata: {"); err != nil {
		t.Fatal(err)
	}
	if err := http.NewResponseController(w).Flush(); err != nil || !below.Flushed || below.Body.String() != "data: "+shown+"\n\n" {
		t.Errorf("got %q, error %v", below.Body, err)
	}
}

// Of an answer that is not passed on a little is read, so that its connection can be used
// again. More is an error: it may never end.
func TestEndlessAnswersAreNotRead(t *testing.T) {
	w := New(httptest.NewRecorder(), Options{Whole: true, Filter: hiding.Apply, Limit: 1 << 20, Memory: budget.New(4 << 20)})
	defer w.Close()
	w.Header().Set("Content-Type", "text/html")
	for _, n := range []int{maxDropped - 1, 1} {
		if _, err := w.Write(make([]byte, n)); err != nil {
			t.Errorf("%d bytes more: %v", n, err)
		}
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, ErrUnreadable) || !w.Failed() || w.Started() {
		t.Errorf("a byte more: %v, failed: %v, started: %v", err, w.Failed(), w.Started())
	}
}

// A stream of a GET is begun when it is flushed, whatever its type; an answer that is held
// back, or not passed on, is not.
func TestFlushBeforeTheFirstByte(t *testing.T) {
	for name, tt := range map[string]struct {
		options     Options
		contentType string
		want        bool
	}{
		"a GET's stream":  {Options{Get: true}, "text/plain", true},
		"a list":          {Options{Whole: true}, "application/json", false},
		"what is no list": {Options{Whole: true}, "text/plain", false},
	} {
		below := httptest.NewRecorder()
		tt.options.Filter, tt.options.Limit, tt.options.Memory = hiding.Apply, 1<<10, budget.New(1<<20)
		w := New(below, tt.options)
		w.Header().Set("Content-Type", tt.contentType)
		w.WriteHeader(http.StatusEarlyHints)
		if err := http.NewResponseController(w).Flush(); err != nil || below.Flushed != tt.want || w.Started() != tt.want {
			t.Errorf("%s: flushed: %v, started: %v, error %v", name, below.Flushed, w.Started(), err)
		}
		w.Close()
	}
}

// FuzzStream compares with a reader of event streams: it finds nothing hidden in a
// list, and every event that has none as it was.
func FuzzStream(f *testing.F) {
	f.Add("id: 1\ndata: "+list+"\n\n", 3)
	f.Add("data: "+other+"\r\n\r\ndata:"+list+"\r\r", 1)
	f.Add("data: 0\n\ndata: {\n\ndata: keepalive\n\n", 19)
	f.Fuzz(func(t *testing.T, body string, size int) {
		if size < 1 {
			return
		}
		got, _, err := answer(t, Options{}, 200, "text/event-stream", body, size)
		before, after := sse.NewReader(strings.NewReader(body), 1<<20), sse.NewReader(got.Body, 1<<20)
		for {
			want, wantErr := before.Next()
			event, gotErr := after.Next()
			if gotErr != nil {
				if wantErr == nil && err == nil {
					t.Errorf("%q: an event is missing", body)
				}
				return
			}
			data, filterErr := hiding.Apply(bytes.Clone(want.Data))
			if errors.Is(filterErr, message.ErrNoMessage) {
				filterErr = nil
			}
			// What cannot be read is passed on if it shows nothing.
			if filterErr != nil && message.MayShowItems(want.Data) || !bytes.Equal(event.Data, data) || event.Name != want.Name {
				t.Fatalf("%q: got %+v with %q, want %+v with %q, error %v", body, event, event.Data, want, data, filterErr)
			}
		}
	})
}

// TestOpenStreamsHoldNothing has many streams open at once, of which none is within an
// event: they take no memory.
func TestOpenStreamsHoldNothing(t *testing.T) {
	memory := budget.New(4 * leastEvent)
	event := fmt.Sprintf("data: %-*s", 2*leastEvent-len("data: \n\n"), other) + "\n\n"
	for range 3 {
		below := httptest.NewRecorder()
		w := New(below, Options{Filter: hiding.Apply, Limit: 1 << 20, Memory: memory})
		defer w.Close()
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 {
			if _, err := io.WriteString(w, event); err != nil {
				t.Fatal(err)
			}
		}
		if memory.Used() != 0 {
			t.Errorf("%d bytes are taken between two events", memory.Used())
		}
	}
}
