package probe

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// TestSeats looks at servers that take one session, in every way that is known of, and at
// others that only seem to. Before the trial in the end there never are two sessions.
func TestSeats(t *testing.T) {
	for name, c := range map[string]struct {
		full     func(s *scripted.Server, x *scripted.Exchange) // answers initialize while a session is open
		one      bool
		keepsOut bool
		opened   int64 // sessions after that
	}{
		"several":               {func(_ *scripted.Server, x *scripted.Exchange) { x.Default() }, false, false, 0},
		"refused with 400":      {func(_ *scripted.Server, x *scripted.Exchange) { x.Error(400, -32600, "already initialized") }, true, false, 1},
		"refused with an error": {func(_ *scripted.Server, x *scripted.Exchange) { x.Error(200, -32600, "already initialized") }, true, true, 0},
		"refused with 500":      {func(_ *scripted.Server, x *scripted.Exchange) { scripted.Status(500)(x) }, true, false, 1},
		"too many requests":     {func(_ *scripted.Server, x *scripted.Exchange) { scripted.TooManyRequests(1)(x) }, false, false, 0},
		"the newest takes it": {func(s *scripted.Server, x *scripted.Exchange) {
			s.ForgetSessions()
			x.Default()
		}, true, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted()
			var twice, afterwards atomic.Int64
			s.SetScript("initialize", func(x *scripted.Exchange) {
				if twice.Load() > 0 {
					afterwards.Add(1)
				}
				if clients, feeds := s.Sessions(); clients+feeds > 0 {
					twice.Add(1)
					c.full(s, x)
					return
				}
				x.Default()
			})
			r := run(t, options(t, serve(t, s), callerA, callerB))
			if twice.Load() != 1 || afterwards.Load() != c.opened {
				t.Errorf("a second session was opened %d times, and others %d times afterwards", twice.Load(), afterwards.Load())
			}
			if clients, feeds := s.Sessions(); clients+feeds != 0 {
				t.Errorf("%d sessions are left", clients+feeds)
			}
			if r.Eras[1].OneSession != c.one || r.Eras[1].KeepsOut != c.keepsOut || r.Eras[0].OneSession || len(r.Revisions) != 4 {
				t.Errorf("the report is %s", asJSON(t, r))
			}
			if tools := r.Eras[1].Lists[0]; !tools.Capabilities.Same || !tools.Caller.Same || !tools.Anonymous.Same {
				t.Errorf("the tools are %+v", tools)
			}
			if !c.one {
				if strings.Contains(r.Text(), "One session only") {
					t.Errorf("it says\n%s", r.Text())
				}
				return
			}
			if c.keepsOut {
				wantKeepsOut(t, r)
				return
			}
			wantWords(t, r, "- One session only (legacy): each client takes the seat from the others, or is refused while one has it. "+
				"The cache's feed gives way to clients, and may miss changes meanwhile. Have the server take several sessions.")
		})
	}
}

// TestTakenSeat looks at a server whose only session somebody else has.
func TestTakenSeat(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusBadRequest:          "URL refuses initialize (error -32600: already initialized): look into the server's log; a server that takes one session at a time refuses so while a client has it",
		http.StatusInternalServerError: "URL fails (error -32600: already initialized): look into the server's log; a server that takes one session at a time refuses so while a client has it",
	} {
		s := newScripted()
		s.SetRevisions(scripted.LatestLegacy)
		s.SetScript("initialize", func(x *scripted.Exchange) { x.Error(status, -32600, "already initialized") })
		code := map[bool]string{true: "server_error", false: "error"}[status >= 500]
		wantTrouble(t, options(t, serve(t, s)), code, want)
	}
}

// TestSeatThatIsNotGivenBack looks at servers that take one session, and do not free the
// seat when that is ended: at once, or once two have been wanted at a time.
func TestSeatThatIsNotGivenBack(t *testing.T) {
	for name, isFull := range map[string]func(s *scripted.Server, opened int64) bool{
		"ever": func(_ *scripted.Server, opened int64) bool { return opened > 0 },
		"then": func(s *scripted.Server, _ int64) bool { clients, feeds := s.Sessions(); return clients+feeds > 0 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted()
			var opened atomic.Int64
			var full atomic.Bool
			s.SetScript("initialize", func(x *scripted.Exchange) {
				if full.Load() || isFull(s, opened.Load()) {
					full.Store(true)
					x.Error(http.StatusBadRequest, -32600, "already initialized")
					return
				}
				opened.Add(1)
				x.Default()
			})
			r := run(t, options(t, serve(t, s)))
			if !r.Usable || !r.Eras[1].OneSession {
				t.Errorf("the report is %s", asJSON(t, r))
			}
			wantKeepsOut(t, r)
			r.Closed = true // then one option would have to be two
			if c := caddyfile(r); c != "" || judgeSeat(r)[0].Set != "" {
				t.Errorf("%s is suggested, and the Caddyfile\n%s", judgeSeat(r)[0].Set, c)
			}
		})
	}
}

// wantKeepsOut checks what is said of a server whose only session the feed would keep.
func wantKeepsOut(t *testing.T, r *Report) {
	t.Helper()
	wantWords(t, r, "- One session only (legacy): each client takes the seat from the others, or is refused while one has it. "+
		"The cache's feed would keep clients out: it does not notice that they are refused, or cannot give the seat back. "+
		"Have the server take several sessions. With this option the feed opens none, and lists of that era are not cached. set: eras modern")
	if !strings.Contains(r.Caddyfile, "\t\teras modern\n") {
		t.Errorf("the Caddyfile is\n%s", r.Caddyfile)
	}
}
