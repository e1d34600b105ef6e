package scripted

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The methods that list.
const (
	ToolsList     = "tools/list"
	PromptsList   = "prompts/list"
	ResourcesList = "resources/list"
	TemplatesList = "resources/templates/list"
)

// Methods that list, and the member of the result that holds the items.
var itemsKeys = map[string]string{
	ToolsList:     "tools",
	PromptsList:   "prompts",
	ResourcesList: "resources",
	TemplatesList: "resourceTemplates",
}

// ListMethods returns the methods that list.
func ListMethods() []string {
	return []string{ToolsList, PromptsList, ResourcesList, TemplatesList}
}

// ItemsKey returns the member of a list's result that holds the items.
func ItemsKey(method string) string { return itemsKeys[method] }

// LongMark makes every item of a list a few hundred bytes long.
var LongMark = strings.Repeat("some words of a description ", 20)

// Items returns a page of n simple items for a method, whose descriptions
// carry the mark by which a test recognizes the generation of a list.
func Items(method, mark string, n int) Page {
	page := make(Page, n)
	for i := range page {
		name := fmt.Sprintf("item-%04d", i)
		switch method {
		case ToolsList:
			page[i] = fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, mark)
		case PromptsList:
			page[i] = fmt.Sprintf(`{"name":%q,"description":%q}`, name, mark)
		case ResourcesList:
			page[i] = fmt.Sprintf(`{"uri":"test://%s","name":%q,"description":%q}`, name, name, mark)
		case TemplatesList:
			page[i] = fmt.Sprintf(`{"uriTemplate":"test://%s/{x}","name":%q,"description":%q}`, name, name, mark)
		}
	}
	return page
}

// cursor is what follows page i: with characters that need escaping, since
// cursors are opaque.
func cursor(i int) string { return "pag\u00e9 \"" + strconv.Itoa(i) + "\"/+" }

// pages returns the list that a method gives to the sender of m.
func (s *Server) pages(m *Message, method string) []Page {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own, ok := s.settings.sessionLists[m.Session][method]; ok {
		return own
	}
	if own, ok := s.settings.private[m.Auth][method]; ok {
		return own
	}
	return s.settings.lists[method]
}

// list returns the result of a list request.
func (s *Server) list(m *Message) (result string, ok bool) {
	pages := s.pages(m, m.Method)
	s.mu.Lock()
	hints, members := s.settings.hints, s.settings.members[m.Method]
	s.mu.Unlock()

	index := 0
	if given, there := m.param("cursor"); there {
		for index = 1; index < len(pages) && cursor(index) != given; index++ {
		}
		if index >= len(pages) {
			return "", false
		}
	}
	var page Page
	if index < len(pages) {
		page = pages[index]
	}
	next := ""
	if index+1 < len(pages) {
		next = cursor(index + 1)
	}
	return listResult(m, page, next, hints, members), true
}

// listResult writes a result with white space and an order of members that no
// marshaller would choose.
func listResult(m *Message, page Page, next, hints, members string) string {
	parts := []string{fmt.Sprintf("%q :\t[%s ]", itemsKeys[m.Method], strings.Join(page, " ,\n\t"))}
	if members != "" {
		parts = append(parts, members)
	}
	if next != "" {
		quoted, err := json.Marshal(next)
		if err != nil {
			panic(err) // a string always marshals
		}
		parts = append(parts, `"nextCursor" : `+string(quoted))
	}
	if m.Modern {
		parts = append(parts, `"resultType":"complete"`)
		if hints != "" {
			parts = append(parts, hints)
		}
	}
	return "{ " + strings.Join(parts, ", ") + "\n}"
}

// hasTool reports whether the caller's list has a tool of that name.
func (s *Server) hasTool(m *Message, name string) bool {
	for _, page := range s.pages(m, ToolsList) {
		for _, item := range page {
			var tool struct{ Name string }
			if json.Unmarshal([]byte(item), &tool) == nil && tool.Name == name {
				return true
			}
		}
	}
	return false
}
