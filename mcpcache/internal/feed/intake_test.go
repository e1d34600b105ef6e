package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/sse"
)

// replying is a round tripper that answers with a body, in pieces.
type replying struct {
	contentType, body string
	sized             bool
	piece             int
}

func (r replying) RoundTrip(req *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {r.contentType}}
	if r.sized {
		header.Set("Content-Length", fmt.Sprint(len(r.body)))
	}
	return &http.Response{StatusCode: 200, Header: header, Request: req, Body: io.NopCloser(pieces{strings.NewReader(r.body), r.piece})}, nil
}

type pieces struct {
	io.Reader
	size int
}

func (p pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.size)]) }

const (
	jsonType  = "application/json"
	eventType = "text/event-stream"
)

// exactly returns a result message of that many bytes with id 7, and its result.
func exactly(size int) (text, result string) {
	const before, after = `{"jsonrpc":"2.0","id":7,"result":`, "}"
	result = `{"tools":[{"name":"a","x":"` + strings.Repeat("x", size-len(before+after)-len(`{"tools":[{"name":"a","x":""}]}`)) + `"}]}`
	return before + result + after, result
}

// TestIntake has long answers taken in: the client library is given short ones.
// What is not longer than may be it is given as it is.
func TestIntake(t *testing.T) {
	short, _ := exactly(longMessage)
	long, result := exactly(longMessage + 1)
	const stub = `{"jsonrpc":"2.0","id":7,"result":{}}`
	const notice = "id: 1\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"
	failure := `{"jsonrpc":"2.0","id":7,"error":{"code":-5,"message":"` + strings.Repeat("m", longMessage) + `"}}`
	longNotice := `{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"` + strings.Repeat("x", longMessage) + `"}}`
	// An event may have as many bytes as a message, with all around its data.
	shortEvent, _ := exactly(longMessage - len("data: \n\n"))
	event := func(data string) string { return "data: " + data + "\n\n" }
	for name, tt := range map[string]struct {
		contentType, body string
		want, taken       string
	}{
		"short":              {jsonType, short, short, ""},
		"long":               {jsonType, long, stub, result},
		"long error":         {jsonType, failure, `{"jsonrpc":"2.0","id":7,"error":{"code":-5,"message":"` + strings.Repeat("m", maxErrorText) + `"}}`, ""},
		"empty":              {jsonType, "", "", ""},
		"short event":        {eventType, notice + event(shortEvent), notice + event(shortEvent), ""},
		"long event":         {eventType, notice + event(long) + notice, notice + sse.Start + stub + sse.End + notice, result},
		"several lines":      {eventType, "event: message\r\ndata: " + strings.Replace(long, ",", ",\r\ndata:", 1) + "\r\n\r\n", sse.Start + stub + sse.End + "\n", result},
		"CR":                 {eventType, "data: " + long + "\r\r" + notice, sse.Start + stub + sse.End + notice, result},
		"no blank line":      {eventType, "data: " + long, sse.Start + stub + sse.End, result},
		"no line end, short": {eventType, notice + "data: x", notice + "data: x", ""},
		"long notice":        {eventType, event(longNotice) + event(long), sse.Start + `{"jsonrpc":"2.0","method":"notifications/x"}` + sse.End + sse.Start + stub + sse.End, result},
		"long comment":       {eventType, ": " + strings.Repeat("x", longMessage) + "\n\n" + notice, notice, ""},
	} {
		for _, piece := range []int{1 << 10, 1 << 20} {
			for _, sized := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d, %t", name, piece, sized), func(t *testing.T) {
					i := &intake{ticket: &ticket{turn: newTurn()}, limit: 1 << 20}
					got, err := i.receive(t, replying{tt.contentType, tt.body, sized, piece})
					if err != nil || got != tt.want {
						t.Errorf("got error %v, %.200q, want %.200q", err, got, tt.want)
					}
					if string(i.result) != tt.taken {
						t.Errorf("took %.200q, want %.200q", i.result, tt.taken)
					}
					if held := len(i.ticket.turn) == 1; held != (len(tt.body)-len(tt.want) > longMessage/2) {
						t.Errorf("the turn was taken: %t", held)
					}
				})
			}
		}
	}
}

