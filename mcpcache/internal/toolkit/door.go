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

// authenticationKinds are the lists by which the toolkit asks the door whether it lets a caller in. Some
// servers tell everybody what they are, and give lists only to callers whom they know.
var authenticationKinds = []revision.Kind{revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates}

// admit asks the door to let the caller in, unless the door has done that lately. It returns the door's
// refusal, or nil.
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

// admitBeforeLong is admit for a long body, of which only the beginning has been read. The rest takes
// memory that is for all callers. The message is not known yet, so the header says in which era to ask
// the door. Without a revision in the header, that is the legacy era. If the message turns out to be of
// the other era, the door has to let the caller in there as well.
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

// authenticate asks the door for a list as the caller. If the door has let the caller in lately, it asks
// nothing, and known is true. It returns the failure if the door does not let the caller in.
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

// authenticateWithin is how long the door may take to say whether it still lets in a caller who listens.
const authenticateWithin = 5 * time.Second

// isRejected reports whether the door refuses a caller whom it had let in.
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

// reject returns the refusal for a caller whom the door does not let in.
func (q *request) reject(status int, challenges []string) *jsonrpc.Problem {
	door := q.endpoint.door
	passed := make([]string, len(challenges))
	for i, challenge := range challenges {
		var inside []string
		passed[i], inside = site.ChallengeFor(q.r, challenge, door.Slash().Addresses, door.Host, q.r.Host, site.Of(q.r).Host)
		for _, host := range inside {
			q.endpoint.Warnings.Warn(redirect.Inside, "resource_metadata", host)
		}
	}
	if len(passed) > 0 {
		q.w.Header()["Www-Authenticate"] = passed
	}
	return jsonrpc.Refused(status, fmt.Sprintf("the MCP server %q refuses the caller's credentials", door.Name))
}

// rejected revokes the caller's admission if a server has refused a request that was sent for the caller.
// If that server is the door, it returns the refusal for the caller. Otherwise it returns nil.
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

// revoke ends a caller's admission at a server that has refused the caller's request, until the server
// accepts the caller again. If a server other than the door receives no credentials of the caller, it
// has not refused the caller.
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
