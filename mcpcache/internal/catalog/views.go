package catalog

import (
	"slices"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Views are what a caller may see and call of several servers: of each by what it calls
// its items itself, and of all together by the names that callers see. Nil restricts nothing.
type Views struct {
	Servers []*policy.View // by the servers' numbers; nil where one has no rules
	All     *policy.View
}

// AppendKey appends what tells the views from all that show something else of the same
// servers under rules of the same of them.
func (v *Views) AppendKey(dst []byte) []byte {
	if v == nil {
		return dst
	}
	for _, view := range v.Servers {
		dst = appendKey(dst, view)
	}
	return appendKey(dst, v.All)
}

func appendKey(dst []byte, v *policy.View) []byte {
	if v == nil {
		return dst
	}
	key := v.Key()
	return append(dst, key[:]...)
}

// Personal reports whether others may see other items of that kind.
func (v *Views) Personal(k revision.Kind) bool {
	return v != nil && (v.All.Personal(k) || slices.ContainsFunc(v.Servers, func(view *policy.View) bool { return view.Personal(k) }))
}

// Restricts reports whether some item of that kind of a server might be hidden.
func (v *Views) Restricts(k revision.Kind, server int) bool {
	return v != nil && (v.Servers[server].Restricts(k) || v.All.Restricts(k))
}

// RestrictsAny reports whether some item of that kind of any server might be hidden.
func (v *Views) RestrictsAny(k revision.Kind) bool {
	return v != nil && (v.All.Restricts(k) || slices.ContainsFunc(v.Servers, func(view *policy.View) bool { return view.Restricts(k) }))
}

// NeedsHints reports whether rules about that kind of a server speak of hints: then nothing
// can be said of an item that is not listed.
func (v *Views) NeedsHints(k revision.Kind, server int) bool {
	return v != nil && (v.Servers[server].NeedsHints(k) || v.All.NeedsHints(k))
}

// NeedsList reports whether the caller may name only items of that kind of a server that are
// in the list that the caller is shown.
func (v *Views) NeedsList(k revision.Kind, server int) bool {
	return v != nil && (v.Servers[server].NeedsList(k) || v.All.NeedsList(k))
}

// Allows reports whether the caller may name something that callers see as that item. What
// hints say is not looked at.
func (v *Views) Allows(k revision.Kind, of Target, seen policy.Item) bool {
	return v == nil || v.Servers[of.Server].Decide(k, policy.Item{Name: of.Name}).Allowed && v.All.Decide(k, seen).Allowed
}

// Tells reports whether the caller may be told of a change of a server's resource.
func (v *Views) Tells(server int, uri string) bool {
	return v.Allows(revision.Resources, Target{server, uri}, policy.Item{Name: uri})
}

// allows reports whether an item of a server is listed, as written there, that callers see by
// those names.
func (v *Views) allows(k revision.Kind, server int, item []byte, named policy.Item) bool {
	if !v.Restricts(k, server) {
		return true
	}
	if !v.Servers[server].Shows(k, item) {
		return false
	}
	seen := v.All.ItemOf(k, item)
	named.Hints = seen.Hints
	return v.All.Decide(k, named).Allowed
}
