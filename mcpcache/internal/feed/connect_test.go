package feed

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// An answer that says nothing of revisions never makes one unsupported, and
// does not keep the feed from it once the server is well.
func TestNegotiation(t *testing.T) {
	for name, tt := range map[string]struct {
		revision revision.Revision
		method   string
		answer   script
		want     State
		starts   revision.Revision // also
	}{
		"modern":                    {modern, "", nil, Ready, 0},
		"modern, legacy versions":   {modern, "server/discover", gives(`{"supportedVersions":["2025-03-26","2025-06-18"],"capabilities":{"tools":{}}}`), Unsupported, revision.V20250618},
		"modern, 404 not found":     {modern, "server/discover", failure(404, -32601, ""), Unsupported, 0},
		"modern, 401":               {modern, "server/discover", status(401), NeedsAuthorization, 0},
		"modern, 429":               {modern, "server/discover", status(429, "Retry-After", "60"), Down, 0},
		"modern, timeout":           {modern, "server/discover", hang, Down, 0},
		"modern, refused":           {modern, "server/discover", refuse, Down, 0},
		"modern, wrong id":          {modern, "server/discover", answerTo(`"other"`), Down, 0},
		"legacy":                    {legacy, "", nil, Ready, 0},
		"legacy, an older one":      {legacy, "initialize", nil, Unsupported, revision.V20250618},
		"legacy, 2024-11-05":        {legacy, "initialize", gives(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}}}`), Unsupported, 0},
		"legacy, a modern one":      {legacy, "initialize", gives(`{"protocolVersion":"2026-07-28","capabilities":{"tools":{}}}`), Unsupported, modern},
		"legacy, 404":               {legacy, "initialize", status(404), Unsupported, 0},
		"legacy, 403":               {legacy, "initialize", failure(403, -32001, ""), NeedsAuthorization, 0},
		"legacy, 502":               {legacy, "initialize", status(502), Down, 0},
		"legacy, timeout":           {legacy, "initialize", hang, Down, 0},
		"legacy, no capabilities":   {legacy, "initialize", gives(`{"protocolVersion":"2025-11-25"}`), Ready, 0},
		"legacy, initialized fails": {legacy, "notifications/initialized", status(500), Down, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(tt.revision)
			if tt.starts != 0 {
				s.Speaks = []string{tt.starts.String()}
			}
			if tt.answer != nil {
				s.On(tt.method, func(w http.ResponseWriter, r *http.Request, c call) error {
					if c.Params.ProtocolVersion == tt.starts.String() {
						return s.Answer(w, r, c)
					}
					return tt.answer(w, r, c)
				})
			}
			run(t, s, func(w *world) {
				f := w.start(tt.revision)
				w.after(client.InitializeTimeout + time.Second)
				w.wantState(f, tt.want)
				for _, r := range revision.All() {
					if got, want := w.group.Of(r) != nil, r == tt.revision || r == tt.starts; got != want {
						t.Errorf("feed of %s runs: %v", r, got)
					}
				}
				if tt.starts != 0 {
					w.wantState(w.group.Of(tt.starts), Ready)
				}
				if tt.want == Ready {
					return
				}
				if f.Status().Failure == nil || f.Status().Failure.Stage != "connect" {
					t.Errorf("the failure is %+v", f.Status().Failure)
				}
				select {
				case <-f.Attempted():
				default:
					t.Error("those who wait for the first attempt still wait")
				}
				s.Do(func() { s.Speaks = []string{tt.revision.String()} })
				s.On(tt.method, nil)
				w.after(w.policy.TTL)
				w.wantState(f, Ready)
			})
		})
	}
}

func TestUnsupportedIsAskedAgainWhenAClientShowsIt(t *testing.T) {
	s := newServer(modern)
	s.On("server/discover", failure(404, -32601, ""))
	run(t, s, func(w *world) {
		f := w.start(modern)
		w.wantState(f, Unsupported)
		s.On("server/discover", nil)
		w.after(w.policy.Refresh)
		f.Poke()
		w.after(0)
		w.wantState(f, Ready)
		w.wantStates(modern, Unsupported, Hydrating, Ready)
	})
}

// However many clients succeed, the feed tries again no more often than it refreshes what had no
// answer, and what was answered in ever longer pauses: another attempt is as good as the last.
// The upstream's wish to be left alone counts.
func TestPokesAreBounded(t *testing.T) {
	const backoff = 8 // attempts that the pauses of a retry allow in ten seconds, at most
	unusable := gives(`{"tools":[{"title":"no name"}]}`)
	for name, tt := range map[string]struct {
		revision    revision.Revision
		method      string
		answer      script
		least, most int
	}{
		"no answer":                {modern, discover, refuse, 10, 11 + backoff},
		"a list, no answer":        {modern, list, refuse, 10, 11 + backoff},
		"refused":                  {modern, discover, status(401), 2, backoff},
		"an error":                 {modern, discover, failure(200, -32603, ""), 2, backoff},
		"2024-11-05":               {legacy, "initialize", gives(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}}}`), 2, 1 + 4},
		"an unusable list, legacy": {legacy, list, unusable, 2, backoff},
		"an unusable list, modern": {modern, list, unusable, 2, backoff},
		"a list, refused":          {modern, list, status(403), 2, backoff},
		"to be left alone":         {modern, discover, status(429, "Retry-After", "60"), 1, 1},
		"a list, left alone":       {modern, list, status(429, "Retry-After", "60"), 1, 1},
		"a list, an error":         {modern, list, failure(200, -32603, ""), 2, backoff},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(tt.revision)
			s.On(tt.method, tt.answer)
			run(t, s, func(w *world) {
				f := w.start(tt.revision)
				for range 1000 {
					f.Poke()
					w.after(10 * time.Millisecond)
				}
				if got := s.Count(tt.method); got < tt.least || got > tt.most {
					t.Errorf("%d attempts in 10s, want %d to %d", got, tt.least, tt.most)
				}
			})
		})
	}
}
