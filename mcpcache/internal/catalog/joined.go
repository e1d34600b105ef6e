package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/budget"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Joined is the catalogue of several servers: of each kind one list, in which the servers'
// items are in the servers' order, the names of tools and prompts with the servers'
// prefixes and all else as the servers wrote it. Of two servers' items of one name the first
// is there, and the other is not.
type Joined struct {
	servers []Joining
	about   About
	limits  Limits
	cache   *cache.Cache
	widest  *Views // of a caller who may see as much as anybody
	callers callers
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

// Limits bound a joined list.
type Limits struct {
	// List is the most bytes of one. Servers whose lists would make it longer are left out.
	List int64
	// Name is how many bytes the name of a tool or prompt may have with a prefix. If the
	// prefix makes it longer, it is shortened. Names that are longer by themselves are left
	// alone.
	Name int
	// Callers is the most bytes of the lists that are kept for single callers.
	Callers int64
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

	// Conflicts are what callers are not given of the parts, or not as it is.
	Conflicts []Conflict

	// Told is for whoever tells the servers' feeds that clients are given the list: when that was last done,
	// as a number of its own.
	Told atomic.Uint64

	passing   bool              // it is too large to be kept, and its parts are [bare]
	targets   map[string]Target // by name, or URI
	full      map[string]string // names with the whole prefix, by the shortened ones
	templates []template        // in order; of resource templates only
}

// Conflict is something that callers are not given as a server has it.
type Conflict struct {
	Server int    // its number
	Name   string // what the server calls the item; "" if it is about the whole list
	Why    Why
	With   int // the other server, of [Taken] and [Claimed]
}

// Why says what a conflict is about.
type Why uint8

const (
	// Taken: another server's item has the name, or URI, and is listed.
	Taken Why = iota
	// TooLong: the name is longer than the limit by itself, and is listed all the same.
	TooLong
	// Claimed: the name begins with another server's prefix, and would be taken for its.
	Claimed
	// TooMuch: the list has no room for the server's.
	TooMuch
)

// NewJoined returns the catalogue of those servers, which keeps its lists in a cache of its
// own. Nobody may see more than most show.
func NewJoined(servers []Joining, about About, limits Limits, own *cache.Cache, most *Views) *Joined {
	return &Joined{
		servers: servers, about: about, limits: limits, cache: own, widest: most,
		callers: callers{limit: limits.Callers / 2, hold: own.HoldCompressed, large: budget.NewQueue()},
	}
}

// Last returns the list that was joined last, or nil.
func (j *Joined) Last(r revision.Revision, k revision.Kind) *List { return j.lists[r][k].last.Load() }

// Join joins the servers' lists of a kind, which are given by the servers' numbers: nil is
// that of a server without one. It has what anybody may see: see [Joined.JoinFor]. What was
// joined of the same bytes is used again.
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
	var l *List
	if last != nil && slices.EqualFunc(last.Parts, parts, alike) {
		l = last.of(parts)
	} else {
		l = j.newList(r, k, parts, message.ScopePublic, j.widest)
		j.cache.Pin(l.Entry)
	}
	at.last.Store(l)
	return l
}

// of returns the same list, of parts that make the same of one.
func (l *List) of(parts []*cache.Entry) *List {
	return &List{
		Entry: l.Entry, Parts: slices.Clone(parts), Conflicts: l.Conflicts,
		passing: l.passing, targets: l.targets, full: l.full, templates: l.templates,
	}
}

