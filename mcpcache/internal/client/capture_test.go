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

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
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

const before = `{"jsonrpc":"2.0","id":7,"result":`

// exactly returns a result message of that many bytes with id 7, and its result.
func exactly(size int) (text, result string) {
	const after = "}"
	result = `{"tools":[{"name":"a","x":"` + strings.Repeat("x", size-len(before+after)-len(`{"tools":[{"name":"a","x":""}]}`)) + `"}]}`
	return before + result + after, result
}

// TestCapture has answers kept from the client library: it is given empty results. What is
// no response it is given as it is, but for the params of long notifications.
func TestCapture(t *testing.T) {
	short, _ := exactly(longMessage)
	long, result := exactly(longMessage + 1)
	const stub = `{"jsonrpc":"2.0","id":7,"result":{}}`
	const notice = "id: 1\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"
	failure := `{"jsonrpc":"2.0","id":7,"error":{"code":-5,"message":"` + strings.Repeat("m", longMessage) + `"}}`
	longNotice := `{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"` + strings.Repeat("x", longMessage) + `"}}`
	const other = `{"jsonrpc":"2.0","id":8,"result":{"x":1}}`
	event := func(data string) string { return "data: " + data + "\n\n" }
	stubEvent := sse.Start + stub + sse.End
	for name, tt := range map[string]struct {
		contentType, body string
		want, taken       string
		long              bool
	}{
		"short":                         {jsonType, short, stub, short[len(before) : len(short)-1], false},
		"long":                          {jsonType, long, stub, result, true},
		"long error":                    {jsonType, failure, stub, strings.Repeat("m", MaxErrorText), true},
		"error, no id":                  {jsonType, `{"jsonrpc":"2.0","error":{"code":-5,"message":"no"}}`, stub, `the answer is an error without an id: upstream error -5: "no"`, false},
		"not exact":                     {jsonType, `{"jsonrpc":"2.0","method":null,"error":null,"id":7.0,"result":{"a":1}}`, stub, `{"a":1}`, false},
		"another's":                     {jsonType, other, `{"jsonrpc":"2.0","id":8,"result":{}}`, "", false},
		"event":                         {eventType, notice + event(short), notice + stubEvent, short[len(before) : len(short)-1], true},
		"long event":                    {eventType, notice + event(long) + notice, notice + stubEvent + notice, result, true},
		"several lines":                 {eventType, "event: message\r\ndata: " + strings.Replace(long, ",", ",\r\ndata:", 1) + "\r\n\r\n", stubEvent + "\n", result, true},
		"CR":                            {eventType, "data: " + long + "\r\r" + notice, stubEvent + notice, result, true},
		"no blank line":                 {eventType, "data: " + long, stubEvent, result, true},
		"another's error, then its own": {eventType, event(`{"jsonrpc":"2.0","id":8,"error":{"code":-5,"message":"no"}}`) + event(short), stubEvent, short[len(before) : len(short)-1], true},
		"another's, then its own, then it again": {
			eventType, event(other) + event(`{"jsonrpc":"2.0","id":7,"result":{"a":1}}`) + event(`{"jsonrpc":"2.0","id":7,"result":{"a":2}}`),
			stubEvent + stubEvent, `{"a":1}`, false,
		},
		"long notice":  {eventType, event(longNotice) + event(long), sse.Start + `{"jsonrpc":"2.0","method":"notifications/x"}` + sse.End + stubEvent, result, true},
		"long comment": {eventType, ": " + strings.Repeat("x", longMessage) + "\n\n" + notice, notice, "", true},
		"no data":      {eventType, "event: ping\ndata:\n\n: x\n\n" + notice, "event: ping\ndata:\n\n: x\n\n" + notice, "", false},
	} {
		for _, piece := range []int{1 << 10, 1 << 20} {
			for _, sized := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d, %t", name, piece, sized), func(t *testing.T) {
					c := &capture{claim: &claim{slot: NewReadSlot()}, limit: 1 << 20}
					c.awaitAnswer(7)
					got, err := c.receive(t, replying{tt.contentType, tt.body, sized, piece})
					if err != nil || got != tt.want {
						t.Errorf("got error %v, %.200q, want %.200q", err, got, tt.want)
					}
					if taken := c.taken(); taken != tt.taken {
						t.Errorf("took %.200q, want %.200q", taken, tt.taken)
					}
					if held := len(c.claim.slot) == 1; held != tt.long {
						t.Errorf("the turn was taken: %t", held)
					}
				})
			}
		}
	}
}

