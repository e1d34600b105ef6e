package report

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/cache"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/feed"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/nearest"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Item is one item of a snapshot.
type Item struct {
	Name string
	// Raw is the item as the upstream wrote it.
	Raw []byte

	why *Why // see [ItemsAs]
}

// Summary is what a list of items shows of each.
type Summary struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Why is set by [ItemsAs] if that was asked for.
	Why *Why `json:"why,omitempty"`
}

// Kind returns the kind of that name. Its errors are of the type *[Error].
func Kind(name string) (revision.Kind, error) {
	k, ok := revision.ParseKind(name)
	if !ok {
		return 0, trouble(NotFound, "%q is not one of %s%s", name, strings.Join(revision.KindNames(), ", "), nearest.Question(name, revision.KindNames()))
	}
	return k, nil
}

// ListKind is [Kind] for kinds that have items.
func ListKind(name string) (revision.Kind, error) {
	k, ok := revision.ParseKind(name)
	if !ok || k.ItemsKey() == "" {
		return 0, trouble(NotFound, "%q is not one of %s%s", name, strings.Join(revision.ListNames(), ", "), nearest.Question(name, revision.ListNames()))
	}
	return k, nil
}

// Items returns the items of a kind's newest snapshot whose names match a
// pattern of [path.Match], of all if that is "". Names are no paths, although
// URIs look like some: '*' and '?' match slashes too. Its errors are of the type
// *[Error].
func Items(s Source, k revision.Kind, like string) ([]Item, error) {
	if _, err := matches(like, ""); err != nil {
		return nil, trouble(Invalid, "like: %q is not a pattern: %v", like, err)
	}
	e := Newest(s, k)
	if e == nil {
		return nil, noSnapshot(s, k)
	}
	if k == revision.Discover {
		return nil, trouble(NotFound, "discover is not a list")
	}
	if t := s.Toolkit(); t != nil {
		e = t.ListFor(nil, k).Entry
	}
	return itemsLike(e, like), nil
}

// itemsLike returns the items of a list whose names match a pattern that is one.
func itemsLike(e *cache.Entry, like string) []Item {
	raw := message.Items(e.Body.Bytes, e.Kind)
	items := make([]Item, 0, len(raw))
	for i, name := range e.Body.Names() {
		if matched, _ := matches(like, name); like == "" || matched {
			items = append(items, Item{Name: name, Raw: raw[i]})
		}
	}
	return items
}

// NotFetched is how the text of an [Error] ends, if the list that was asked for may come yet.
const NotFetched = "no feed has fetched it yet"

// noSnapshot says that there is no copy of a list, and whether there may be one later.
func noSnapshot(s Source, k revision.Kind) error {
	for _, f := range s.Feeds().All() {
		if f.Status().State != feed.Unsupported && f.List(k).Offers() {
			return trouble(NotFound, "there is no snapshot of %s: %s", k, NotFetched)
		}
	}
	return trouble(NotFound, "there is no snapshot of %s", k)
}

// ItemNamed returns the first item of that name in a kind's newest snapshot. Its
// errors are of the type *[Error].
func ItemNamed(s Source, k revision.Kind, name string) (Item, error) {
	items, err := Items(s, k, "")
	if err != nil {
		return Item{}, err
	}
	for _, item := range items {
		if item.Name == name {
			return item, nil
		}
	}
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.Name
	}
	if near := nearest.Name(name, names); near != "" {
		return Item{}, trouble(NotFound, "no item of %s is called %q: did you mean %q?", k, name, near)
	}
	return Item{}, trouble(NotFound, "no item of %s is called %q", k, name)
}

func matches(pattern, name string) (bool, error) {
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	return path.Match(flat(pattern), flat(name))
}

// Summary returns what a list shows of the item.
func (i Item) Summary() Summary {
	summary := Summary{Name: i.Name, Why: i.why}
	var said struct {
		Title       any `json:"title"`
		Description any `json:"description"`
	}
	// The upstream may have put anything there; only text is shown.
	if json.Unmarshal(i.Raw, &said) == nil {
		summary.Title, _ = said.Title.(string)
		summary.Description, _ = said.Description.(string)
	}
	return summary
}
