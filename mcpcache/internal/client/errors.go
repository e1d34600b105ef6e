package client

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outgoing"
)

// Refused reports whether err says that the upstream refused our credential, or that the
// guard has none.
func Refused(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden
	}
	return errors.Is(err, guards.ErrUnauthorized)
}

// IsAnswer reports whether err is an answer of the upstream, though not a result.
func IsAnswer(err error) bool {
	_, ok := errors.AsType[*message.Error](err)
	return ok || IsStatus(err)
}

// IsStatus reports whether err is an HTTP answer that is not a success.
func IsStatus(err error) bool {
	_, ok := errors.AsType[*StatusError](err)
	return ok
}

// Unreachable reports whether err says that the upstream took no connection, or ended it
// without an answer: it may have been stopped or restarted.
func Unreachable(err error) bool { return errors.Is(err, outgoing.ErrUnreachable) }

// RetryAfter returns the Retry-After of the upstream; 0 if it gave none.
func RetryAfter(err error) time.Duration {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.RetryAfter
	}
	return 0
}

// NotOffered reports whether err says that the server does not have a method.
func NotOffered(err error) bool {
	const methodNotFound = -32601
	if rpc, ok := errors.AsType[*message.Error](err); ok {
		return rpc.Code == methodNotFound
	}
	status, ok := errors.AsType[*StatusError](err)
	return ok && status.Code == methodNotFound
}

// MaxErrorText is how much of an error's text is shown, in bytes: libraries
// repeat the upstream's whole answer, and guards what else it has said.
const MaxErrorText = 512

// briefError is an error of which only the beginning of the text is shown.
type briefError struct {
	text  string
	cause error // nil if the error wraps no other
}

func (e *briefError) Error() string { return e.text }

func (e *briefError) Unwrap() error { return e.cause }

// Brief returns err, cut short if its text is longer than [MaxErrorText].
func Brief(err error) error {
	text := err.Error()
	if len(text) <= MaxErrorText {
		return err
	}
	cut := &briefError{text: strings.ToValidUTF8(strings.Clone(text[:MaxErrorText]), "")}
	switch err.(type) { //nolint:errorlint // asks what err itself can do
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		cut.cause = err
	}
	return cut
}
