package client

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStatusErrors(t *testing.T) {
	const rpc = `{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"secret","data":{"supported":["2025-11-25","2026-07-28"]}}}`
	for name, tt := range map[string]struct {
		status    int
		mediaType string
		body      string
		code      int
		supported []string
	}{
		"JSON-RPC error":         {400, "application/json", rpc, -32022, []string{"2025-11-25", "2026-07-28"}},
		"without a content type": {400, "", rpc, -32022, []string{"2025-11-25", "2026-07-28"}},
		"method not found":       {404, "application/json", `{"error":{"code":-32601}}`, -32601, nil},
		"code as a fraction":     {404, "application/json", `{"error":{"code":-32601.0}}`, -32601, nil},
		"data of another shape":  {400, "application/json", `{"error":{"data":"text","code":-32000}}`, -32000, nil},
		"supported no list":      {400, "application/json", `{"error":{"data":{"supported":1},"code":-32000}}`, -32000, nil},
		"a result":               {503, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`, 0, nil},
		"HTML":                   {502, "text/html", "<html>secret</html>", 0, nil},
		"nothing":                {401, "", "", 0, nil},
		"redirect":               {307, "", "", 0, nil},
		"created":                {201, "application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`, 0, nil},
		"partial":                {206, "text/plain", "secret", 0, nil},
		"largest error":          {400, "application/json", padded(rpc, maxErrorBody), -32022, []string{"2025-11-25", "2026-07-28"}},
		"larger error":           {400, "application/json", padded(rpc, maxErrorBody+1), 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			h := answer(tt.status, tt.mediaType, tt.body)
			_, err := limited(1<<20, func(w http.ResponseWriter, r *http.Request) error {
				w.Header()["Www-Authenticate"] = []string{"Bearer a", "Bearer b"}
				w.Header().Set("Retry-After", "7")
				return h(w, r)
			}).RoundTrip(newRequest(t.Context(), t, http.MethodPost, endpoint, "{}"))
			status, ok := errors.AsType[*StatusError](err)
			if !ok {
				t.Fatalf("got error %v", err)
			}
			if status.Status != tt.status || status.Code != tt.code || !slices.Equal(status.Supported, tt.supported) ||
				status.RetryAfter != 7*time.Second || !slices.Equal(status.WWWAuthenticate, []string{"Bearer a", "Bearer b"}) {
				t.Errorf("got %+v", status)
			}
			if text := err.Error(); strings.Contains(text, "secret") || !strings.Contains(text, fmt.Sprint(tt.status)) {
				t.Errorf("the error is %q", text)
			}
		})
	}
}

// padded returns JSON of so many bytes.
func padded(json string, size int) string {
	return "{" + strings.Repeat(" ", size-len(json)) + json[1:]
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"7":                             7 * time.Second,
		" 7 ":                           7 * time.Second,
		"600":                           10 * time.Minute,
		"601":                           maxRetryAfter,
		"2147483648":                    maxRetryAfter,
		"99999999999999999999999999":    maxRetryAfter,
		"-1":                            0,
		"1.5":                           0,
		"soon":                          0,
		"Tue, 28 Jul 2026 12:00:30 GMT": 30 * time.Second,
		"Tue, 28 Jul 2026 11:59:30 GMT": 0,
		"Tue, 28 Jul 2099 12:00:30 GMT": maxRetryAfter,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

func TestContentTypes(t *testing.T) {
	for name, tt := range map[string]struct {
		method, mediaType string
		status            int
		fails             bool
		body              string // that can be read
	}{
		"JSON":                {http.MethodPost, "application/json", 200, false, "body"},
		"JSON with a charset": {http.MethodPost, "Application/JSON; charset=utf-8", 200, false, "body"},
		"events":              {http.MethodGet, "text/event-stream;charset=utf-8", 200, false, "body"},
		"HTML":                {http.MethodPost, "text/html", 200, true, ""},
		"no type":             {http.MethodPost, "", 200, true, ""},
		"not a type":          {http.MethodGet, "\x00", 200, true, ""},
		"another JSON":        {http.MethodPost, "application/problem+json", 200, true, ""},
		"accepted text":       {http.MethodPost, "text/plain", 202, false, ""},
		"accepted":            {http.MethodPost, "", 202, false, ""},
		"accepted JSON":       {http.MethodPost, "application/json", 202, false, "body"},
		"no content":          {http.MethodDelete, "", 204, false, ""},
		"deleted":             {http.MethodDelete, "text/plain", 200, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			res, err := limited(1<<20, answer(tt.status, tt.mediaType, "body")).
				RoundTrip(newRequest(t.Context(), t, tt.method, endpoint, ""))
			if (err != nil) != tt.fails {
				t.Fatalf("got error %v", err)
			}
			if err != nil {
				return
			}
			if got, err := readAll(res); got != tt.body || err != nil {
				t.Errorf("got body %q, error %v, want %q", got, err, tt.body)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	const limit = 1000
	// An event of so many bytes, its blank line included.
	event := func(size int, end string) string {
		return "data: " + strings.Repeat("x", size-len("data: ")-2*len(end)) + end + end
	}
	for name, tt := range map[string]struct {
		mediaType string
		body      string
		fails     bool
	}{
		"JSON":                   {"application/json", strings.Repeat(" ", limit), false},
		"JSON, one byte more":    {"application/json", strings.Repeat(" ", limit+1), true},
		"JSON with blank lines":  {"application/json", strings.Repeat("\n", limit+1), true},
		"event":                  {"text/event-stream", event(limit, "\n"), false},
		"event, one byte more":   {"text/event-stream", event(limit+1, "\n"), true},
		"CRLF":                   {"text/event-stream", event(limit, "\r\n"), false},
		"CRLF, one byte more":    {"text/event-stream", event(limit+1, "\r\n"), true},
		"CR":                     {"text/event-stream", strings.Repeat(event(limit, "\r"), 5), false},
		"CR, one byte more":      {"text/event-stream", event(limit, "\r") + event(limit+1, "\r"), true},
		"CRLF, many events":      {"text/event-stream", strings.Repeat(event(limit, "\r\n"), 5), false},
		"many events":            {"text/event-stream", strings.Repeat(event(limit, "\n"), 5), false},
		"second event too large": {"text/event-stream", event(limit, "\n") + event(limit+1, "\n"), true},
		"many lines":             {"text/event-stream", strings.Repeat("data: x\n", limit/8) + "\n", true},
		"comments between":       {"text/event-stream", strings.Repeat(": alive\n\n", limit), false},
		"nothing":                {"application/json", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, chunk := range []int{1, 7, 1 << 20} {
				ctx, outcome := withOutcome(t.Context())
				res := post(ctx, t, limited(limit, func(w http.ResponseWriter, _ *http.Request) error {
					w.Header().Set("Content-Type", tt.mediaType)
					w.WriteHeader(http.StatusOK)
					for rest := tt.body; rest != ""; rest = rest[min(chunk, len(rest)):] {
						if _, err := w.Write([]byte(rest[:min(chunk, len(rest))])); err != nil {
							return err
						}
					}
					return nil
				}))
				got, err := readAll(res)
				if errors.Is(err, ErrTooLarge) != tt.fails || !tt.fails && (err != nil || got != tt.body) {
					t.Errorf("chunks of %d: got %d bytes, error %v", chunk, len(got), err)
				}
				if errors.Is(outcome.Err(), ErrTooLarge) != tt.fails {
					t.Errorf("chunks of %d: the outcome is %v", chunk, outcome.Err())
				}
			}
		})
	}
}
