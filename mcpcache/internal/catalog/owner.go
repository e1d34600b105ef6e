package catalog

import (
	"context"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/policy"
)

// template is a resource template of one of the servers.
type template struct {
	server int
	before string                // its text before the first expression
	parsed *uritemplate.Template // nil if it is none of RFC 6570, or too long
}

func newTemplate(server int, text string) template {
	if len(text) > policy.MaxName {
		return template{server: server}
	}
	parsed, err := uritemplate.New(text)
	if err != nil {
		return template{server: server}
	}
	before, _, _ := strings.Cut(text, "{")
	return template{server, before, parsed}
}

// matches reports whether a URI may be an expansion of the template. The regular expression
// excludes most URIs in a small part of the time that it takes to match them.
func (t template) matches(uri string) bool {
	return t.parsed != nil && strings.HasPrefix(uri, t.before) && t.parsed.Regexp().MatchString(uri) && t.parsed.Match(uri) != nil
}

// Owner returns the number of the server that a URI is of: the one that lists it, or else
// the first that lists a template for it. It gives up at the end of ctx. The URI must not be
// longer than [policy.MaxName].
func Owner(ctx context.Context, uri string, resources, templates *List) (server int, ok bool) {
	if t, ok := resources.Target(uri); ok {
		return t.Server, true
	}
	for _, t := range templates.templates {
		if ctx.Err() != nil {
			break
		}
		if t.matches(uri) {
			return t.server, true
		}
	}
	return 0, false
}

// OnlyOwner returns the number of the only server that has resources or templates at all.
func OnlyOwner(resources, templates *List) (server int, ok bool) {
	having := 0
	for number := range resources.Parts {
		if resources.Has(number) || templates.Has(number) {
			server, having = number, having+1
		}
	}
	return server, having == 1
}
