package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

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

// TestLongAnswer has long answers kept apart: the client library is given short
// ones.
// What is not longer than may be it is given as it is.
func TestLongAnswer(t *testing.T) {
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
		"long error":         {jsonType, failure, `{"jsonrpc":"2.0","id":7,"error":{"code":-5,"message":"` + strings.Repeat("m", MaxErrorText) + `"}}`, ""},
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
					i := &longAnswer{claim: &claim{turn: NewTurn()}, limit: 1 << 20}
					got, err := i.receive(t, replying{tt.contentType, tt.body, sized, piece})
					if err != nil || got != tt.want {
						t.Errorf("got error %v, %.200q, want %.200q", err, got, tt.want)
					}
					if string(i.result) != tt.taken {
						t.Errorf("took %.200q, want %.200q", i.result, tt.taken)
					}
					if held := len(i.claim.turn) == 1; held != (len(tt.body)-len(tt.want) > longMessage/2) {
						t.Errorf("the turn was taken: %t", held)
					}
				})
			}
		}
	}
}

// receive returns what the client library is given.
func (i *longAnswer) receive(t *testing.T, answer http.RoundTripper) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(withLongAnswer(t.Context(), i), http.MethodPost, "http://upstream.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := longAnswers{answer}.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return string(got), err
}

// Nothing of a short event is held back once it has ended, however its lines end
// and in whatever pieces it comes.
func TestLongAnswerHoldsNothingBack(t *testing.T) {
	for _, event := range []string{"data: x\n\n", "data: x\r\n\r\n", "data: x\r\r", ": x\n\n"} {
		for _, piece := range []int{1, len(event)} {
			synctest.Test(t, func(t *testing.T) { // which fails if anybody waits for ever
				r, w := io.Pipe()
				answer := roundTrip(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {eventType}}, Body: r}, nil
				})
				i := &longAnswer{claim: &claim{turn: NewTurn()}}
				req, err := http.NewRequestWithContext(withLongAnswer(t.Context(), i), http.MethodPost, "http://upstream.test", nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := longAnswers{answer}.RoundTrip(req)
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

func TestLongAnswerRefuses(t *testing.T) {
	long, _ := exactly(longMessage + 100)
	for name, body := range map[string]string{
		"cut short":      long[:len(long)-1],
		"no message":     strings.Repeat("x", longMessage+1),
		"ambiguous":      long[:len(long)-1] + `,"result":{}}`,
		"no response":    `[` + long + `]`,
		"id of an array": strings.Replace(long, "7", "[]", 1),
	} {
		for contentType, text := range map[string]string{jsonType: body, eventType: "data: " + body + "\n\n"} {
			i := &longAnswer{claim: &claim{turn: NewTurn()}}
			got, err := i.receive(t, replying{contentType, text, false, 1 << 20})
			if !errors.Is(err, errNoResult) || got != "" || i.result != nil {
				t.Errorf("%s: got error %v, %.100q", name, err, got)
			}
		}
	}
}

// A length that no answer may have is not believed.
func TestLongAnswerBelievesNoLength(t *testing.T) {
	long, result := exactly(longMessage + 1)
	i := &longAnswer{claim: &claim{turn: NewTurn()}, limit: 1 << 20}
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