// receive returns what the client library is given.
func (i *intake) receive(t *testing.T, answer http.RoundTripper) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(withIntake(t.Context(), i), http.MethodPost, "http://upstream.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := taking{answer}.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return string(got), err
}

// Nothing of a short event is held back once it has ended, however its lines end
// and in whatever pieces it comes.
func TestIntakeHoldsNothingBack(t *testing.T) {
	for _, event := range []string{"data: x\n\n", "data: x\r\n\r\n", "data: x\r\r", ": x\n\n"} {
		for _, piece := range []int{1, len(event)} {
			synctest.Test(t, func(t *testing.T) { // which fails if anybody waits for ever
				r, w := io.Pipe()
				answer := roundTrip(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {eventType}}, Body: r}, nil
				})
				i := &intake{ticket: &ticket{turn: newTurn()}}
				req, err := http.NewRequestWithContext(withIntake(t.Context(), i), http.MethodPost, "http://upstream.test", nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := taking{answer}.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					go func() {
						for part := range slices.Chunk([]byte(event), piece) {
							_, _ = w.Write(part)
						}
					}()
					got := make([]byte, len(event))
					if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != event {
						t.Errorf("got %q, error %v, want %q", got, err, event)
					}
				}
				_ = res.Body.Close()
			})
		}
	}
}

func TestIntakeRefuses(t *testing.T) {
	long, _ := exactly(longMessage + 100)
	for name, body := range map[string]string{
		"cut short":      long[:len(long)-1],
		"no message":     strings.Repeat("x", longMessage+1),
		"ambiguous":      long[:len(long)-1] + `,"result":{}}`,
		"no response":    `[` + long + `]`,
		"id of an array": strings.Replace(long, "7", "[]", 1),
	} {
		for contentType, text := range map[string]string{jsonType: body, eventType: "data: " + body + "\n\n"} {
			i := &intake{ticket: &ticket{turn: newTurn()}}
			got, err := i.receive(t, replying{contentType, text, false, 1 << 20})
			if !errors.Is(err, errNoResult) || got != "" || i.result != nil {
				t.Errorf("%s: got error %v, %.100q", name, err, got)
			}
		}
	}
}

// A length that no answer may have is not believed.
func TestIntakeBelievesNoLength(t *testing.T) {
	long, result := exactly(longMessage + 1)
	i := &intake{ticket: &ticket{turn: newTurn()}, limit: 1 << 20}
	lying := roundTrip(func(req *http.Request) (*http.Response, error) {
		res, err := replying{jsonType, long, false, 1 << 20}.RoundTrip(req)
		res.Header.Set("Content-Length", fmt.Sprint(int64(1)<<50))
		return res, err
	})
	if _, err := i.receive(t, lying); err != nil || string(i.result) != result {
		t.Errorf("got error %v, %.100q", err, i.result)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestLongLists fetches long lists in every form, in both eras: byte for byte.
func TestLongLists(t *testing.T) {
	padding := strings.Repeat("x", longMessage)
	items := `{"name":"a","n":1.0,"x":"` + padding + `"},{"name":"b"}`
	events := func(events ...string) script {
		return func(w http.ResponseWriter, _ *http.Request, c call) error {
			text := ""
			for _, event := range events {
				text += "data: " + strings.ReplaceAll(event, "ID", string(c.ID)) + "\n\n"
			}
			return reply(w, 200, eventType, text)
		}
	}
	whole := `{"jsonrpc":"2.0","id":ID,"result":{"tools":[` + items + `]}}`
	other := `{"jsonrpc":"2.0","id":"other","result":{"tools":[{"name":"other","x":"` + padding + `"}]}}`
	for name, tt := range map[string]struct {
		answer script
		want   []string // nil: it is refused
	}{
		"JSON":         {gives(`{"tools":[` + items + `]}`), []string{"a", "b"}},
		"stream":       {events(whole), []string{"a", "b"}},
		"notice first": {events(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"`+padding+`"}}`, whole), []string{"a", "b"}},
		"pages": {func(w http.ResponseWriter, _ *http.Request, c call) error {
			if c.Params.Cursor == nil {
				return result(w, c, `{"tools":[{"name":"first"}],"nextCursor":"2"}`)
			}
			return result(w, c, `{"tools":[`+items+`]}`)
		}, []string{"first", "a", "b"}},
		"another's, then its own": {events(other, whole), nil},
		"its own, then another's": {events(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"a"}]}}`, other), []string{"a"}},
		"error":                   {events(`{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"` + padding + `"}}`), nil},
	} {
		for era, r := range both {
			t.Run(name+" "+era, func(t *testing.T) {
				s := newServer(r)
				run(t, s, func(w *world) {
					f := w.start(r)
					w.wantState(f, Ready)
					s.on(list, tt.answer)
					w.after(w.policy.Refresh)
					if _, err := f.Refresh(w.Context(), revision.Tools); (err == nil) != (tt.want != nil) {
						t.Errorf("got error %v", err)
					}
					w.after(0)
					want := tt.want
					if want == nil {
						want = []string{"tools_a", "tools_b"}
					}
					e := w.wantItems(r, revision.Tools, want...)
					if tt.want != nil && want[0] != want[len(want)-1] && !strings.Contains(string(e.Body.Bytes), items) {
						t.Errorf("got %.300s", e.Body.Bytes)
					}
				})
			})
		}
	}
}

