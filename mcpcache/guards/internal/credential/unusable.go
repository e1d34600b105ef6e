package credential

import "github.com/caddy-mcp/mcp-cache/mcpcache/guards"

// UnusableError is an error that counts as [guards.ErrUnauthorized] and says more.
type UnusableError string

// ErrForbidden is the error of a renewal after a 403, which would change nothing.
const ErrForbidden = UnusableError("the upstream forbids the request to this account (the scope is insufficient, perhaps)")

func (e UnusableError) Error() string { return string(e) }

// Is implements the interface that [errors.Is] looks for.
func (UnusableError) Is(target error) bool { return target == guards.ErrUnauthorized }
