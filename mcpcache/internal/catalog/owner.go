package catalog

import "github.com/yosida95/uritemplate/v3"

// template is a resource template of one of the servers.
type template struct {
	server int
	parsed *uritemplate.Template // nil if it is none of RFC 6570
}

func newTemplate(server int, text string) template {
	parsed, err := uritemplate.New(text)
	if err != nil {
		return template{server: server}
	}
	return template{server, parsed}
}

// matches reports whether a URI may be an expansion of the template.
func (t template) matches(uri string) bool { return t.parsed != nil && t.parsed.Match(uri) != nil }

// Owner returns the number of the server that a URI is of: the one that lists it, or else
// the first that lists a template for it.
func Owner(uri string, resources, templates *List) (server int, ok bool) {
	if t, ok := resources.Target(uri); ok {
		return t.Server, true
	}
	for _, t := range templates.templates {
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
