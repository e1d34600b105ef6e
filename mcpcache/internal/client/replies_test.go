package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client/clienttest"
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
			s.On("", clienttest.Hang) // it does not take the answers
			s.On(list, asks(requests))
			run(t, r, s, func(w *world) {
				session := w.open()
				w.wantNames(session, "asked")
				w.wantCalls("", MaxReplies)
				if got := w.client.Unanswered(); got != requests-MaxReplies {
					t.Errorf("%d requests are counted as unanswered, want %d", got, requests-MaxReplies)
				}
				// Those that were on their way have ended with the answer they came on.
				s.On(list, nil)
				w.wantNames(session, "tools_a tools_b")
				w.after(0)
				if n := w.client.replies.underWay.Load(); n != 0 {
					t.Errorf("%d answers are still on their way", n)
				}
			})
		})
	}
}

// A request on the answer to another is answered as one on a stream of notices.
func TestRequestsOnAnswersAreAnswered(t *testing.T) {
	s := newServer(legacy)
	run(t, legacy, s, func(w *world) {
		release := make(chan struct{})
		s.On(list, func(w http.ResponseWriter, _ *http.Request, c call) error {
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
		session, names := w.open(), make(chan string, 1)
		go func() {
			got, err := w.names(session)
			names <- fmt.Sprint(got, err)
		}()
		w.after(0)
		if len(s.Posted) != 2 {
			t.Fatalf("the server got %d answers", len(s.Posted))
		}
		answers := make(map[string]string)
		for _, c := range s.Posted {
			answers[string(c.ID)] = string(c.Result) + string(c.Error)
		}
		if answers[`"p-1"`] != `{}` || !strings.Contains(answers["9007199254740993"], "-32601") {
			t.Errorf("the answers are %v", answers)
		}
		close(release)
		if got := <-names; got != "asked<nil>" {
			t.Errorf("the list is %q", got)
		}
	})
}

// As many as may be are answered, and one more when one is done.
func TestRepliesAtTheirBound(t *testing.T) {
	var r replies
	for i := range MaxReplies {
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

// What a server asks a client of ours is answered in turn, up to a bound, with the credentials
// that the client has now.
func TestAnswersOfClientsWait(t *testing.T) {
	s := newServer(legacy)
	s.On("", clienttest.Hang) // it takes no answer
	run(t, legacy, s, func(w *world) {
		session, err := w.client.NewSession(&Identity{Capabilities: []byte(`{}`), Credentials: http.Header{"Authorization": {"old"}}})
		if err != nil {
			w.Fatal(err)
		}
		if err := session.Open(w.Context()); err != nil {
			w.Fatal(err)
		}
		for range maxWaiting + 1 {
			session.Answer(http.Header{"Authorization": {"new"}}, []byte("1"), "ping")
		}
		w.after(0)
		w.wantCalls("", MaxReplies)
		if got := w.client.Unanswered(); got != 1 {
			t.Errorf("%d requests are counted as unanswered, want 1", got)
		}
		s.On("", nil)
		w.after(maxWaiting / MaxReplies * RequestTimeout)
		w.wantCalls("", maxWaiting)
		for _, c := range s.Posted {
			if got := c.Header.Get("Authorization"); got != "new" {
				t.Errorf("an answer has the credential %q", got)
			}
		}
		if n := session.waiting.Load(); n != 0 {
			t.Errorf("%d answers are still to be sent", n)
		}
		session.Close(time.Second)
	})
}

func TestRequestsOnTheStreamAreAnswered(t *testing.T) {
	s := newServer(legacy)
	run(t, legacy, s, func(w *world) {
		_, stop := w.listen(w.open())
		defer stop()
		s.Send(`{"jsonrpc":"2.0","id":"p-1","method":"ping"}`)
		w.after(0)
		s.Send(`{"jsonrpc":"2.0","id":9007199254740993,"method":"sampling/createMessage","params":{}}`)
		w.after(0)
		s.Send(`{"jsonrpc":"2.0","id":3,"result":{}}`)
		s.Send(`not JSON`)
		w.after(0)
		if len(s.Posted) != 2 {
			t.Fatalf("the server got %d answers", len(s.Posted))
		}
		ping, sampling := s.Posted[0], s.Posted[1]
		if string(ping.ID) != `"p-1"` || string(ping.Result) != `{}` || ping.Header.Get("Mcp-Session-Id") != "session-1" {
			t.Errorf("ping was answered with %s %s in session %s", ping.ID, ping.Result, ping.Header.Get("Mcp-Session-Id"))
		}
		var refusal struct{ Code int }
		if err := json.Unmarshal(sampling.Error, &refusal); err != nil || refusal.Code != -32601 || string(sampling.ID) != "9007199254740993" {
			t.Errorf("sampling was answered with %s %s", sampling.ID, sampling.Error)
		}
	})
}
