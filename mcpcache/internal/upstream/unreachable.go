package upstream

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/requesthint"
)

// unreachableError is an [requesthint.ErrUnreachable] with the text of its cause.
type unreachableError struct{ cause error }

func (e *unreachableError) Error() string { return e.cause.Error() }

func (e *unreachableError) Unwrap() error { return e.cause }

func (e *unreachableError) Is(target error) bool { return target == requesthint.ErrUnreachable }

// Unreachable reports whether that error of a handler means
// [requesthint.ErrUnreachable]: reverse_proxy says so with status 502.
func Unreachable(err error) bool {
	failed, ok := errors.AsType[caddyhttp.HandlerError](err)
	return ok && failed.StatusCode == http.StatusBadGateway
}

// Refused reports whether that error of a handler means that the upstream took no
// connection. No client can bring that about.
func Refused(err error) bool {
	_, refused := errors.AsType[reverseproxy.DialError](err)
	return refused
}

func unreachable(err error) error {
	if !Unreachable(err) {
		return err
	}
	return &unreachableError{err}
}
