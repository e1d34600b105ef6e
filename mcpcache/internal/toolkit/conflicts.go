package toolkit

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/catalog"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// conflicts remembers which were logged last, by era and kind.
type conflicts [2][revision.NumKinds]struct {
	joined atomic.Pointer[catalog.List]
	mu     sync.Mutex
	logged []catalog.Conflict
}

// maxLogged bounds how many conflicts one line of the log names.
const maxLogged = 10

// join joins the servers' lists, and warns if other conflicts than before come of it.
func (e *Endpoint) join(r revision.Revision, k revision.Kind, parts []*cache.Entry) *catalog.List {
	l := e.catalog.Join(r, k, parts)
	c := &e.conflicts[r.Era()][k]
	if c.joined.Swap(l) == l {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(c.logged, l.Conflicts) {
		return l
	}
	c.logged = l.Conflicts
	if len(l.Conflicts) == 0 {
		e.Logger.Info("nothing is left out of a list any more", zap.Stringer("kind", k), zap.Stringer("era", r.Era()))
		return l
	}
	texts := make([]string, 0, maxLogged)
	for _, conflict := range l.Conflicts[:min(len(l.Conflicts), maxLogged)] {
		texts = append(texts, e.servers[conflict.Server].Name+": "+e.explain(k, conflict))
	}
	e.Logger.Warn("clients are not given all that the servers list, or not as it should be", zap.Stringer("kind", k), zap.Stringer("era", r.Era()),
		zap.Int("conflicts", len(l.Conflicts)), zap.Strings("first", texts))
	return l
}

// explain says in plain words what a conflict is about.
func (e *Endpoint) explain(k revision.Kind, c catalog.Conflict) string {
	switch c.Why {
	case catalog.TooLong:
		return fmt.Sprintf("%s: its name is longer than name_limit (%d); clients may refuse it", c.Name, e.Settings.Limits.Name)
	case catalog.TooMuch:
		return fmt.Sprintf("its list of %s is left out: with it, the joined one would be longer than max_list", k)
	case catalog.Claimed:
		return fmt.Sprintf("%s: left out, as names of %s begin like that; give one of them another prefix", c.Name, e.servers[c.With].Name)
	case catalog.Taken:
	}
	return fmt.Sprintf("%s: left out, as %s has one of that name", c.Name, e.servers[c.With].Name)
}

// Conflict is something that clients are not given as a server has it.
type Conflict struct {
	Kind   revision.Kind
	Server string // its name
	Item   string // what the server calls the item; "" if it is about a whole list
	Why    string // in plain words
}

// Conflicts returns those of all lists as they are now.
func (e *Endpoint) Conflicts() []Conflict {
	var all []Conflict
	seen := make(map[Conflict]bool) // most are in the lists of both eras
	for _, k := range revision.Kinds() {
		for _, r := range eras {
			l := e.catalog.Last(r, k)
			if l == nil {
				continue
			}
			for _, c := range l.Conflicts {
				conflict := Conflict{Kind: k, Server: e.servers[c.Server].Name, Item: c.Name, Why: e.explain(k, c)}
				if !seen[conflict] {
					seen[conflict], all = true, append(all, conflict)
				}
			}
		}
	}
	return all
}
