package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/guards"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outage"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
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

// Answered reports whether err is about what the upstream has answered: it is there,
// though what it says is of no use. A gateway's word that it is not counts as none.
func Answered(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Status < http.StatusBadGateway || status.Status > http.StatusGatewayTimeout
	}
	_, guard := errors.AsType[*GuardError](err)
	return !guard && !Unreachable(err) && outage.Words(err, RequestTimeout) == ""
}

// Unreachable reports whether err says that the upstream took no connection, or ended it
// without an answer: it may have been stopped or restarted.
func Unreachable(err error) bool { return errors.Is(err, requesthint.ErrUnreachable) }

// NoAnswer reports whether err says that a request got no answer from the upstream.
func NoAnswer(err error) bool { return Unreachable(err) || errors.Is(err, context.DeadlineExceeded) }

// RetryAfter returns the Retry-After of the upstream; 0 if it gave none.
func RetryAfter(err error) time.Duration {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.RetryAfter
	}
	return 0
}

// NotOffered reports whether err says that the server does not have a method.
func NotOffered(err error) bool { return errorCode(err) == jsonrpc.MethodNotFound }

// errorCode returns the code of the JSON-RPC error that err is; 0 if it is none.
func errorCode(err error) int {
	if rpc, ok := errors.AsType[*message.Error](err); ok {
		return rpc.Code
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Code
	}
	return 0
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
