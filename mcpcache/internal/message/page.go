package message

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Page is one answer to a list request, taken apart, or one result of discover
// or read. It points into the result given to [ParsePage], until a [Body] takes
// that over.
type Page struct {
	Count      int           // items
	NextCursor []byte        // raw JSON string; nil when absent or when the kind is no list (`""` is a valid cursor)
	TTL        time.Duration // ttlMs; a negative one counts as 0 (2026-07-28, caching, "TTL")
	HasTTL     bool          // ttlMs is present
	Scope      Scope
	Complete   bool // resultType is absent or "complete"

	result  []byte
	members []member   // in order, as written
	items   *itemTable // nil if the kind is no list
}

// member is one member of a result: its key in pageKeys, its name with the
// quotes, and its value, both as written.
type member struct {
	key         int
	name, value []byte
}

const (
	pageType = iota
	pageTTL
	pageScope
	pageCursor
	pageItems // only of lists
)

// pageKeys has the known members of each kind's result.
var pageKeys = func() (sets [revision.NumKinds]keyset) {
	for kind := range revision.Kind(revision.NumKinds) {
		sets[kind] = keys("resultType", "ttlMs", "cacheScope")
		if items := kind.ItemsKey(); items != "" {
			sets[kind] = append(sets[kind], []byte("nextCursor"), []byte(items))
		}
	}
	return sets
}()

// ParsePage takes apart a result of the kind. The members of the result have to
// be unique. A list's items have to be objects, each named by a non-empty string.
// A known member of null counts as absent, and is left out (Codewhale#5335). More than
// 4 GiB are refused.
func ParsePage(result []byte, kind revision.Kind) (*Page, error) {
	if uint64(len(result)) > maxSize {
		return nil, fmt.Errorf("parsing %s: %w", kind, errTooLong)
	}
	p := &Page{Complete: true, result: result}
	err := eachMember(result, pageKeys[kind], func(key int, name, value []byte) error {
		if key != unknown && key != pageItems && isNull(value) {
			return nil
		}
		p.members = append(p.members, member{key, name, value})
		return p.member(key, value, kind)
	})
	if err == nil && kind.ItemsKey() != "" && p.items == nil {
		err = invalid("no " + kind.ItemsKey())
	}
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", kind, err)
	}
	return p, nil
}

func (p *Page) member(key int, value []byte, kind revision.Kind) (err error) {
	switch key {
	case pageType:
		p.Complete = isString(value) && string(unquote(value)) == "complete"
	case pageTTL:
		p.HasTTL = true
		p.TTL, err = parseTTL(value)
	case pageScope:
		p.Scope = parseScope(value)
	case pageCursor:
		if !isString(value) {
			return invalid("nextCursor is not a string")
		}
		p.NextCursor = value
	case pageItems:
		return p.parseItems(value, kind)
	}
	return err
}

func (p *Page) parseItems(array []byte, kind revision.Kind) error {
	p.items = newItemTable(array)
	err := p.items.parse(kind.IDKey())
	p.Count = p.items.len()
	return err
}

// maxTTL is the longest time in whole milliseconds that a Duration holds.
const maxTTL = math.MaxInt64 / int64(time.Millisecond)

// parseTTL returns a raw JSON number of milliseconds, rounded down to a whole
// one, at least 0 and at most what a Duration holds.
func parseTTL(raw []byte) (time.Duration, error) {
	if !isNumber(raw) {
		return 0, invalid("ttlMs is not a number")
	}
	// The decoder has accepted the number. What is out of a float's range comes
	// as an infinity.
	ms, _ := strconv.ParseFloat(string(raw), 64)
	switch {
	case ms <= 0:
		return 0, nil
	case ms >= float64(maxTTL):
		return time.Duration(maxTTL) * time.Millisecond, nil
	}
	return time.Duration(math.Floor(ms)) * time.Millisecond, nil
}
