package incoming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestAccept(t *testing.T) {
	const json, sse = "application/json", "text/event-stream"
	for name, c := range map[string]struct {
		accept     []string
		stream, ok bool
	}{
		"both":                   {accept: []string{json + ", " + sse}, ok: true},
		"the other order":        {accept: []string{sse + "," + json}, ok: true},
		"two lines":              {accept: []string{sse, json}},
		"the same twice":         {accept: []string{UsualAccept, UsualAccept}},
		"odd case and space":     {accept: []string{" Application/JSON ,\tTEXT/Event-Stream "}, ok: true},
		"and more":               {accept: []string{"text/html, " + json + ", " + sse + ", */*;q=0.1"}, ok: true},
		"rather a stream":        {accept: []string{json + ";q=0.5, " + sse}, stream: true, ok: true},
		"rather JSON":            {accept: []string{json + ", " + sse + ";q=0.9"}, ok: true},
		"weights with space":     {accept: []string{json + " ; q=0.1 , " + sse + " ;Q=0.2"}, stream: true, ok: true},
		"weight of three digits": {accept: []string{json + ";q=0.001, " + sse + ";q=0.002"}, stream: true, ok: true},
		"other parameter":        {accept: []string{json + ";charset=utf-8;q=0.3, " + sse + ";v=1"}, stream: true, ok: true},
		"nothing":                {},
		"empty":                  {accept: []string{""}},
		"JSON only":              {accept: []string{json}},
		"stream only":            {accept: []string{sse}},
		"everything":             {accept: []string{"*/*"}},
		"wildcards":              {accept: []string{"application/*, text/*"}},
		"JSON and a wildcard":    {accept: []string{json + ", text/*"}},
		"no JSON":                {accept: []string{json + ";q=0, " + sse}},
		"no stream":              {accept: []string{json + ", " + sse + ";q=0.0"}},
		"bad weight":             {accept: []string{json + ";q=high, " + sse}},
		"weight above 1":         {accept: []string{json + ";q=2, " + sse}},
		"weight below 0":         {accept: []string{json + ";q=-1, " + sse}},
		"weight is no number":    {accept: []string{json + ";q=NaN, " + sse}},
		"other type":             {accept: []string{"application/jsonl, " + sse}},
		"no comma":               {accept: []string{json + " " + sse}},
	} {
		t.Run(name, func(t *testing.T) {
			stream, ok := Accepts(c.accept)
			if ok != c.ok || ok && stream != c.stream {
				t.Errorf("got stream %v, both %v; want %v, %v", stream, ok, c.stream, c.ok)
			}
		})
	}
}

