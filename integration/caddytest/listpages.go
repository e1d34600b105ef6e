package caddytest

import (
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// PageAt asks for a page of a list by its cursor, as a raw JSON string, or the first.
func PageAt(c *fixture.Raw, method, cursor string) *fixture.Answer {
	members := ""
	if cursor != "" {
		members = `"cursor":` + cursor
	}
	return c.Call(method, c.Params(members))
}

// PagesOf lists page by page, and returns the names of the items on each.
func PagesOf(t testing.TB, c *fixture.Raw, method string) (pages []string, cursors []string) {
	t.Helper()
	for cursor := ""; ; {
		a := PageAt(c, method, cursor)
		if a.Part("result") == nil || len(pages) > 10 {
			t.Fatalf("page %d gave %s", len(pages), a)
		}
		pages = append(pages, NamesOn(a, method))
		if cursor = string(a.Part("result", "nextCursor")); cursor == "" {
			return pages, cursors
		}
		cursors = append(cursors, cursor)
	}
}

// NamesOn returns the names of the items on a page.
func NamesOn(a *fixture.Answer, method string) string {
	var names []string
	for _, item := range a.Items(scripted.ItemsKey(method)) {
		names = append(names, NameIn(item))
	}
	return strings.Join(names, " ")
}

// NameIn returns the name of an item.
func NameIn(item string) string {
	_, rest, _ := strings.Cut(item, `"name":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
