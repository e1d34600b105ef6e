// Package guards holds the guests of the http.mcp_cache.guards namespace: each
// gives a feed the credential that it presents to the upstream, from where
// people keep such credentials.
//
// A guard is a Caddy module that implements [Guard]. It is provisioned with the
// handler that names it. Provisioning is local: a guard that has to ask a
// server for its token does so when the feed asks it to authorize a request,
// or in a goroutine of its own that Cleanup ends. After Cleanup it still presents
// a credential that it has, for requests in flight, but gets no other.
package guards

import "github.com/caddy-mcp/mcp-cache/mcpcache/internal/credential"

// Namespace is the Caddy module namespace of the guests.
const Namespace = "http.mcp_cache.guards"

// Guard holds the credential of a feed: it authorizes each of the feed's own
// requests, and tells whose credential that is.
//
//	Authorize(ctx context.Context, r *http.Request) error
//	Identity() string
//
// Authorize puts the credential on a request that the feed is about to send. It
// may wait for a token no longer than ctx lasts. Its error is logged and shown to
// operators: it must not contain a secret. Identity is the same for the same
// configuration in every process, and another for another account.
type Guard = credential.Guard

// Renewer is implemented by guards that can do something about a refusal.
//
//	Renew(ctx context.Context, used string, challenge Challenge) error
//	Credential(r *http.Request) string
//
// Renew returns nil once Authorize would present another credential than used.
// Credential returns what Authorize put on r, to be handed to Renew.
type Renewer = credential.Renewer

// Challenge is what an upstream said when it refused a request: its status, the
// URL of its endpoint, and its WWW-Authenticate headers.
type Challenge = credential.Challenge

// ErrUnauthorized says that the guard knows its credential to be no good and
// has no better one. The feed then shows the state needs_authorization.
var ErrUnauthorized = credential.ErrUnauthorized

// unusable is an error that counts as [ErrUnauthorized] and says more.
type unusable string

func (e unusable) Error() string { return string(e) }

// Is implements the interface that [errors.Is] looks for.
func (unusable) Is(target error) bool { return target == ErrUnauthorized }
