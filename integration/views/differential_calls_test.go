package views

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-mcp/mcp-cache/integration/fixture"
	"github.com/caddy-mcp/mcp-cache/integration/scripted"
)

// calls are the methods that name an item: what they name, in which %s is its number,
// and their params.
var calls = []struct{ method, item, params string }{
	{"tools/call", "%s", `"name":%q,"arguments":{}`},
	{"prompts/get", "%s", `"name":%q`},
	{"resources/read", "test://%s/note", `"uri":%q`},
	{"resources/subscribe", "test://%s/note", `"uri":%q`},
	{"resources/unsubscribe", "test://%s/note", `"uri":%q`},
	{"completion/complete", "%s", `"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":""}`},
	{"completion/complete", "test://%s/{x}", `"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"x","value":""}`},
	{"subscriptions/listen", "test://%s/note", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":[%q]}`},
}

// callForms are how a call is written: body is made of a message, more are headers.
var callForms = map[string]struct {
	body func(message string) string
	more http.Header
}{
	"":                 {func(m string) string { return m }, nil},
	", as a stream":    {func(m string) string { return m }, ratherStreams},
	", JSON alone":     {func(m string) string { return m }, jsonAlone},
	", compressed":     {func(m string) string { return m }, http.Header{"Accept-Encoding": {"gzip, zstd"}}},
	", a notification": {func(m string) string { return strings.Replace(m, `"id":7,`, "", 1) }, nil},
	", of a text id":   {func(m string) string { return strings.Replace(m, `"id":7`, `"id":"a\u0062"`, 1) }, nil},
	", long":           {func(m string) string { return padded(m, 70<<10) }, nil},
	", too long":       {func(m string) string { return padded(m, maxVeiledCall) }, nil},
	", in a batch":     {func(m string) string { return "[" + m + "]" }, nil},
	", behind a ping": {
		func(m string) string { return `[{"jsonrpc":"2.0","id":1,"method":"ping"},` + m + `]` }, nil,
	},
	", before a list": {
		func(m string) string { return `[` + m + `,{"jsonrpc":"2.0","id":1,"method":"tools/list"}]` }, nil,
	},
	", thrice": {
		func(m string) string { return `[` + m + "," + strings.Replace(m, `"id":7,`, "", 1) + "," + m + `]` }, nil,
	},
}

func padded(message string, n int) string {
	return strings.Replace(message, `"params":{`, `"params":{"x":"`+strings.Repeat("x", n)+`",`, 1)
}

// call asks for what is hidden and for what is not there, with names of the same
// length, in all forms, once the cache has the lists.
func (v *veil) call(revision string) {
	v.t.Helper()
	c, admin := v.caller(revision, false), v.caller(revision, true)
	for _, method := range scripted.ListMethods() {
		c.hit("a hit", method, "", nil)
		admin.hit("a hit", method, "", nil)
	}
	for _, n := range calls {
		ask := func(c *caller, id, name, form string) *fixture.Answer {
			item := fmt.Sprintf(n.item, name)
			f := callForms[form]
			more := mirrored(c.Raw, n.method, item)
			if more == nil {
				more = make(http.Header)
			}
			if n.method == "resources/subscribe" || n.method == "resources/unsubscribe" || n.method == "subscriptions/listen" {
				more.Del("Mcp-Name")
			}
			maps.Copy(more, f.more)
			message := fixture.Message(id, n.method, c.Params(fmt.Sprintf(n.params, item)))
			return c.send(n.method+form, http.MethodPost, f.body(message), more, item)
		}
		for form := range callForms {
			what := n.method + form
			// A name in no list has the list looked at, for once in the option refresh.
			ask(c, "7", hushed+"-8", form)
			ask(admin, "7", banned+"-8", form)
			v.wantSame(what, func(name string) *fixture.Answer { return ask(c, "7", name, form) }, hushed+"-2", hushed+"-9")
			v.wantSame(what, func(name string) *fixture.Answer { return ask(admin, "7", name, form) }, banned+"-4", banned+"-9")
		}
		if n.method == "subscriptions/listen" {
			continue // it would not end
		}
		a, b := ask(c, c.NextID(), "open-1", ""), ask(admin, admin.NextID(), hushed+"-2", "")
		if v.known(n.method, revision) && (a.Part("result") == nil || b.Part("result") == nil) {
			v.t.Errorf("%s of an item that the rules show gave a caller %s, and an admin %s", n.method, a, b)
		}
	}
}

// known reports whether servers have a method at a revision.
func (v *veil) known(method, revision string) bool {
	return !slices.Contains(v.lacks, method) && (revision < scripted.Modern || !strings.HasSuffix(method, "subscribe"))
}

// callCold asks for what is hidden and for what is not there before the server has let
// the caller in: whether the server is asked is the same, too.
func (v *veil) callCold(revision string) {
	v.t.Helper()
	for i, n := range calls {
		v.wantSame(n.method+", cold", func(name string) *fixture.Answer {
			c := v.callerAs(revision, fmt.Sprintf("Bearer %s %d %s", v.t.Name(), i, name[len(name)-1:]), false)
			v.host.Forget()
			item := fmt.Sprintf(n.item, name)
			return c.send(n.method+", cold", http.MethodPost, fixture.Message("7", n.method, c.Params(fmt.Sprintf(n.params, item))), nil, item)
		}, hushed+"-2", hushed+"-9")
	}
}

// wantSame fails if what is hidden is answered otherwise than what is missing, or has
// the server asked for other things.
func (v *veil) wantSame(what string, ask func(name string) *fixture.Answer, hidden, missing string) {
	v.t.Helper()
	v.wantUntold()
	v.host.Forget()
	one := v.refusal(ask(hidden))
	of := v.requested()
	other := v.refusal(ask(missing))
	if strings.ReplaceAll(one, hidden, missing) != other {
		v.t.Errorf("%s: what is hidden is refused by\n%.500s\nwhat is missing by\n%.500s", what, one, other)
	}
	if then := v.requested(); !slices.Equal(of, then) {
		v.t.Errorf("%s: for what is hidden the server was asked %q, for what is missing %q", what, of, then)
	}
}

// requested returns what clients have had the server asked for since the last time.
func (v *veil) requested() (all []string) {
	for _, r := range v.host.Requests(ofClients) {
		all = append(all, r.HTTPMethod+" "+r.Method)
	}
	v.wantUntold()
	v.host.Forget()
	return all
}

// refusal returns all of an answer but its Date.
func (v *veil) refusal(a *fixture.Answer) string {
	v.t.Helper()
	if a.Header.Get("Cache-Status") != "mcp_cache; detail=denied" {
		v.t.Errorf("what is hidden gave %s", a)
	}
	return undated(v.t, a)
}

// undated returns all of an answer but its Date.
func undated(t testing.TB, a *fixture.Answer) string {
	t.Helper()
	header := a.Header.Clone()
	header.Del("Date")
	var text strings.Builder
	fmt.Fprintln(&text, a.Status)
	if err := header.Write(&text); err != nil {
		t.Fatal(err)
	}
	text.Write(fixture.Decoded(t, a).Body)
	return text.String()
}
