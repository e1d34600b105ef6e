package catalog

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Joined is the catalogue of several servers: of each kind one list, in which the servers'
// items are in the servers' order, the names of tools and prompts with the servers'
// prefixes and all else as the servers wrote it. Of two items of one name the first is
// there, and the other is not.
type Joined struct {
	servers []Joining
	about   About
	maxList int64
	cache   *cache.Cache
	lists   [revision.Count][revision.NumKinds]struct {
		joining sync.Mutex
		last    atomic.Pointer[List]
	}
}

// Joining is a server whose lists are joined with others.
type Joining struct {
	Name string
	// Prefix is before the names of its tools and prompts. It needs no escapes in JSON.
	Prefix string
}

// Target is what a name in a joined list stands for: an item of one of the servers.
type Target struct {
	Server int    // its number
	Name   string // what it calls the item
}

// List is what has been joined of one kind at one revision.
type List struct {
	// Entry is the list that callers are given.
	Entry *cache.Entry
	// Parts are the servers' lists that it was made of, by their numbers; nil where a
	// server has none.
	Parts []*cache.Entry

	targets   map[string]Target // by name, or URI
	templates []template        // in order; of resource templates only
}

// NewJoined returns the catalogue of those servers, which keeps its lists in a cache of its
// own. What would make a list longer than maxList bytes is left out of it, server by server.
func NewJoined(servers []Joining, about About, maxList int64, own *cache.Cache) *Joined {
	return &Joined{servers: servers, about: about, maxList: maxList, cache: own}
}

// Last returns the list that was joined last, or nil.
func (j *Joined) Last(r revision.Revision, k revision.Kind) *List { return j.lists[r][k].last.Load() }

// Join joins the servers' lists of a kind, which are given by the servers' numbers: nil is
// that of a server without one. What was joined of the same bytes is used again.
func (j *Joined) Join(r revision.Revision, k revision.Kind, parts []*cache.Entry) *List {
	at := &j.lists[r][k]
	last := at.last.Load()
	if last != nil && slices.Equal(last.Parts, parts) {
		return last
	}
	at.joining.Lock()
	defer at.joining.Unlock()
	if last = at.last.Load(); last != nil && slices.Equal(last.Parts, parts) {
		return last
	}
	l := &List{Parts: slices.Clone(parts)}
	if last != nil && slices.EqualFunc(last.Parts, parts, alike) {
		l.Entry, l.targets, l.templates = last.Entry, last.targets, last.templates
	} else {
		l.Entry = &cache.Entry{
			Kind: k, Revision: r, Partition: cache.Public, Body: j.compose(l, r, k), Fetched: time.Now(), Mark: j.cache.Mark(k),
			Lifetime: lifetime(parts),
		}
		j.cache.Pin(l.Entry)
	}
	at.last.Store(l)
	return l
}

// lifetime returns the shortest of the parts'.
func lifetime(parts []*cache.Entry) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, part := range parts {
		if part != nil {
			shortest = min(shortest, part.Lifetime)
		}
	}
	return shortest
}

// alike reports whether two parts make the same of a joined list.
func alike(a, b *cache.Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Body.Digest == b.Body.Digest && a.Partition == b.Partition && a.Lifetime == b.Lifetime
}

// compose makes the body of a list of its parts, and its tables.
func (j *Joined) compose(l *List, r revision.Revision, k revision.Kind) *message.Body {
	scope := message.ScopePublic
	for _, part := range l.Parts {
		if part != nil && part.Partition != cache.Public {
			scope = message.ScopePrivate
		}
	}
	var b *message.Body
	if k == revision.Discover {
		b = j.about.describe(r, j.servers, l.Parts, scope)
	} else {
		before, after := j.about.around(k, scope)
		b = message.Compose(k, before, l.join(j.servers, k, j.maxList-int64(len(before)+len(after))), after)
	}
	b.HasTTL, b.Scope = true, scope
	return b
}

// join returns the items of a list, as callers are given them, and fills in its tables.
func (l *List) join(servers []Joining, k revision.Kind, room int64) [][]byte {
	var items [][]byte
	l.targets = make(map[string]Target)
	for number, part := range l.Parts {
		if part == nil || int64(part.Size()+part.Body.Items*len(servers[number].Prefix)) > room {
			continue
		}
		for item := range part.Each() {
			name := part.Body.Name(item)
			shown := name
			if k == revision.Tools || k == revision.Prompts {
				shown = servers[number].Prefix + name
			}
			if _, taken := l.targets[shown]; taken {
				continue
			}
			if shown != name {
				renamed, err := message.WithPrefix(item, servers[number].Prefix)
				if err != nil {
					continue // it has a name: this does not happen
				}
				item = renamed
			}
			l.targets[shown] = Target{number, name}
			if k == revision.ResourceTemplates {
				l.templates = append(l.templates, newTemplate(number, name))
			}
			items = append(items, item)
			room -= int64(len(item) + len(","))
		}
	}
	return items
}

// Target returns what a name, or URI, stands for.
func (l *List) Target(name string) (Target, bool) {
	t, ok := l.targets[name]
	return t, ok
}

// Has reports whether a server has a part in the list.
func (l *List) Has(server int) bool { return l.Parts[server] != nil }
