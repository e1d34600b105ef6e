// Package guards defines a guard: a module of the namespace http.mcp_cache.guards that gives a
// feed its credential for the upstream. A feed is the cache's own background connection, which
// fetches the lists. The guards themselves are in the packages below this one. This package knows
// nothing of them, nor of Caddy.
//
// A guard is a Caddy module that implements [Guard]. Caddy provisions it together with the handler
// that names it. Provisioning is local. A guard that has to ask a server for its token asks when
// the feed needs the token, or in a goroutine of its own. Its Cleanup ends that goroutine. After
// Cleanup a guard still presents a credential that it has, for requests in flight, but gets no
// other.
package guards

import (
	"context"
	"errors"
	"net/http"
)

// Namespace is the Caddy module namespace of the guests.
const Namespace = "http.mcp_cache.guards"

// Guard holds the credential of a feed. All methods may be called from several
// goroutines at once.
type Guard interface {
	// Authorize puts the credential on a request that the feed is about to
	// send. It is called for each request and only for the feed's own; it
	// may wait for a token no longer than ctx lasts. A guard that has yet to
	// learn from a refusal where its credential comes from leaves the request
	// without one. Its error is logged and shown to operators: it must not
	// contain a secret.
	Authorize(ctx context.Context, r *http.Request) error

	// Identity tells whose credential this is without revealing it: the same
	// configuration gives the same identity in every process, another
	// account gives another. A reload that changes the identity starts a new
	// feed, one that keeps it keeps the feed and its snapshots.
	Identity() string
}

// Renewer is implemented by guards that can do something about a refusal.
type Renewer interface {
	// Renew is called after the upstream refused a request that
	// carried the credential in used (the value of the header that Authorize
	// set). It returns nil once Authorize would present another credential,
	// at once if it already would: many requests that were refused together
	// cost one renewal. used is empty if the request carried no credential. A
	// 403 is no reason to renew: the same account gets the same rights. The
	// feed retries a refused request once.
	Renew(ctx context.Context, used string, challenge Challenge) error

	// Credential returns what Authorize put on r, to be handed to Renew.
	Credential(r *http.Request) string
}

// Challenge is what an upstream said when it refused a request.
type Challenge struct {
	// Status is the HTTP status, 401 or 403.
	Status int
	// Endpoint is the URL of the upstream's MCP endpoint that refused. It is
	// empty if the configuration does not tell where that is, as with dynamic
	// upstreams.
	Endpoint string
	// WWWAuthenticate are the values of that header (RFC 9110 section 11.6.1).
	WWWAuthenticate []string
}

// ErrUnauthorized says that the guard knows its credential to be no good and
// has no better one. The feed then shows the state needs_authorization.
var ErrUnauthorized = errors.New("guard has no usable credential")
