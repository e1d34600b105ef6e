package message

import (
	"bytes"
	"fmt"
	"strings"
)

// toolPage returns a tools/list result with n tools from number first on.
func toolPage(first, n int, more bool) string {
	var b strings.Builder
	b.WriteString(`{"resultType":"complete","tools":[`)
	for i := first; i < first+n; i++ {
		if i > first {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool_%d","description":"Does a thing, with a long explanation of how.",`+
			`"inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"Where."}},"required":["path"]},`+
			`"x-vendor":{"n":9007199254740993,"f":1.0}}`, i)
	}
	b.WriteString(`],"ttlMs":60000,"cacheScope":"public"`)
	if more {
		b.WriteString(`,"nextCursor":"n"`)
	}
	b.WriteByte('}')
	return b.String()
}

// itemsOf returns copies of the items of a page.
func itemsOf(p *Page) [][]byte {
	items := [][]byte{}
	for i := range p.items.len() {
		items = append(items, bytes.Clone(p.items.item(i)))
	}
	return items
}

// show formats a request for a failure message.
func show(r Request) string {
	return fmt.Sprintf("id %q method %q cursor %q uri %q name %q members %v params %v unsafe %v revision %q capabilities %q baggage %q meta %v",
		r.ID, r.Method, r.Cursor, r.URI, r.Name, r.ExtraMembers, r.ExtraParams, r.UnsafeInteger,
		r.Meta.Revision, r.Meta.Capabilities, r.Meta.Baggage, r.Meta.Extra)
}

// escapeAll writes every byte of an ASCII text as a JSON escape.
func escapeAll(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, `\u%04X`, text[i])
	}
	return b.String()
}
