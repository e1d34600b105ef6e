package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrTooLarge is the error of a message from the upstream above the limit.
var ErrTooLarge = errors.New("message is larger than the limit")

// maxErrorBody is how much of an unsuccessful answer is read to find out what
// the upstream meant. A JSON-RPC error fits well.
const maxErrorBody = 64 << 10

// StatusError is an HTTP answer that is not a success.
type StatusError struct {
	// Status is the HTTP status code.
	Status int
	// Code is the code of the JSON-RPC error in the body; 0 when there is none.
	Code int
	// Supported are the versions that such an error lists in data.supported.
	Supported []string
	// RetryAfter is the Retry-After header; 0 when there is none.
	RetryAfter time.Duration
	// WWWAuthenticate are the challenges of a 401 or 403.
	WWWAuthenticate []string

	leadsTo, path string // see Advice
	// anonymous says that the request had no credential of ours.
	anonymous bool
}

// Error implements error. It repeats nothing the upstream wrote but where a redirect leads.
func (e *StatusError) Error() string {
	if e.Code != 0 {
		return fmt.Sprintf("upstream answered HTTP %d with JSON-RPC error %d%s", e.Status, e.Code, e.Advice())
	}
	return fmt.Sprintf("upstream answered HTTP %d%s", e.Status, e.Advice())
}

// limiter is an [http.RoundTripper] that lets only the answers through that we read: a
// success (200, 202 or 204) whose body is JSON of at most maxMessage bytes, or an event
// stream of events that are no larger; compressed ones are decoded. Everything else
// becomes an error, because the client library would take some of it for a success. Of
// an acknowledgement, see [withAcknowledgement], nothing but its status is read.
type limiter struct {
	base http.RoundTripper
	// maxMessage returns the largest message in bytes.
	maxMessage func() int64
}

// RoundTrip implements [http.RoundTripper].
func (l *limiter) RoundTrip(req *http.Request) (*http.Response, error) {
	watched, idle := watchIdle(req)
	res, err := l.receive(watched)
	if err != nil {
		idle.stop()
		return nil, err
	}
	res.Body = idle.watch(res.Body)
	return res, nil
}

func (l *limiter) receive(req *http.Request) (*http.Response, error) {
	res, err := l.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if isAcknowledgement(req.Context()) && res.StatusCode >= 200 && res.StatusCode <= 299 {
		res.Body.Close()
		res.Body = http.NoBody
		return res, nil
	}
	switch res.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
	default:
		defer res.Body.Close()
		return nil, statusError(req, res)
	}
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case media == "text/event-stream", media == "application/json" && req.Method != http.MethodGet:
	case req.Method == http.MethodGet:
		// Some servers answer a GET with JSON, or with a page (prompts.chat, docmost).
		res.Body.Close()
		return nil, fmt.Errorf("%w: content type is %q", ErrNoStream, media)
	case req.Method != http.MethodDelete && res.StatusCode == http.StatusOK:
		res.Body.Close()
		// Not cut short: a part of a credential in it could not be recognized.
		return nil, fmt.Errorf("upstream answered with content type %q, not JSON or an event stream", media)
	default:
		res.Body.Close()
		res.Body = http.NoBody
		return res, nil
	}
	if err := decode(res); err != nil {
		res.Body.Close()
		return nil, err
	}
	limit := l.maxMessage()
	res.Body = &limitedBody{
		ReadCloser: res.Body, ctx: req.Context(), left: limit, max: limit,
		events: media == "text/event-stream",
	}
	return res, nil
}

// limitedBody fails a read that goes beyond the limit of one message.
type limitedBody struct {
	io.ReadCloser
	ctx       context.Context // of the request
	left, max int64
	events    bool
	lineStart bool
	afterCR   bool
	ended     bool // the event has ended, but for an LF after its last CR
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.exceeded(p[:n]) {
		return 0, b.fail(fmt.Errorf("%w of %d bytes", ErrTooLarge, b.max))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		if b.ctx.Err() != nil {
			err = context.Cause(b.ctx) // why the body was closed
		}
		err = b.fail(err)
	}
	return n, err
}

func (b *limitedBody) fail(err error) error {
	err = fmt.Errorf("reading an answer: %w", err)
	outcomeOf(b.ctx).set(err)
	return err
}

func (b *limitedBody) exceeded(p []byte) bool {
	if !b.events {
		b.left -= int64(len(p))
		return b.left < 0
	}
	for _, c := range p {
		crlf := c == '\n' && b.afterCR
		b.afterCR = c == '\r'
		if b.ended && !crlf {
			b.left, b.ended = b.max, false
		}
		if b.left--; b.left < 0 {
			return true
		}
		switch {
		case crlf:
		case c == '\n', c == '\r':
			b.ended = b.lineStart // a blank line ends the event
			b.lineStart = true
		default:
			b.lineStart = false
		}
	}
	return false
}

func statusError(req *http.Request, res *http.Response) error {
	e := &StatusError{
		Status:          res.StatusCode,
		RetryAfter:      retryAfter(res.Header.Get("Retry-After"), time.Now()),
		WWWAuthenticate: res.Header.Values("WWW-Authenticate"),
		leadsTo:         leadsTo(res),
		path:            req.URL.Path,
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil {
		return e
	}
	var message struct {
		Error struct {
			Code float64 `json:"code"` // an integer, which may be written as a fraction
			Data struct {
				Supported []string `json:"supported"`
			} `json:"data"`
		} `json:"error"`
	}
	// Not every answer is a JSON-RPC error, and data may have any shape.
	if json.Unmarshal(body, &message) == nil || message.Error.Code != 0 {
		e.Code, e.Supported = int(message.Error.Code), message.Error.Data.Supported
	}
	return e
}

// maxRetryAfter bounds what an upstream may ask for.
const maxRetryAfter = 10 * time.Minute

// retryAfter reads a Retry-After header (RFC 9110 section 10.2.3).
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	// A number that is out of range is parsed as the largest one.
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
