package client

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// slow answers a list after that time, and reports whether somebody took the answer.
func slow(s *server, takes time.Duration, taken chan<- bool) script {
	return func(w http.ResponseWriter, r *http.Request, c call) error {
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			taken <- false
			return r.Context().Err()
		}
		err := s.Answer(w, r, c)
		taken <- err == nil
		return err
	}
}

// cancelled returns which requests the server was told not to answer.
func (w *world) cancelled() []string {
	var ids []string
	for _, c := range w.server.Bodies("notifications/cancelled") {
		ids = append(ids, string(c.Params.RequestID))
	}
	return ids
}

// A legacy server that takes too long is told, and its answer is taken all the same: some
// bridges exit if it cannot be delivered (supergateway#165).
func TestSlowRequestIsCancelledAndNotDropped(t *testing.T) {
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			taken := make(chan bool, 1)
			s.On(list, slow(s, RequestTimeout+leftFor/2, taken))
			run(t, r, s, func(w *world) {
				session := w.open()
				defer session.Close(time.Second)
				if _, err := session.List(w.Context(), ListRequest{Kind: revision.Tools}); err == nil {
					t.Fatal("the list came in time")
				}
				w.after(leftFor)
				want := 0 // a modern one is told by the end of the connection
				if r == legacy {
					want = 1
				}
				if got := w.cancelled(); len(got) != want || want == 1 && got[0] != "2" {
					t.Errorf("requests %v were cancelled", got)
				}
				if <-taken != (r == legacy) {
					t.Error("the answer was dropped, or waited for without need")
				}
			})
		})
	}
}

// What is not answered when a session ends is cancelled before.
func TestCloseCancels(t *testing.T) {
	for name, notice := range map[string]script{"heard": nil, "not acknowledged": clienttest.Hang, "refused": refuse} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy)
			s.On(list, clienttest.Hang)
			s.On("notifications/cancelled", notice)
			run(t, legacy, s, func(w *world) {
				session := w.open()
				done := make(chan error, 1)
				go func() {
					_, err := session.List(w.Context(), ListRequest{Kind: revision.Tools})
					done <- err
				}()
				w.after(time.Second)
				begun := time.Now()
				session.Close(2 * time.Second)
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
				if err := <-done; err == nil {
					t.Error("there was an answer")
				}
				if got := w.cancelled(); len(got) != 1 {
					t.Errorf("requests %v were cancelled", got)
				}
				var order []string
				s.Do(func() {
					for _, c := range s.Requests[len(s.Requests)-2:] {
						order = append(order, c.Method)
					}
				})
				if order[0] != "notifications/cancelled" || order[1] != "DELETE" {
					t.Errorf("the last requests were %v", order)
				}
			})
		})
	}
}

// Any success acknowledges a notification, and so does silence.
func TestAcknowledgements(t *testing.T) {
	for name, tt := range map[string]struct {
		answer script
		takes  time.Duration
		fails  bool
	}{
		"202":         {status(202), 0, false},
		"200 HTML":    {status(200), 0, false},
		"200 JSON":    {raw(`{}`), 0, false},
		"200 nothing": {func(w http.ResponseWriter, _ *http.Request, _ call) error { w.WriteHeader(200); return nil }, 0, false},
		"200 event stream": {func(w http.ResponseWriter, _ *http.Request, _ call) error {
			return reply(w, 200, "text/event-stream", ": hi\n\n")
		}, 0, false},
		"201":     {status(201), 0, false},
		"204":     {status(204), 0, false},
		"206":     {status(206), 0, false},
		"never":   {clienttest.Hang, acknowledgedWithin, false},
		"400":     {status(400), 0, true},
		"500":     {status(500), 0, true},
		"refused": {refuse, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(legacy)
			s.On("notifications/initialized", tt.answer)
			run(t, legacy, s, func(w *world) {
				begun := time.Now()
				session, err := w.try()
				defer func() { session.Close(time.Second) }()
				if (err != nil) != tt.fails || time.Since(begun) != tt.takes {
					t.Fatalf("after %v: got error %v", time.Since(begun), err)
				}
				if err != nil {
					return
				}
				if _, err := session.List(w.Context(), ListRequest{Kind: revision.Tools}); err != nil {
					t.Errorf("listing: %v", err)
				}
				sent := s.Bodies("notifications/initialized")[0]
				if sent.Header.Get("Mcp-Session-Id") != "session-1" || json.Valid(sent.ID) || sent.Header.Get("Mcp-Protocol-Version") != legacy.String() {
					t.Errorf("it was sent with id %s and header %v", sent.ID, sent.Header)
				}
			})
		})
	}
}
