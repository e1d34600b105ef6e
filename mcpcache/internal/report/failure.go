package report

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/outage"
)

// plainly says in a few words why a feed of a server has failed. The log has the whole error,
// with all that was being done.
func plainly(s Source, err error) string {
	if guard, ok := errors.AsType[*client.GuardError](err); ok {
		return guard.Error()
	}
	if status, ok := errors.AsType[*client.StatusError](err); ok {
		if failure := failureOf(s); failure != nil && status.Status == http.StatusServiceUnavailable {
			return failure.Message
		}
		text := fmt.Sprintf("answered %d", status.Status)
		if status.Code != 0 {
			text += fmt.Sprintf(" with error %d", status.Code)
		}
		return text + status.Advice()
	}
	if rpc, ok := errors.AsType[*message.Error](err); ok {
		return rpc.Error()
	}
	return cmp.Or(outage.Words(err, client.RequestTimeout), outage.Cause(err))
}
