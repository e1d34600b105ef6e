package feed

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

func TestNeedsAuthorization(t *testing.T) {
	for name, tt := range map[string]struct {
		guard  guards.Guard
		answer script
		calls  int
	}{
		"no guard":          {nil, status(401), 1},
		"cannot be renewed": {new(clienttest.Guard), status(401), 1},
		"forbidden":         {&clienttest.Guard{Renewals: 5}, status(403), 1},
		"no credential":     {&clienttest.Guard{Put: func(*http.Request) error { return guards.ErrUnauthorized }}, nil, 0},
		"not a renewer":     {clienttest.PlainGuard{}, status(401), 1},
	} {
		for era, r := range both {
			t.Run(name+" "+era, func(t *testing.T) {
				s := newServer(r)
				s.OnAll(tt.answer)
				run(t, s, func(w *world) {
					w.set(func(p *Policy) { p.Guard = tt.guard })
					f := w.start(r)
					w.wantState(f, NeedsAuthorization)
					opening := map[revision.Revision]string{legacy: "initialize", modern: "server/discover"}[r]
					w.wantCalls(opening, tt.calls)
					w.after(time.Hour)
					w.wantState(f, NeedsAuthorization)
					w.wantStates(r, NeedsAuthorization)
					s.OnAll(nil)
					w.set(func(p *Policy) { p.Guard = new(clienttest.Guard) })
					w.after(46 * time.Second)
					w.wantState(f, Ready)
				})
			})
		}
	}
}

// A guard that fails for another reason says nothing of the credential.
func TestGuardFails(t *testing.T) {
	s := newServer(modern)
	run(t, s, func(w *world) {
		w.set(func(p *Policy) {
			p.Guard = &clienttest.Guard{Put: func(*http.Request) error { return errors.New("token server is down") }}
		})
		w.wantState(w.start(modern), Down)
	})
}

// Texts are cut wherever they come from: what is shown, and no more.
func TestFailuresAreCut(t *testing.T) {
	for _, size := range []int{client.MaxErrorText, client.MaxErrorText + 1, 8 << 20} {
		long := func(before string) error { return errors.New(strings.Repeat("x", size-len(before))) }
		for name, tt := range map[string]struct {
			before  string
			prepare func(s *server, p *Policy, err error)
		}{
			"guard": {"calling server/discover: authorizing a request: ", func(_ *server, p *Policy, err error) {
				p.Guard = &clienttest.Guard{Put: func(*http.Request) error { return err }}
			}},
			"upstream": {"calling initialize: ", func(s *server, _ *Policy, err error) {
				s.OnAll(func(http.ResponseWriter, *http.Request, call) error { return err })
			}},
			"notification": {"sending notifications/initialized: failed to send request: ", func(s *server, _ *Policy, err error) {
				s.On("notifications/initialized", func(http.ResponseWriter, *http.Request, call) error { return err })
			}},
			"fetch": {"calling tools/list: ", func(s *server, p *Policy, err error) {
				p.Kinds = revision.SetOf(revision.Tools)
				s.On("tools/list", func(http.ResponseWriter, *http.Request, call) error { return err })
			}},
		} {
			r := legacy
			if name == "guard" {
				r = modern
			}
			s := newServer(r)
			run(t, s, func(w *world) {
				w.set(func(p *Policy) { tt.prepare(s, p, long(tt.before)) })
				f := w.start(r)
				text := f.Status().Failure.Err.Error()
				for _, line := range w.logs.FilterField(zap.String("stage", f.Status().Failure.Stage)).All() {
					if len(fmt.Sprint(line.ContextMap()["error"])) > client.MaxErrorText {
						t.Errorf("%s, %d bytes: the log has all of it", name, size)
					}
				}
				if len(text) > client.MaxErrorText || !strings.HasPrefix(text, tt.before[:10]) {
					t.Errorf("%s, %d bytes: the failure has %d: %.100s", name, size, len(text), text)
				}
			})
		}
	}
}
