package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/goleak"
)

// handler is an embedded handler.
type handler func(w http.ResponseWriter, r *http.Request) error

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return h(w, r)
}

// through returns a transport that uses h.
func through(h caddyhttp.MiddlewareHandler) *Transport {
	t := new(Transport)
	t.Use(h)
	return t
}

// noLeaks checks that the test leaves no goroutine behind.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// newRequest returns a request with a JSON body, or none.
func newRequest(ctx context.Context, t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

const endpoint = "http://upstream.test:3001/mcp"

// post sends a POST and returns the answer.
func post(ctx context.Context, t testing.TB, rt http.RoundTripper) *http.Response {
	t.Helper()
	res, err := rt.RoundTrip(newRequest(ctx, t, http.MethodPost, endpoint, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// readAll returns the body and why reading it failed.
func readAll(res *http.Response) (string, error) {
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

// answer is a handler that writes an answer.
func answer(status int, contentType, body string) handler {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, err := io.WriteString(w, body)
		return err
	}
}

var errBroken = errors.New("broken")
