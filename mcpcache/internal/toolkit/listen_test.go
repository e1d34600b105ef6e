package toolkit

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/notices"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/session"
)

// written is a client's connection, which breaks after so many writes.
type written struct {
	strings.Builder
	writes, breaks int
}

func (*written) Header() http.Header              { return make(http.Header) }
func (*written) WriteHeader(int)                  {}
func (*written) Flush()                           {}
func (*written) SetWriteDeadline(time.Time) error { return nil }

func (w *written) Write(p []byte) (int, error) {
	if w.writes++; w.breaks > 0 && w.writes >= w.breaks {
		return 0, errors.New("the connection is broken")
	}
	return w.Builder.Write(p)
}

// TestStreamShowsThatItIsThere: a stream that has nothing to say says so, and ends when it
// cannot, or the client has gone.
func TestStreamShowsThatItIsThere(t *testing.T) {
	for name, breaks := range map[string]int{"the client goes": 0, "the connection breaks": 5} {
		synctest.Test(t, func(t *testing.T) {
			board := notices.NewBoard()
			board.SetMost(1)
			p := board.Publisher(func() {})
			p.Publish(revision.Legacy, revision.Tools, notices.Digest{}, true)
			l, err := board.Listen(notices.Listening{Wants: revision.SetOf(revision.Tools)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancel(t.Context())
			w := &written{breaks: breaks}
			v := &visit{w: w, r: (&http.Request{}).WithContext(ctx), endpoint: &Endpoint{}}
			var ended atomic.Bool
			go func() {
				v.openStream(l).run()
				ended.Store(true)
			}()
			time.Sleep(3 * beat)
			synctest.Wait()
			if got := w.String(); got != ":\n\n:\n\n:\n\n" || ended.Load() {
				t.Errorf("%s: after three times it has written %q, ended: %v", name, got, ended.Load())
			}
			if breaks == 0 {
				p.Publish(revision.Legacy, revision.Tools, notices.Digest{1}, true)
				p.Tell(revision.Legacy, revision.Tools)
				synctest.Wait()
				if _, said, _ := strings.Cut(w.String(), "id: "); !strings.HasSuffix(said, "\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n") {
					t.Errorf("%s: a change is announced by %q", name, said)
				}
				leave()
			}
			time.Sleep(2 * beat)
			synctest.Wait()
			if !ended.Load() {
				t.Errorf("%s: the stream goes on", name)
			}
			leave()
		})
	}
}

// newStream returns the stream of a client that listens for nothing, opened now.
func newStream(t *testing.T, ctx context.Context) *stream {
	t.Helper()
	board := notices.NewBoard()
	board.SetMost(1)
	l, err := board.Listen(notices.Listening{})
	if err != nil {
		t.Fatal(err)
	}
	v := &visit{w: new(written), r: (&http.Request{}).WithContext(ctx), arrived: time.Now(), endpoint: &Endpoint{}}
	return v.openStream(l)
}

// TestStreamEndsWithItsCaller: a client that may not listen any more is not told of anything
// from the next beat on.
func TestStreamEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t, t.Context())
		began := time.Now()
		s.isOver = func() bool { return time.Since(began) > 2*beat }
		s.run()
		if took := time.Since(began); took != 3*beat {
			t.Errorf("the stream ended after %s", took)
		}
	})
}

// TestStreamEndsWithTheSession: a client whose session is over listens no longer.
func TestStreamEndsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t, t.Context())
		s.v.client = &session.Client{Expires: s.v.arrived.Add(time.Hour)}
		s.run()
		if took := time.Since(s.v.arrived); took != time.Hour {
			t.Errorf("it ends after %v", took)
		}
	})
}

// TestStreamEndsBeforeItHasTo: Caddy cuts an answer after its timeout, so a stream ends before.
func TestStreamEndsBeforeItHasTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithValue(t.Context(), caddyhttp.ServerCtxKey, &caddyhttp.Server{WriteTimeout: caddy.Duration(10 * time.Second)})
		s := newStream(t, ctx)
		s.run()
		if took := time.Since(s.v.arrived); took != 9*time.Second {
			t.Errorf("it ends after %v", took)
		}
	})
}
