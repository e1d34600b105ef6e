package mcpcache

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// modelKinds are all kinds of answers that the model upstream gives.
var modelKinds = []revision.Kind{
	revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates, revision.Reads, revision.Discover,
}

// modelContexts are the authorization contexts: nobody, three tokens, and that
// of a feed with a guard.
var modelContexts = []string{"-", "A", "B", "C", "F"}

// view is one list as one authorization context sees it.
type view struct {
	kind revision.Kind
	ctx  string
}

// sessionView is what a legacy session sees of a kind beyond its context's list.
type sessionView struct {
	kind    revision.Kind
	session string
}

// state says which state of the upstream an answer tells of. It is in every
// result and in every item, so that an answer proves where it came from.
type state struct {
	Server  string `json:"server,omitempty"` // of a toolkit
	Ctx     string `json:"ctx"`
	Version int    `json:"v"`
	Rev     string `json:"rev"`
	// Session is set if the list has items of one session only; Extra is
	// the version of those.
	Session string `json:"ses,omitempty"`
	Extra   int    `json:"sv,omitempty"`
	Caps    string `json:"caps,omitempty"`
	Of      int    `json:"of"`             // how many items the whole list has
	Long    bool   `json:"long,omitempty"` // its items are
	Blip    bool   `json:"blip,omitempty"`
}

// item is what the test reads of an item.
type item struct {
	X struct {
		state
		I int `json:"i"`
	} `json:"x"`
}

// hints are the caching hints of a kind.
type hints struct {
	ttl    int    // ttlMs; -1 for none
	scope  string // "" for none
	second string // the scope of all pages but the first; "" for the same
}

// page is one answer of the upstream to a list request.
type page struct {
	state  state
	hints  hints
	offset int
	end    int
	result []byte
}

// scopes returns the cacheScope that a cache may write over this page's
// content: its own, and that of a walk whose pages differ.
func (p *page) scopes() []string {
	if p.hints.second != "" && p.hints.second != p.hints.scope {
		return []string{p.hints.scope, p.hints.second}
	}
	return []string{p.hints.scope}
}

// content stands for an answer's state and scope.
type content struct {
	kind  revision.Kind
	state state
	scope string
}

// longText is a member that makes an item long: lists of more than a kilobyte share their
// items with others, and are compressed.
var longText = `,"description":"` + strings.Repeat("x", 500) + `"`

// modelName is what an item is called.
func modelName(k revision.Kind, i int) string {
	name := fmt.Sprintf("%s-%d", k, i)
	if k.IDKey() == "uri" || k.IDKey() == "uriTemplate" {
		return "file:///" + name
	}
	return name
}

func modelItem(k revision.Kind, s state, i int) string {
	x, err := json.Marshal(struct {
		state
		I int `json:"i"`
	}{s, i})
	if err != nil {
		panic(err)
	}
	name, said := modelName(k, i), ""
	if h, ok := hintsOfTool(name); ok {
		said = h.annotations()
	}
	if s.Long {
		said += longText
	}
	return fmt.Sprintf(`{ "%s":%q,"n":1.0e2,"x":%s%s}`, k.IDKey(), name, x, said)
}

// render writes the part of a list that begins at offset. asker is what it repeats
// of the request, if anything.
func render(k revision.Kind, s state, h hints, offset, size int, capabilities, asker string) *page {
	p := &page{state: s, hints: h, offset: offset, end: s.Of}
	if s.Blip {
		p.end = 0
	}
	if size > 0 && p.end-offset > size {
		p.end = offset + size
	}
	var b strings.Builder
	x, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(&b, `{"x":%s`, x)
	if revision.Parse(s.Rev).Era() == revision.Modern {
		b.WriteString(`,"resultType":"complete"`)
	}
	if k == revision.Discover {
		fmt.Fprintf(&b, `,"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":%s,"serverInfo":{"name":"m","version":"1"}`, capabilities)
	}
	if key := k.ItemsKey(); key != "" {
		items := make([]string, 0, s.Of)
		for i := offset; i < p.end; i++ {
			items = append(items, modelItem(k, s, i))
		}
		fmt.Fprintf(&b, `,"%s": [%s]`, key, strings.Join(items, " , "))
		if p.end < s.Of && !s.Blip {
			fmt.Fprintf(&b, `,"nextCursor":%q`, cursorOf(s, p.end))
		}
	}
	if k == revision.Reads {
		b.WriteString(`,"contents":[{"uri":"file:///r","text":"r"}]`)
	}
	if asker != "" {
		fmt.Fprintf(&b, `,"asker":%q`, asker)
	}
	if h.ttl >= 0 {
		fmt.Fprintf(&b, `,"ttlMs":%d`, h.ttl)
	}
	scope := h.scope
	if offset > 0 && h.second != "" {
		scope = h.second
	}
	if scope != "" {
		fmt.Fprintf(&b, `,"cacheScope":%q`, scope)
	}
	b.WriteString("}")
	p.result = []byte(b.String())
	return p
}

// cursorOf makes a cursor that is good for one state only, so that no walk can
// mix two.
func cursorOf(s state, offset int) string {
	return fmt.Sprintf("%s|%d|%s|%d|%d", s.Ctx, s.Version, s.Session, s.Extra, offset)
}

// offsetOf reads a cursor; it is bad if it belongs to another state.
func offsetOf(s state, cursor string) (int, bool) {
	i := strings.LastIndexByte(cursor, '|')
	offset, err := strconv.Atoi(cursor[i+1:])
	return offset, err == nil && offset > 0 && offset < s.Of && cursorOf(s, offset) == cursor
}

// result is what the test reads of an answer.
type result struct {
	state      state
	numbers    []int // of its items
	ttl        int   // -1 for none
	scope      string
	asker      string // the client's request that it was the answer to, if it says so
	nextCursor *string
}

// parseResult reads a result and checks that it is one piece of one state.
func parseResult(k revision.Kind, raw []byte) (*result, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fmt.Errorf("reading result: %w", err)
	}
	r := &result{ttl: -1}
	if err := json.Unmarshal(members["x"], &r.state); err != nil {
		return nil, fmt.Errorf("reading state: %w", err)
	}
	for key, into := range map[string]any{"ttlMs": &r.ttl, "cacheScope": &r.scope, "nextCursor": &r.nextCursor, "asker": &r.asker} {
		if members[key] != nil {
			if err := json.Unmarshal(members[key], into); err != nil {
				return nil, fmt.Errorf("reading %s: %w", key, err)
			}
		}
	}
	if k.ItemsKey() == "" {
		return r, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(members[k.ItemsKey()], &items); err != nil {
		return nil, fmt.Errorf("reading items: %w", err)
	}
	for _, raw := range items {
		var it item
		if err := json.Unmarshal(raw, &it); err != nil {
			return nil, fmt.Errorf("reading item: %w", err)
		}
		if it.X.state != r.state {
			return nil, fmt.Errorf("there is item %+v in a list of %+v: not one whole version", it.X, r.state)
		}
		r.numbers = append(r.numbers, it.X.I)
		if string(raw) != modelItem(k, r.state, it.X.I) {
			return nil, fmt.Errorf("item %d is not as the upstream wrote it: %s", it.X.I, raw)
		}
	}
	return r, nil
}

// lifetime is how long a cache may call an answer with that hint fresh.
func lifetime(ttl int, otherwise, limit time.Duration) time.Duration {
	d := otherwise
	if ttl >= 0 {
		d = time.Duration(ttl) * time.Millisecond
	}
	return min(d, limit)
}
