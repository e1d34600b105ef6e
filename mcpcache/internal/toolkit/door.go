package toolkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/callerlists"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/client"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/inbound"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/jsonrpc"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/redirect"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/site"
)

// authenticationKinds are the lists by one of which the door is asked whether it lets a caller in: some
// servers answer everybody what they are, but list for those alone whom they know.
var authenticationKinds = []revision.Kind{revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates}

// admit has the caller be let in by the server that is the door, unless it has done that
// lately. It returns that one's refusal, or nil.
func (q *request) admit() *jsonrpc.Problem {
	door := q.endpoint.door
	if door == nil {
		return nil
	}
	q.awaitServers([]*Server{door})
	known, failure := q.authenticate(q.r.Context())
	if known {
		return nil
	}
	if status := statusOf(failure); status != nil { // it answers
		q.endpoint.note(door, closedDoor, nil)
		q.status = statusAdmission
		return q.reject(status.Status, status.WWWAuthenticate)
	}
	q.endpoint.note(door, closedDoor, failure)
	if failure == nil {
		return nil
	}
	q.status = statusAdmission
	return door.doesNotAnswer(failure)
}

// admitBeforeLong has the caller be let in before more than the beginning of a long body is read, which
// takes of the memory that is for all. The message is not known yet, so the header says in which era the
// door is asked. Without a revision there, that is the legacy one. If the message turns out to be of the
// other era, the door has to let the caller in there as well.
func (q *request) admitBeforeLong() *jsonrpc.Problem {
	if q.in.Body.Whole {
		return nil
	}
	q.at = revision.LatestModern
	if _, legacy := inbound.LegacyRevision(q.r.Header); legacy {
		q.at = revision.LatestLegacy
	}
	f := q.admit()
	if f == nil {
		q.at = revision.Unknown // until the message says it
	}
	return f
}

// authenticate asks the door for a list, unless it is known to have let the caller in lately. It returns why
// the caller is not in.
func (q *request) authenticate(ctx context.Context) (known bool, failure error) {
	door := q.endpoint.door
	asked := authenticationKinds
	wanted, lists := revision.KindOf(q.in.Method)
	if lists && wanted != revision.Discover {
		asked = append([]revision.Kind{wanted}, asked...)
	}
	failure = errNoList
	for _, k := range asked {
		if !door.Settings.Caches(k) {
			continue
		}
		if door.admits(q.callerAt(door), door.at(q.at), k, q.now) {
			return true, nil
		}
		list := q.fetchAs(ctx, door, k, callerlists.NoFailure)
		answer, err := list.Wait(ctx)
		q.now = time.Now()
		switch {
		case err == nil && answer.Answered != 0:
			if lists && k == wanted {
				q.admittedBy = &list
			}
			return false, nil
		case err != nil:
			failure = err
		}
		if err != nil && (client.Refused(err) || !client.IsAnswer(err)) {
			break // it is no use to ask for another one
		}
	}
	return false, failure
}

// authenticateWithin is how long the door may take to say whether a caller who listens is still in.
const authenticateWithin = 5 * time.Second

// isRejected reports whether the door has refused a caller whom it had let in.
func (q *request) isRejected() bool {
	if q.endpoint.door == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), authenticateWithin)
	defer cancel()
	q.now = time.Now()
	_, failure := q.authenticate(ctx)
	return statusOf(failure) != nil
}

var errNoList = errors.New("the server has no list by which it could let anybody in")

// reject is the refusal of a caller whom the door does not let in.
func (q *request) reject(status int, challenges []string) *jsonrpc.Problem {
	door := q.endpoint.door
	told := make([]string, len(challenges))
	for i, challenge := range challenges {
		var inside []string
		told[i], inside = site.ChallengeFor(q.r, challenge, door.Slash().Addresses, door.Host, q.r.Host, site.Of(q.r).Host)
		for _, host := range inside {
			q.endpoint.Warnings.Warn(redirect.Inside, "resource_metadata", host)
		}
	}
	if len(told) > 0 {
		q.w.Header()["Www-Authenticate"] = told
	}
	return jsonrpc.Refused(status, fmt.Sprintf("the MCP server %q refuses the caller's credentials", door.Name))
}

// rejected returns the refusal of a caller whom the door has refused something that it was
// asked for on its behalf; nil if another server has, or the door something else.
func (q *request) rejected(s *Server, err error) *jsonrpc.Problem {
	status := statusOf(err)
	if status == nil {
		return nil
	}
	q.revoke(s)
	if s != q.endpoint.door {
		return nil
	}
	return q.reject(status.Status, status.WWWAuthenticate)
}

// revoke ends the lists of a server for a caller whose request it has refused, until it accepts the
// caller anew. A server other than the door that is sent nothing of the caller's has not refused
// the caller.
func (v *viewer) revoke(s *Server) {
	if c := v.callerAt(s); s == v.endpoint.door || len(c.Credentials) > 0 {
		s.revoke(c.Context, s.at(v.at))
	}
}

// doesNotAnswer is the refusal of what depends on a server that does not answer.
func (s *Server) doesNotAnswer(err error) *jsonrpc.Problem {
	status, text := http.StatusBadGateway, "does not answer as it should"
	failed, ofUpstream := errors.AsType[caddyhttp.HandlerError](err) // such as reverse_proxy's
	_, ofGuard := errors.AsType[*client.GuardError](err)
	switch {
	case ofGuard:
		text = "cannot be asked: its guard has no credential"
	case errors.Is(err, callerlists.ErrTooMany):
		status, text = http.StatusServiceUnavailable, "is asked for too many callers at once: try again"
	case errors.Is(err, context.DeadlineExceeded), ofUpstream && failed.StatusCode == http.StatusGatewayTimeout:
		status, text = http.StatusGatewayTimeout, "did not answer in time"
	case ofUpstream, client.Unreachable(err):
		status, text = max(status, failed.StatusCode), "cannot be reached"
	}
	return jsonrpc.Failed(status, fmt.Sprintf("the MCP server %q %s", s.Name, text))
}
