package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/goleak"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/upstream"
)

const (
	legacy = revision.LatestLegacy
	modern = revision.LatestModern

	list = "tools/list"
)

// both is for tests that are the same in both eras.
var both = map[string]revision.Revision{"legacy": legacy, "modern": modern}

// listening is the method that opens a stream of notices, opening the one that
// opens a session.
var (
	listening = map[revision.Revision]string{legacy: "GET", modern: "subscriptions/listen"}
	opening   = map[revision.Revision]string{legacy: "initialize", modern: "server/discover"}
)

// The server that the client of the tests speaks with, and how it answers.
type (
	server = clienttest.Server
	call   = clienttest.Call
	script = clienttest.Script
)

var (
	newServer = clienttest.New
	result    = clienttest.Result
	reply     = clienttest.Reply
	gives     = clienttest.Gives
	failure   = clienttest.Failure
	status    = clienttest.Status
	raw       = clienttest.Raw
	answerTo  = clienttest.AnswerTo
	refuse    = clienttest.Refuse
)

// world is a server, and a client of it, in fake time.
type world struct {
	*testing.T
	server    *server
	transport upstream.Transport
	policy    Policy
	client    *Client
	listeners sync.WaitGroup
	partly    int // how often a server has said that it will announce less

	mu      sync.Mutex
	notices []string
}

// run runs a test in a bubble, which ends only when all goroutines have.
func run(t *testing.T, r revision.Revision, s *server, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			T: t, server: s,
			policy: Policy{MaxList: 1 << 20, MaxPages: 1000, Endpoint: "http://upstream.test/mcp"},
		}
		w.transport.Use(s)
		w.client = New(Config{
			Revision: r, URL: "http://upstream.test/mcp", Base: &w.transport, ReadSlot: NewReadSlot(),
			Policy: func() Policy { return w.policy },
			OnNotice: func(method string) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.notices = append(w.notices, method)
			},
		})
		defer time.Sleep(5 * time.Second) // abandoned answers end in their time
		test(w)
	})
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// try opens a session, or returns why it cannot.
func (w *world) try() (*Session, error) {
	w.Helper()
	s, err := w.client.NewSession(nil)
	if err != nil {
		w.Fatal(err)
	}
	return s, s.Open(w.Context())
}

// open opens a session, which must succeed.
func (w *world) open() *Session {
	w.Helper()
	s, err := w.try()
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// listen listens in a session, in the background, until stop is called.
func (w *world) listen(s *Session) (opened *bool, stop func()) {
	w.Helper()
	opened = new(bool)
	ctx, cancel := context.WithCancel(w.Context())
	w.listeners.Go(func() { _ = s.Listen(ctx, func() { *opened = true }, func() { w.partly++ }) })
	synctest.Wait()
	return opened, func() {
		cancel()
		w.listeners.Wait()
	}
}

// names reads a list of tools and returns their names, or the error.
func (w *world) names(s *Session) (string, error) {
	l, err := s.List(w.Context(), ListRequest{Kind: revision.Tools, Patient: true})
	if err != nil {
		return "", err
	}
	return strings.Join(l.Body.Names(), " "), nil
}

// wantNames checks what a list of tools is.
func (w *world) wantNames(s *Session, want string) {
	w.Helper()
	if got, err := w.names(s); err != nil || got != want {
		w.Fatalf("the list is %q, error %v, want %q", got, err, want)
	}
}

// wantCalls checks how often a method has been called in all.
func (w *world) wantCalls(method string, want int) {
	w.Helper()
	if got := w.server.Count(method); got != want {
		w.Fatalf("%s was called %d times, want %d", method, got, want)
	}
}

// What follows is for tests of single round trips.

// handler is an embedded handler.
type handler func(w http.ResponseWriter, r *http.Request) error

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return h(w, r)
}

// limited returns a limiter of so many bytes above a handler.
func limited(max int64, h handler) *limiter {
	t := new(upstream.Transport)
	t.Use(h)
	return &limiter{base: t, maxMessage: func() int64 { return max }}
}

// noLeaks checks that the test leaves no goroutine behind.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

const endpoint = "http://upstream.test:3001/mcp"

// newRequest returns a request with a JSON body, or none.
func newRequest(ctx context.Context, t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

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