func TestPlainJSON(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		want   bool
	}{
		"JSON":              {http.Header{"Content-Type": {"application/json"}}, true},
		"other case":        {http.Header{"Content-Type": {"Application/JSON"}}, true},
		"UTF-8":             {http.Header{"Content-Type": {"application/json; charset=utf-8"}}, true},
		"quoted":            {http.Header{"Content-Type": {`application/json;charset="UTF-8"`}}, true},
		"other parameter":   {http.Header{"Content-Type": {"application/json; v=1"}}, true},
		"no type":           {http.Header{}, false},
		"other type":        {http.Header{"Content-Type": {"text/plain"}}, false},
		"suffix":            {http.Header{"Content-Type": {"application/x+json"}}, false},
		"other charset":     {http.Header{"Content-Type": {"application/json; charset=utf-16"}}, false},
		"broken parameter":  {http.Header{"Content-Type": {"application/json; charset"}}, false},
		"same charset, two": {http.Header{"Content-Type": {"application/json; charset=utf-8; charset=utf-16"}}, false},
		"two types":         {http.Header{"Content-Type": {"application/json", "application/json"}}, false},
		"compressed":        {http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, false},
		"identity":          {http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"identity"}}, false},
	} {
		if got := PlainJSON(c.header); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// bodyOf returns a request with a body of so many bytes, of which the client
// has told the number or not.
func bodyOf(bytes int, told bool) (*http.Request, string) {
	content := strings.Repeat("0123456789", bytes/10+1)[:bytes]
	r := post(content)
	if !told {
		r.ContentLength = -1
	}
	return r, content
}

// post returns a request with that body.
func post(body string) *http.Request {
	return httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
}

func readBody(r *http.Request, limit int64) (*Body, error) {
	b := new(Body)
	return b, b.Read(r, limit)
}

func TestReadBodyAtItsLimit(t *testing.T) {
	const limit = 1000
	for _, told := range []bool{true, false} {
		for size, whole := range map[int]bool{0: true, 1: true, limit - 1: true, limit: true, limit + 1: false, 5 * limit: false} {
			r, content := bodyOf(size, told)
			b, err := readBody(r, limit)
			if err != nil {
				t.Fatal(err)
			}
			if b.Whole != whole || len(b.Bytes) > limit+1 || !strings.HasPrefix(content, string(b.Bytes)) || whole && string(b.Bytes) != content {
				t.Errorf("%d bytes (told: %v): read %d, whole %v", size, told, len(b.Bytes), b.Whole)
			}
			b.Replay(r)
			if again, err := io.ReadAll(iotest.OneByteReader(r.Body)); err != nil || string(again) != content {
				t.Errorf("%d bytes (told: %v): replayed %d, %v", size, told, len(again), err)
			}
			b.Release()
		}
	}
}

// closer counts how often it is closed.
type closer struct {
	io.Reader

	closed int
}

func (c *closer) Close() error { c.closed++; return nil }

func TestReplayClosesTheBody(t *testing.T) {
	for _, size := range []int{10, 100} {
		c := &closer{Reader: strings.NewReader(strings.Repeat("x", size))}
		r := post("")
		r.Body = c
		b, err := readBody(r, 50)
		if err != nil {
			t.Fatal(err)
		}
		b.Replay(r)
		if err := r.Body.Close(); err != nil || c.closed != 1 {
			t.Errorf("of %d bytes: closed %d times, %v", size, c.closed, err)
		}
	}
}

// A transport may read a request's body after it has answered: a buffer that
// was replayed must not be used for another request.
func TestReplayedBufferIsNotReused(t *testing.T) {
	r, content := bodyOf(500, true)
	b, err := readBody(r, 1000)
	if err != nil {
		t.Fatal(err)
	}
	b.Replay(r)
	b.Release()
	for range 100 {
		other := post(strings.Repeat("!", 500))
		b, err := readBody(other, 1000)
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if again, err := io.ReadAll(r.Body); err != nil || string(again) != content {
		t.Errorf("replayed %.40q, %v", again, err)
	}
}

// What nobody has read can be given back, and replaying it changes nothing.
func TestNoBody(t *testing.T) {
	r, content := bodyOf(100, true)
	var none Body
	none.Replay(r)
	none.Release()
	if got, err := io.ReadAll(r.Body); err != nil || string(got) != content {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestReadBodyFails(t *testing.T) {
	r := post("")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(errors.New("connection reset"))))
	_, err := readBody(r, 100)
	var failure caddyhttp.HandlerError
	if !errors.As(err, &failure) || failure.StatusCode != http.StatusBadRequest {
		t.Errorf("got %v, want status 400", err)
	}
	// What a handler in front of this one has found out counts.
	tooLarge := caddyhttp.Error(http.StatusRequestEntityTooLarge, errors.New("too large"))
	r.Body = io.NopCloser(iotest.ErrReader(fmt.Errorf("reading: %w", tooLarge)))
	if _, err = readBody(r, 100); !errors.As(err, &failure) || failure.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got %v, want status 413", err)
	}
}

func TestQuotes(t *testing.T) {
	for name, c := range map[string]struct {
		raw, header string
		want        bool
	}{
		"same":         {`"file:///a"`, "file:///a", true},
		"other":        {`"file:///a"`, "file:///b", false},
		"other case":   {`"file:///A"`, "file:///a", false},
		"longer":       {`"file:///ab"`, "file:///a", false},
		"escaped":      {`"file:\/\/\/a"`, `file:\/\/\/a`, false},
		"escaped, not": {`"file:\/\/\/a"`, `file:///a`, false},
		"encoded":      {`"=?base64?YQ==?="`, "=?base64?YQ==?=", false},
		"empty":        {`""`, "", true},
	} {
		if got := Quotes([]byte(c.raw), c.header); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
