package credential

import "github.com/caddy-mcp/mcp-cache/mcpcache/guards"

// Unusable is an error that counts as [guards.ErrUnauthorized] and says more.
type Unusable string

// ErrForbidden is the error of a renewal after a 403, which would change nothing.
const ErrForbidden = Unusable("the upstream forbids the request to this account (the scope is insufficient, perhaps)")

func (e Unusable) Error() string { return string(e) }

// Is implements the interface that [errors.Is] looks for.
func (Unusable) Is(target error) bool { return target == guards.ErrUnauthorized }
