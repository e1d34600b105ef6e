package message

// Scope is who may be given a result (2026-07-28, caching, "Cache Scope Field").
type Scope uint8

const (
	// ScopeUnset is the scope of a result without cacheScope.
	ScopeUnset Scope = iota
	// ScopePublic results may be given to anybody.
	ScopePublic
	// ScopePrivate results may be given to the authorization context only that
	// they were made for.
	ScopePrivate
)

// String returns "public", "private" or, of an unset scope, "".
func (s Scope) String() string {
	switch s {
	case ScopePublic:
		return "public"
	case ScopePrivate:
		return "private"
	case ScopeUnset:
	}
	return ""
}

// parseScope returns the scope of a raw cacheScope. What is not known is private.
func parseScope(raw []byte) Scope {
	if isString(raw) && string(unquote(raw)) == "public" {
		return ScopePublic
	}
	return ScopePrivate
}

// joinScopes returns the scope of a whole walk and whether all its pages agree.
// A server has to give every page the same one; when they differ, the walk is
// private.
func joinScopes(pages []*Page) (scope Scope, agree bool) {
	scope = pages[0].Scope
	for _, p := range pages[1:] {
		if p.Scope != scope {
			return ScopePrivate, false
		}
	}
	return scope, true
}
