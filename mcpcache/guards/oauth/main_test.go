package oauth

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-mcp/mcp-cache/integration/authtest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/guards/internal/guardtest"
)

// TestMain also checks that no goroutine outlives its guard.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// protect starts an upstream that lets tokens of the server through.
func protect(t *testing.T, server *authtest.Server) (*authtest.Resource, string) {
	t.Helper()
	resource := server.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "served")
	}))
	upstream := httptest.NewServer(resource)
	t.Cleanup(upstream.Close)
	return resource, upstream.URL + resource.Endpoint
}

// feed is a caller of an upstream that uses a guard as the feed does.
type feed struct {
	client   *http.Client
	guard    guards.Guard
	endpoint string
}

func newFeed(t *testing.T, guard guards.Guard, endpoint string) *feed {
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(transport.CloseIdleConnections)
	return &feed{client: &http.Client{Transport: transport}, guard: guard, endpoint: endpoint}
}

// try sends one request. If the upstream refuses it, the guard may renew its
// credential, and the request is sent once more.
func (f *feed) try(ctx context.Context) (status int, err error) {
	renewer := f.guard.(guards.Renewer)
	for attempt := range 2 {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.endpoint, strings.NewReader("{}"))
		if err != nil {
			return 0, err
		}
		if err := f.guard.Authorize(ctx, r); err != nil {
			return 0, err
		}
		resp, err := f.client.Do(r)
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		status = resp.StatusCode
		if status != http.StatusUnauthorized && status != http.StatusForbidden || attempt > 0 {
			return status, nil
		}
		err = renewer.Renew(ctx, renewer.Credential(r), guards.Challenge{
			Status: status, Endpoint: f.endpoint, WWWAuthenticate: resp.Header.Values("WWW-Authenticate"),
		})
		if err != nil {
			return status, err
		}
	}
	return status, nil
}

func (f *feed) wantServed(t *testing.T) {
	t.Helper()
	if status, err := f.try(t.Context()); err != nil || status != http.StatusOK {
		t.Fatalf("request got %d, %v", status, err)
	}
}

// wantFailure sends a request and returns its error, which must contain a text
// and none of the secrets.
func (f *feed) wantFailure(t *testing.T, want string, secrets ...string) error {
	t.Helper()
	_, err := f.try(t.Context())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %v, want %q", err, want)
	}
	for _, secret := range append(secrets, guardtest.Planted) {
		if strings.Contains(err.Error(), secret) {
			t.Fatalf("the error shows a secret: %v", err)
		}
	}
	return err
}

// logbook captures Caddy's default log, as guards get theirs from the context.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) Sync() error { return nil }

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// redirect makes a source and its watchers log here, at every level.
func (l *logbook) redirect(c *Client) {
	encoder := zapcore.NewJSONEncoder(zap.NewDevelopmentEncoderConfig())
	c.source.Log = zap.New(zapcore.NewCore(encoder, l, zapcore.DebugLevel))
}

// askAgain ends the wait after a failure, as another content of a file would.
func askAgain(c *Client) {
	inputs := c.source.Inputs
	c.source.Inputs = func() uint64 { return inputs() + 1 }
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for: " + what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// newContext returns a context as Caddy gives it to modules.
func newContext(t *testing.T) caddy.Context {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	return ctx
}
