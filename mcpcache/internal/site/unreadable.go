package site

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
)

// Unreadable returns the error that tells Caddy that the body of a request cannot be read, or nil if err is nil.
// Its status is that of a handler in front of us, if such a handler has ended the reading. Otherwise it is 408 if
// the body came too slowly, and 400 for any other error.
func Unreadable(err error) error {
	if err == nil {
		return nil
	}
	status := http.StatusBadRequest
	if _, found := errors.AsType[caddyhttp.HandlerError](err); found {
		return err
	} else if errors.Is(err, inbound.ErrTooSlow) {
		status = http.StatusRequestTimeout
	}
	return caddyhttp.Error(status, err)
}
