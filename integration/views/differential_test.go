package views

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/caddytest"
	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// Marks of what is hidden, which nothing else has: hushed from all but admins, banned
// from everybody. What is said of such items has secret besides.
const hushed, banned, secret = "qqhush", "qqban", "qqsecret"

// maxVeiledCall is max_call of the sites under test, in bytes.
const maxVeiledCall = 100 << 10

// policies hide what has those marks by rules of every kind.
var policies = map[string][]string{
	"deny": {
		"deny @others tools *" + hushed + "*", "deny @others prompts *" + hushed + "-?", "deny @others resources test://" + hushed + "-*",
		"deny @others resource_templates *" + hushed + "*", "deny tools " + banned + "*", "deny prompts *" + banned + "*",
		"deny resources *" + banned + "*", "deny resource_templates TEST://" + banned + "*",
	},
	"allow": {
		"allow tools open-*", "allow @admins tools *", "deny tools *" + banned + "-[0-9]", "allow prompts open-?", "allow @admins prompts *",
		"deny prompts " + banned + "*", "allow resources test://open-*", "allow @admins resources *", "deny resources *://" + banned + "*",
		"allow resource_templates test://open*", "allow @admins resource_templates *", "deny resource_templates *" + banned + "*",
	},
	"hints": {
		"allow tools hint:read_only", "allow @admins tools *", "deny tools *" + banned + "*", "deny @others prompts *" + hushed + "*",
		"deny prompts *" + banned + "*", "allow resources *://open*", "allow @admins resources test://*", "deny resources *" + banned + "*",
		"deny @others resource_templates *" + hushed + "*", "deny resource_templates *" + banned + "*",
	},
}

// veiled is a site with such a policy in front of a server.
func veiled(url, policy string, options ...string) string {
	rules := append(slices.Clip(policies[policy]), fmt.Sprintf("max_call %d", maxVeiledCall), "harmless X-Role", "refresh 1h")
	return "@others not header X-Role admin\n@admins header X-Role admin\nroute {\n" + caddytest.Directive(url, append(rules, options...)...) + "\n}"
}

// about is what a server says of an item.
func about(name string) string {
	if strings.Contains(name, hushed) || strings.Contains(name, banned) {
		return secret + " of " + name + ": " + scripted.LongMark
	}
	return "about " + name + ": " + scripted.LongMark
}

// readOnly reports whether a tool says so of itself.
func readOnly(tool string) bool { return !strings.Contains(tool, hushed) }

// offers is what the servers have.
func offers() fixture.Offer {
	o := fixture.Offer{About: about, ReadOnly: readOnly}
	for _, name := range []string{"open-1", hushed + "-2", "open-3", banned + "-4", hushed + "-5", "open-6"} {
		o.Tools, o.Prompts = append(o.Tools, name), append(o.Prompts, name)
		o.Resources, o.Templates = append(o.Resources, "test://"+name+"/note"), append(o.Templates, "test://"+name+"/{x}")
	}
	return o
}

// veil is a server behind rules.
type veil struct {
	t                testing.TB
	proxy            *caddytest.Proxy
	host             *fixture.Host
	revisions        []string
	batches, resumes bool
	lacks            []string // methods that the server does not have
	// asked returns what an SDK has understood; add has the server announce a tool.
	asked func() []string
	add   func(tool string)

	exchanges int // so many have been compared
}

// on returns the veil for a subtest.
func (v *veil) on(t testing.TB) *veil {
	sub, site := *v, *v.proxy
	site.T = t
	sub.t, sub.proxy = t, &site
	return &sub
}

// veils start servers behind a policy.
func veils() map[string]func(t *testing.T, policy string, options ...string) *veil {
	all := map[string]func(*testing.T, string, ...string) *veil{
		"scripted json": func(t *testing.T, policy string, options ...string) *veil {
			return scriptedVeil(t, false, policy, options...)
		},
		"scripted sse": func(t *testing.T, policy string, options ...string) *veil {
			return scriptedVeil(t, true, policy, options...)
		},
	}
	for name, start := range fixture.OfferServers() {
		all[name] = func(t *testing.T, policy string, options ...string) *veil {
			s := start(t, offers())
			return &veil{
				t: t, proxy: caddytest.StartProxy(t, veiled(s.URL, policy, options...)), host: s.Host, revisions: s.Revisions,
				batches: s.Batches, resumes: s.Resumes, asked: s.Asked, add: s.Add,
			}
		}
	}
	return all
}

// scriptedVeil starts a scripted server, which answers batches, and whose answers in
// event streams can be repeated.
func scriptedVeil(t *testing.T, sse bool, policy string, options ...string) *veil {
	t.Helper()
	s := scripted.New()
	s.SetSSE(sse)
	s.SetBatches(true)
	s.SetResumable(sse)
	o := offers()
	offerScripted(s, o)
	host := fixture.NewHost(t, s)
	add := func(tool string) {
		o.Tools = append(o.Tools, tool)
		s.SetList(scripted.ToolsList, scriptedTools(o))
		s.Changed(scripted.Everybody, scripted.ToolsList)
	}
	return &veil{
		t: t, proxy: caddytest.StartProxy(t, veiled(host.URL, policy, options...)), host: host, batches: true, resumes: sse, add: add,
		revisions: []string{scripted.Modern, scripted.LatestLegacy, "2025-03-26"}, asked: func() []string { return nil },
	}
}

