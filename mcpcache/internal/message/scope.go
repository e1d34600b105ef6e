package message

import "slices"

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

// scopeKeys are the members that say who may be given a result.
var scopeKeys = keys("cacheScope")

// Private returns the ends of a result, see [Body.Ends], with "private" as its cacheScope,
// which is written where there is one, and with add also where there is none. It is an
// error if parsers may read the result differently.
func Private(before, after []byte, add bool) (b, a []byte, err error) {
	// Both are made objects, the first by an end of the items, the other by a beginning.
	const end, beginning = "]}", `{"":[`
	scoped := false
	if len(before) > 0 {
		head, found, err := makePrivate(slices.Concat([]byte("{"), before, []byte(end)))
		if err != nil {
			return nil, nil, err
		}
		scoped, before = found, head[len("{"):len(head)-len(end)]
	}
	opened := "{"
	if len(before) > 0 {
		opened = beginning
	}
	tail, found, err := makePrivate(append([]byte(opened), after[:len(after)-len("}")]...))
	if err != nil {
		return nil, nil, err
	}
	if add && !scoped && !found {
		tail = tail[:len(tail)-len("}")]
		if len(tail) > len("{") {
			tail = append(tail, ',')
		}
		tail = append(tail, `"cacheScope":"private"}`...)
	}
	return before, append(tail[len(opened):len(tail):len(tail)], '}'), nil
}

// makePrivate writes "private" in the place of the cacheScope of an object, and reports
// whether there is one.
func makePrivate(object []byte) (out []byte, found bool, err error) {
	out, err = rewrite(object, scopeKeys, func(key int, value []byte) ([]byte, error) {
		if key == unknown {
			return value, nil
		}
		found = true
		return private, nil
	})
	return out, found, err
}

var private = []byte(`"private"`)
