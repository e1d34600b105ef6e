package caddytest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// Canaries are what a client sends in these tests, by the names of the headers. Each may
// show up at one server at most.
var Canaries = map[string]string{
	"Authorization": "Bearer canary-own", "X-Github-Auth": "Bearer canary-github", "X-Tenant": "canary-tenant", "X-Other": "canary-other",
	"Cookie": "a=canary-cookie", "Proxy-Authorization": "Basic canary-proxy", "X-Api-Key": "canary-key", "Dpop": "canary-dpop", "Forwarded": "for=canary-forwarded",
}

// Member is a server of a toolkit.
type Member struct {
	Name    string
	URL     string
	Options []string // in its block
}

// ToolkitOf writes the directive for those servers, with options of the toolkit.
func ToolkitOf(members []Member, options ...string) string {
	var text strings.Builder
	text.WriteString("mcp_cache {\n")
	for _, m := range members {
		text.WriteString("\t" + m.Block() + "\n")
	}
	for _, o := range options {
		text.WriteString("\t" + o + "\n")
	}
	return text.String() + "}"
}

// Block is that of the server among those of a toolkit.
func (m Member) Block() string {
	return fmt.Sprintf("server %s %s {\n\t\t%s\n\t}", m.Name, m.URL, strings.Join(m.Options, "\n\t\t"))
}

// NewMember starts a scripted server whose lists are public for an hour, and marked with
// its name.
func NewMember(t testing.TB, name string, options ...string) (*World, Member) {
	t.Helper()
	w := NewUpstream(t)
	w.SetHints(scripted.PublicHour)
	for _, option := range options {
		if strings.HasPrefix(option, "authorization") || strings.HasPrefix(option, "headers") {
			w.Host.ShareCredentials()
		}
	}
	for _, method := range scripted.ListMethods() {
		w.SetList(method, OwnItems(method, name))
	}
	w.Host.Start()
	return w, Member{name, w.Host.URL, options}
}

// OwnItems returns two items of a server, whose URIs are its own.
func OwnItems(method, name string) scripted.Page {
	page := scripted.Items(method, name, 2)
	for i := range page {
		page[i] = strings.ReplaceAll(page[i], "test://", name+"://")
	}
	return page
}

// HasListed waits until a list of a toolkit has that many items, and all of its parts are fresh.
func HasListed(t testing.TB, c *fixture.Raw, method string, n int) *fixture.Answer {
	t.Helper()
	var a *fixture.Answer
	fixture.Await(t, fmt.Sprintf("a hit of %d items of %s", n, method), func() bool {
		a = c.List(method)
		return a.CacheStatus().Hit && a.CacheStatus().Detail == "" && len(a.Items(scripted.ItemsKey(method))) == n
	})
	return a
}