// offerScripted has a scripted server offer that, in lists of two pages.
func offerScripted(s *scripted.Server, o fixture.Offer) {
	lists := map[string]scripted.Page{
		scripted.ToolsList: scriptedTools(o), scripted.PromptsList: nil, scripted.ResourcesList: nil, scripted.TemplatesList: nil,
	}
	for i := range o.Prompts {
		lists[scripted.PromptsList] = append(lists[scripted.PromptsList], fmt.Sprintf(`{"description":%q,"name":%q}`, about(o.Prompts[i]), o.Prompts[i]))
		lists[scripted.ResourcesList] = append(lists[scripted.ResourcesList], fmt.Sprintf(`{"uri":%q,"name":"r","description":%q}`, o.Resources[i], about(o.Resources[i])))
		lists[scripted.TemplatesList] = append(lists[scripted.TemplatesList], fmt.Sprintf(`{"uriTemplate":%q,"name":"t","description":%q}`, o.Templates[i], about(o.Templates[i])))
		s.SetContents(o.Resources[i], fmt.Sprintf(`"text":%q`, about(o.Resources[i])))
	}
	for method, page := range lists {
		s.SetList(method, page[:4], page[4:])
	}
}

func scriptedTools(o fixture.Offer) (page scripted.Page) {
	for _, name := range o.Tools {
		page = append(page, fmt.Sprintf(`{"name":%q,"description":%q,"annotations":{"readOnlyHint":%v},"inputSchema":{"type":"object"}}`,
			name, o.About(name), o.ReadOnly(name)))
	}
	return page
}

// caller is a client of whom it is known what it may not see.
type caller struct {
	*fixture.Raw

	v     *veil
	admin bool
}

// marks returns those of what the caller may not see.
func (c *caller) marks() []string {
	if c.admin {
		return []string{banned}
	}
	return []string{banned, hushed, secret}
}

func (v *veil) caller(revision string, admin bool) *caller { return v.callerAs(revision, "", admin) }

// callerAs is like caller, with that Authorization.
func (v *veil) callerAs(revision, authorization string, admin bool) *caller {
	v.t.Helper()
	c := &caller{fixture.New(v.t, v.proxy.URL, revision, authorization), v, admin}
	if admin {
		c.Header.Set("X-Role", "admin")
	}
	return c
}

// wantUnseen fails if anything of an answer is hidden from the caller, apart from
// the names that the caller has said.
func (c *caller) wantUnseen(what string, a *fixture.Answer, said ...string) {
	c.v.t.Helper()
	c.v.exchanges++
	var text bytes.Buffer
	if err := a.Header.Write(&text); err != nil {
		c.v.t.Fatal(err)
	}
	text.Write(fixture.Decoded(c.v.t, a).Body)
	rest := text.String()
	for _, name := range said {
		rest = strings.ReplaceAll(rest, name, "")
	}
	for _, mark := range c.marks() {
		if at := strings.Index(strings.ToLower(rest), mark); at >= 0 {
			c.v.t.Errorf("%s: %s comes back: %d, …%.300s", what, mark, a.Status, rest[max(0, at-100):])
		}
	}
}

// send sends a request, and returns as much of the answer as comes back.
func (c *caller) send(what, method, body string, more http.Header, said ...string) *fixture.Answer {
	c.v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), fixture.Deadline)
	defer cancel()
	res, err := fixture.Insist(func() (*http.Response, error) { return c.Open(ctx, method, strings.NewReader(body), more) })
	if err != nil {
		c.v.t.Fatalf("%s: %v", what, err)
	}
	defer res.Body.Close()
	read, _ := io.ReadAll(res.Body) // an answer that is cut off is one too
	a := &fixture.Answer{Status: res.StatusCode, Header: res.Header, Body: read}
	c.wantUnseen(what, a, said...)
	return a
}

// TestViewsDifferential has callers that may not see everything ask servers of all
// kinds for everything, in all forms: nothing hidden comes back, nothing hidden is
// asked for at the server, and what is hidden is the same as what is not there.
func TestViewsDifferential(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(veils())) {
		t.Run(name, func(t *testing.T) {
			for j, policy := range slices.Sorted(maps.Keys(policies)) {
				t.Run(policy, func(t *testing.T) {
					v := veils()[name](t, policy)
					for k := range caddytest.Pick(1, len(v.revisions)) {
						revision := v.revisions[(i+j+k)%len(v.revisions)]
						t.Run(revision, func(t *testing.T) {
							v := v.on(t)
							v.differ(revision)
							t.Logf("%d exchanges", v.exchanges)
						})
					}
				})
			}
		})
	}
}

func (v *veil) differ(revision string) {
	v.t.Helper()
	v.callCold(revision)
	v.list(revision)
	v.call(revision)
	if v.resumes && revision < scripted.Modern {
		v.resume(revision)
	}
	v.change(revision)
	v.wantUntold()
}

// wantUntold fails if a server has heard of what is hidden from those who asked.
func (v *veil) wantUntold() {
	v.t.Helper()
	for _, r := range v.host.Requests(ofClients) {
		said := everySense(&r)
		if strings.Contains(said, banned) || r.Header.Get("X-Role") == "" && strings.Contains(said, hushed) {
			v.t.Errorf("the server was asked %s %s %q: %.300q", r.HTTPMethod, r.URL, r.Header, r.Body)
		}
	}
	for _, asked := range v.asked() {
		if strings.Contains(asked, banned) {
			v.t.Errorf("the server has understood %.300s", asked)
		}
	}
}