// One long list is fetched at a time: another one waits for its turn.
func TestLongListsTakeTurns(t *testing.T) {
	padding := strings.Repeat("x", longMessage)
	var release chan struct{}
	s := newServer(modern)
	half := func(w http.ResponseWriter, r *http.Request, c call) error {
		w.Header().Set("Content-Type", jsonType)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"slow","x":"%s`, c.ID, padding+padding)
		select {
		case <-release:
		case <-r.Context().Done():
			return r.Context().Err()
		}
		_, err := io.WriteString(w, `"}]}}`)
		return err
	}
	s.on(list, half)
	run(t, s, func(w *world) {
		release = make(chan struct{})
		f := w.start(modern)
		w.wantItems(modern, revision.Prompts, "prompts_a", "prompts_b")
		s.on(revision.Prompts.Method(), gives(`{"prompts":[{"name":"long","x":"`+padding+`"}]}`))
		w.outdate(revision.Prompts)
		w.after(2 * w.policy.Refresh)
		w.wantCalls(revision.Prompts.Method(), 2)
		w.wantItems(modern, revision.Prompts, "prompts_a", "prompts_b")
		if e := w.cache.Pinned(modern, revision.Tools); e != nil {
			t.Fatal("half a list was taken for whole")
		}
		close(release)
		w.after(0)
		w.wantItems(modern, revision.Tools, "slow")
		w.wantItems(modern, revision.Prompts, "long")
		w.wantState(f, Ready)
	})
}

func TestTicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := newTurn()
		first, impatient, patient := ticket{turn: turn}, ticket{turn: turn}, ticket{turn: turn, patient: true}
		for range 2 {
			if first.take(t.Context()) != nil {
				t.Fatal("nobody else has the turn, and yet it cannot be taken")
			}
		}
		if err := impatient.take(t.Context()); !errors.Is(err, errBusy) {
			t.Errorf("got error %v, want %v", err, errBusy)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := patient.take(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v", err)
		}
		taken := make(chan error, 1)
		go func() { taken <- patient.take(t.Context()) }()
		synctest.Wait()
		first.give()
		first.give()
		if err := <-taken; err != nil {
			t.Errorf("got error %v", err)
		}
		patient.give()
		if err := patient.take(t.Context()); err == nil {
			t.Error("a walk that is over has taken the turn")
		}
		if impatient.take(t.Context()) != nil {
			t.Error("the turn was not given back")
		}
		impatient.give()
	})
}
