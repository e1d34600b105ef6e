package feed

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// asks answers a list as an event stream in which requests come first, in
// chunks as a proxy hands them over.
func asks(requests int) script {
	return func(w http.ResponseWriter, _ *http.Request, c call) error {
		w.Header().Set("Content-Type", "text/event-stream")
		var chunk strings.Builder
		for i := range requests {
			fmt.Fprintf(&chunk, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", i)
			if chunk.Len() < 32<<10 && i < requests-1 {
				continue
			}
			if _, err := io.WriteString(w, chunk.String()); err != nil {
				return err
			}
			chunk.Reset()
		}
		_, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"tools\":[{\"name\":\"asked\"}]}}\n\n", c.ID)
		return err
	}
}

// A server that asks without end costs a few answers, and is listened to.
func TestServersRequestsAreBounded(t *testing.T) {
	const requests = 21_400
	for era, r := range both {
		t.Run(era, func(t *testing.T) {
			s := newServer(r)
			s.on("", hang) // it does not take the answers
			s.on(list, asks(requests))
			run(t, s, func(w *world) {
				f := w.start(r)
				w.wantState(f, Ready)
				w.wantItems(r, revision.Tools, "asked")
				w.wantCalls("", maxReplies)
				if got := f.Status().Unanswered; got != requests-maxReplies {
					t.Errorf("%d requests are counted as unanswered, want %d", got, requests-maxReplies)
				}
				// Those that were on their way have ended with the answer they came on.
				s.on(list, nil)
				w.after(w.policy.Refresh)
				if _, err := f.Refresh(w.Context(), revision.Tools); err != nil {
					t.Error(err)
				}
				if n := f.replies.underWay.Load(); n != 0 {
					t.Errorf("%d answers are still on their way", n)
				}
			})
		})
	}
}

// A request on the answer to another is answered as one on a stream of notices.
func TestRequestsOnAnswersAreAnswered(t *testing.T) {
	s := newServer(legacy)
	release := make(chan struct{})
	s.on(list, func(w http.ResponseWriter, r *http.Request, c call) error {
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := io.WriteString(w, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"p-1\",\"method\":\"ping\"}\n\n"+
			"data: {\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"roots/list\"}\r\n\r\n")
		if err != nil {
			return err
		}
		<-release
		_, err = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"tools\":[{\"name\":\"asked\"}]}}\n\n", c.ID)
		return err
	})
	run(t, s, func(w *world) {
		release = make(chan struct{})
		w.start(legacy)
		if len(s.posted) != 2 {
			t.Fatalf("the server got %d answers", len(s.posted))
		}
		answers := make(map[string]string)
		for _, c := range s.posted {
			answers[string(c.ID)] = string(c.Result) + string(c.Error)
		}
		if answers[`"p-1"`] != `{}` || !strings.Contains(answers["9007199254740993"], "-32601") {
			t.Errorf("the answers are %v", answers)
		}
		close(release)
		w.after(0)
		w.wantItems(legacy, revision.Tools, "asked")
	})
}

// As many as may be are answered, and one more when one is done.
func TestRepliesAtTheirBound(t *testing.T) {
	var r replies
	for i := range maxReplies {
		if !r.begin() {
			t.Fatalf("answer %d is not sent", i)
		}
	}
	if r.begin() {
		t.Error("one too many is sent")
	}
	r.end()
	if !r.begin() {
		t.Error("no other is sent once one is done")
	}
	if got := r.dropped.Load(); got != 1 {
		t.Errorf("%d are counted as dropped, want 1", got)
	}
}