// newList joins the servers' lists of a kind, as those views show them. It is of that scope if
// all of them are public.
func (j *Joined) newList(r revision.Revision, k revision.Kind, parts []*cache.Entry, scope message.Scope, v *Views) *List {
	l := &List{Parts: slices.Clone(parts)}
	l.Entry = &cache.Entry{
		Kind: k, Revision: r, Partition: cache.Public, Body: j.compose(l, r, k, scope, v), Fetched: time.Now(), Mark: j.cache.Mark(k),
		Lifetime: lifetime(parts),
	}
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
func (j *Joined) compose(l *List, r revision.Revision, k revision.Kind, scope message.Scope, v *Views) *message.Body {
	for _, part := range l.Parts {
		if part != nil && part.Partition != cache.Public {
			scope = message.ScopePrivate
		}
	}
	var b *message.Body
	if k == revision.Discover {
		b = j.about.describe(r, j.servers, l.Parts, scope)
	} else {
		before, after := j.about.around(r, k, scope)
		limits := j.limits
		limits.List -= int64(len(before) + len(after))
		c := composing{l, j.servers, k, limits, v}
		b = message.Compose(k, before, c.join(), after)
	}
	b.HasTTL, b.Scope = r.Era() == revision.Modern, scope
	return b
}

// composing is a list that is being made.
type composing struct {
	*List

	servers []Joining
	kind    revision.Kind
	limits  Limits // of the list, what is left of it
	views   *Views
}

// join returns the items of the list, as callers are given them, and fills in its tables.
func (c *composing) join() [][]byte {
	var items [][]byte
	c.targets, c.full = make(map[string]Target), make(map[string]string)
	for number, part := range c.Parts {
		if part == nil {
			continue
		}
		if int64(part.Size()+part.Body.Items*len(c.servers[number].Prefix)) > c.limits.List {
			c.Conflicts = append(c.Conflicts, Conflict{Server: number, Why: TooMuch})
			continue
		}
		for item := range part.Each() {
			if item = c.add(item, number); item != nil {
				items = append(items, item)
				c.limits.List -= int64(len(item) + len(","))
			}
		}
	}
	return items
}

// add notes an item of a server, and returns it as callers are given it, or nil. What is
// hidden leaves its name to others.
func (c *composing) add(item []byte, server int) []byte {
	l, name, prefix := c.List, message.NameOf(c.kind, item), c.servers[server].Prefix
	if c.kind == revision.ResourceTemplates { // of what it is for, other rules speak
		l.templates = append(l.templates, newTemplate(server, name))
	}
	seen := seenAs(c.kind, name, prefix, c.limits.Name)
	shown := seen.Name
	if !c.views.allows(c.kind, server, item, seen) {
		return nil
	}
	if hasPrefixes(c.kind) {
		if len(name) > c.limits.Name {
			l.Conflicts = append(l.Conflicts, Conflict{Server: server, Name: name, Why: TooLong})
		}
		if other, claimed := claims(c.servers, server, shown); claimed {
			l.Conflicts = append(l.Conflicts, Conflict{Server: server, Name: name, Why: Claimed, With: other})
			return nil
		}
	}
	if other, taken := l.targets[shown]; taken && other != (Target{server, name}) { // its own is as the server has it
		l.Conflicts = append(l.Conflicts, Conflict{Server: server, Name: name, Why: Taken, With: other.Server})
		return nil
	}
	if shown != name {
		renamed, err := renamedItem(item, name, prefix, shown)
		if err != nil {
			return nil // it has a name: this does not happen
		}
		item = renamed
	}
	l.targets[shown] = Target{server, name}
	if seen.Full != "" {
		l.full[shown] = seen.Full
	}
	return item
}

// hasPrefixes reports whether items of that kind are seen with the prefix of their server.
func hasPrefixes(k revision.Kind) bool { return k == revision.Tools || k == revision.Prompts }

// seenAs returns the names by which callers see an item. One that is too long by itself is
// not shortened.
func seenAs(k revision.Kind, name, prefix string, limit int) policy.Item {
	if !hasPrefixes(k) {
		return policy.Item{Name: name}
	}
	full := prefix + name
	shown := shorten(full, limit)
	if len(name) > limit || shown == full {
		return policy.Item{Name: full}
	}
	return policy.Item{Name: shown, Full: full}
}

// SeenAs returns the names by which callers see what a server calls like that.
func (j *Joined) SeenAs(k revision.Kind, t Target) policy.Item {
	return seenAs(k, t.Name, j.servers[t.Server].Prefix, j.limits.Name)
}

// claims returns the number of another server with whose prefix a name begins. If such a
// name could be another's, a call would go elsewhere when that one is away.
func claims(servers []Joining, server int, name string) (other int, claimed bool) {
	other = slices.IndexFunc(servers, func(s Joining) bool { return s.Prefix != "" && strings.HasPrefix(name, s.Prefix) })
	return other, other >= 0 && other != server
}

// renamedItem returns an item with another name, and all else as written: a prefix leaves
// what is behind it as the server wrote it.
func renamedItem(item []byte, name, prefix, shown string) ([]byte, error) {
	if shown == prefix+name {
		return message.WithPrefix(item, prefix)
	}
	return message.WithString(item, shown, "name")
}

// hashed is how many bytes a shortened name ends with: an underscore and 6 hexadecimal digits.
const hashed = 7

// shorten returns a name of at most limit bytes, which is always the same for the same name:
// the beginning of one that is longer, and a hash of all of it.
func shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return cut(name, limit-hashed) + "_" + hex.EncodeToString(sum[:3])
}

// Target returns what a name, or URI, stands for; nothing in a nil list.
func (l *List) Target(name string) (Target, bool) {
	if l == nil {
		return Target{}, false
	}
	t, ok := l.targets[name]
	return t, ok
}

// SeenAs returns the names of an item in the list.
func (l *List) SeenAs(name string) policy.Item { return policy.Item{Name: name, Full: l.full[name]} }

// HasAny reports whether any server has a part in the list.
func (l *List) HasAny() bool {
	return slices.ContainsFunc(l.Parts, func(part *cache.Entry) bool { return part != nil })
}

// Has reports whether a server has a part in the list.
func (l *List) Has(server int) bool { return l.Parts[server] != nil }
