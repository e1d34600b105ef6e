package feed

import (
	"net/http"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// A stream that cannot be read is no stream: the TTL rules, and the feed does
// not say that it listens.
func TestStreamInAnUnknownCoding(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.On(listening[r], func(w http.ResponseWriter, _ *http.Request, _ call) error {
				w.Header().Set("Content-Encoding", "br")
				return reply(w, http.StatusOK, "text/event-stream", "\x0b\x00\x80")
			})
			run(t, s, func(w *world) {
				f := w.start(r)
				w.after(acknowledgeTimeout)
				if f.Status().Listening {
					t.Error("the feed says that it listens")
				}
				w.wantState(f, Ready)
				s.Set(revision.Tools, "new")
				w.after(w.policy.TTL)
				w.wantItems(r, revision.Tools, "new")
			})
		})
	}
}

// A list that speaks of notices is kept like any other, and heard but once.
func TestMentionInAListIsNoNotice(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.Set(revision.Tools, "notifications/tools/list_changed")
			run(t, s, func(w *world) {
				w.start(r)
				w.after(w.policy.TTL / 2)
				w.wantItems(r, revision.Tools, "notifications/tools/list_changed")
				w.wantCalls(list, 1)
			})
		})
	}
}
