package toolkit

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// recorder keeps the requests that the endpoint sends to a server for callers. Those of feeds, and those that open
// sessions and end them, are not among them.
type recorder struct {
	server caddyhttp.MiddlewareHandler

	mu  sync.Mutex
	all []recorded
}

// recorded is a request as a server was sent it.
type recorded struct {
	*http.Request

	body string
}

// String says what was sent, for messages of tests.
func (r recorded) String() string {
	return fmt.Sprintf("%s %s of %s, %q: %s", r.Method, r.URL, r.Host, r.Header, r.body)
}

// records keeps what a server is sent for callers from now on.
func (m *member) records() *recorder {
	r := &recorder{server: m.of.Upstream}
	m.of.Upstream = r
	return r
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request, next caddyhttp.Handler) error {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.all = append(r.all, recorded{request.Clone(request.Context()), string(body)})
	r.mu.Unlock()
	request.Body = io.NopCloser(bytes.NewReader(body))
	return r.server.ServeHTTP(w, request, next)
}

// take returns all requests since it was last called.
func (r *recorder) take() []recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.all
	r.all = nil
	return taken
}

// of is take for the requests of one method of MCP.
func (r *recorder) of(method string) (found []recorded) {
	for _, request := range r.take() {
		if strings.Contains(request.body, fmt.Sprintf(`"method":%q`, method)) {
			found = append(found, request)
		}
	}
	return found
}

// last returns the last request of a method since one was taken.
func (r *recorder) last(w *world, method string) recorded {
	w.Helper()
	found := r.of(method)
	if len(found) == 0 {
		w.Fatalf("no %s has reached the server", method)
	}
	return found[len(found)-1]
}