// taken returns the result that was kept, or the text of the error.
func (c *capture) taken() string {
	kept := c.response
	result, err := c.answer()
	if rpc, ok := errors.AsType[*message.Error](err); ok {
		return rpc.Message
	}
	if kept != nil && err != nil {
		return err.Error()
	}
	return string(result)
}

// receive returns what the client library is given.
func (c *capture) receive(t *testing.T, answer http.RoundTripper) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(withCapture(t.Context(), c), http.MethodPost, "http://upstream.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := captures{answer}.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return string(got), err
}

// Nothing of an event is held back once it has ended, however its lines end and in whatever
// pieces it comes.
func TestCaptureHoldsNothingBack(t *testing.T) {
	const data = `data: {"jsonrpc":"2.0","method":"x"}`
	for _, event := range []string{data + "\n\n", data + "\r\n\r\n", data + "\r\r", ": x\n\n"} {
		for _, piece := range []int{1, len(event)} {
			synctest.Test(t, func(t *testing.T) { // which fails if anybody waits for ever
				r, w := io.Pipe()
				answer := roundTrip(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {eventType}}, Body: r}, nil
				})
				i := &capture{claim: &claim{slot: NewReadSlot()}}
				req, err := http.NewRequestWithContext(withCapture(t.Context(), i), http.MethodPost, "http://upstream.test", nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := captures{answer}.RoundTrip(req)
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

func TestCaptureRefuses(t *testing.T) {
	for _, size := range []int{100, longMessage + 100} {
		text, _ := exactly(size)
		for name, body := range map[string]string{
			"cut short":      text[:len(text)-1],
			"no message":     strings.Repeat("x", size),
			"ambiguous":      text[:len(text)-1] + `,"result":{}}`,
			"no response":    `[` + text + `]`,
			"id of an array": strings.Replace(text, "7", "[]", 1),
			"more":           text + `{}`,
			"nothing in it":  `{"jsonrpc":"2.0","id":7,"result":null,"error":null}`,
		} {
			for contentType, text := range map[string]string{jsonType: body, eventType: "data: " + body + "\n\n"} {
				c := &capture{claim: &claim{slot: NewReadSlot()}}
				c.awaitAnswer(7)
				got, err := c.receive(t, replying{contentType, text, false, 1 << 20})
				if contentType == eventType && len(text) < longMessage { // the library may ignore it
					_, err = c.answer()
				} else if got != "" {
					t.Errorf("%s: got %.100q", name, got)
				}
				if !errors.Is(err, errUnreadable) || c.taken() != "" {
					t.Errorf("%s: got error %v, took %.100q", name, err, c.taken())
				}
			}
		}
	}
	c := &capture{claim: &claim{slot: NewReadSlot()}}
	if _, err := c.receive(t, replying{jsonType, "", false, 1}); !errors.Is(err, errEmpty) {
		t.Errorf("of nothing: %v", err)
	}
}

// A length that no answer may have is not believed.
func TestCaptureBelievesNoLength(t *testing.T) {
	long, result := exactly(longMessage + 1)
	c := &capture{claim: &claim{slot: NewReadSlot()}, limit: 1 << 20}
	c.awaitAnswer(7)
	lying := roundTrip(func(req *http.Request) (*http.Response, error) {
		res, err := replying{jsonType, long, false, 1 << 20}.RoundTrip(req)
		res.Header.Set("Content-Length", fmt.Sprint(int64(1)<<50))
		return res, err
	})
	if _, err := c.receive(t, lying); err != nil || c.taken() != result {
		t.Errorf("got error %v, %.100q", err, c.taken())
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
