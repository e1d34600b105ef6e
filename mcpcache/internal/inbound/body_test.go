package inbound

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

// bodyOf returns a request with a body of so many bytes. told says whether the client tells
// their number.
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

// The error of a connection, and that of a handler in front of us, come as they are.
func TestReadBodyFails(t *testing.T) {
	failure := errors.New("connection reset")
	r := post("")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(failure)))
	if b, err := readBody(r, 100); !errors.Is(err, failure) || b.Whole {
		t.Errorf("got %v, whole %v", err, b.Whole)
	}
}
