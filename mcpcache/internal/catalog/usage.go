package catalog

import (
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/message"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Usage returns of which patterns of rules there is an item in lists that they name.
func Usage(s *policy.Set, lists []*List) *policy.Usage {
	u := s.Usage()
	for _, l := range lists {
		e := l.Entry
		hints := u.Hints(e.Kind)
		for item := range e.Each() {
			i := l.SeenAs(message.NameOf(e.Kind, item))
			if hints {
				i.Hints = policy.HintsOf(item)
			}
			u.Add(e.Kind, i)
			if e.Kind == revision.ResourceTemplates {
				u.AddTemplate(i.Name)
			}
		}
	}
	return u
}
