package fleet

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/secret"
)

// Somebody who can write to the store can say anything, and speak for any instance. These are the bounds of
// what an instance keeps and logs of that.
const (
	// longestName is how long the name of an instance is at most, in bytes: see newName.
	longestName = longestHost + len("-") + chanceInName
	// maxMembers is how many members are known. Of so many it is also known what they have said: a new
	// member may say it before it is known as one.
	maxMembers = 1000
	// mostLogged is how many members a line of the log names.
	mostLogged = 20
)

// isName reports whether an instance may be called that.
func isName(name string) bool {
	return name != "" && len(name) <= longestName && strings.Map(inName, name) == name
}

// areMarks reports whether those may be the marks of an instance's secrets.
func areMarks(marks []string) bool {
	return len(marks) <= secret.MaxRing && !slices.ContainsFunc(marks, func(mark string) bool {
		return len(mark) != longestMark || strings.Trim(mark, "0123456789abcdef") != ""
	})
}

// bounded returns those names of members that are kept, in order, and its own among them.
func (m *Member) bounded(names []string) []string {
	all := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isName(name) })
	if len(all) < len(names) {
		m.ignores("a name that none has")
	}
	slices.Sort(all)
	if len(all) <= maxMembers {
		return all
	}
	m.ignores(fmt.Sprintf("more than %d names", maxMembers))
	kept := slices.Clone(all[:maxMembers]) // and not what all of them take
	if at, is := slices.BinarySearch(all, m.name); is && at >= maxMembers {
		kept[maxMembers-1] = m.name
	}
	return kept
}

// firstNames returns names of members for a line of the log.
func firstNames(names []string) []string {
	if len(names) <= mostLogged {
		return names
	}
	return append(slices.Clone(names[:mostLogged]), fmt.Sprintf("and %d more", len(names)-mostLogged))
}

// ignores logs that something is not kept which no instance says: once for each store.
func (m *Member) ignores(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ignored {
		m.ignored = true
		m.logger.Warn("something else than instances writes to the store what only they do: it is not kept", zap.String("what", what))
	}
}
