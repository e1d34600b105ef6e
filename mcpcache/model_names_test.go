package mcpcache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// mention is an item that a request names.
type mention struct {
	kind revision.Kind
	name string
}

// namesIn returns what a message names.
func namesIn(method, name, uri, refType, refName, refURI string, subscriptions []string) []mention {
	switch method {
	case "tools/call":
		return []mention{{revision.Tools, name}}
	case "prompts/get":
		return []mention{{revision.Prompts, name}}
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return []mention{{revision.Resources, uri}}
	case "completion/complete":
		if refType == "ref/prompt" {
			return []mention{{revision.Prompts, refName}}
		}
		return []mention{{revision.ResourceTemplates, refURI}}
	}
	var names []mention
	for _, uri := range subscriptions {
		names = append(names, mention{revision.Resources, uri})
	}
	return names
}

// namesOf returns what a request names.
func namesOf(r request) (names []mention) {
	for _, one := range append([]request{r}, r.batch...) {
		raw, err := json.Marshal(map[string]any{"method": one.method, "params": one.params})
		if err != nil {
			panic(err)
		}
		var a arrival
		if err := a.read(raw); err != nil {
			panic(err)
		}
		names = append(names, a.names...)
	}
	return names
}

// verdict is what is to become of a request by the rules.
type verdict int

const (
	pass   verdict = iota // it has to reach the upstream, or its copy
	refuse                // it must not reach the upstream
	// depends: rules speak of hints, or of what is listed, and it is not known what is in the
	// list that the caller is taken to have.
	depends
)

// judge says what is to become of a request that names something.
func (m modelRules) judge(names ...mention) verdict {
	worst := pass
	for _, n := range names {
		_, tool := hintsOfTool(n.name)
		switch {
		case !m.shows(n.kind, n.name), m.byHints(n.kind) && !tool:
			return refuse
		case m.byList(n.kind):
			worst = depends
		}
	}
	return worst
}

// hiddenMethod is a method of which nobody knows what it names.
const hiddenMethod = "tools/run"

// isUnknown reports whether nobody knows what the request names, or one of a batch.
func (x *call) isUnknown() bool {
	return x.method == hiddenMethod || slices.ContainsFunc(x.batch, func(one request) bool { return one.method == hiddenMethod })
}

// isTooLong reports whether nobody finds out what the request names.
func (x *call) isTooLong() bool { return x.long >= modelMaxCall }

// verdict is what is to become of the request by the rules.
func (x *call) verdict() verdict {
	if x.rules.restrictsAny() && (x.isUnknown() || x.lie != "" || x.isTooLong()) {
		return refuse
	}
	v := x.rules.judge(x.names...)
	if v == depends && x.listed {
		return pass
	}
	return v
}

// answerBatch answers a batch, each message as if it were alone.
func (u *modelUpstream) answerBatch(a *arrival, reply *reply) {
	var answers []string
	for _, one := range a.batch {
		alone := *reply
		alone.a, alone.before = one, nil
		if u.answer(one, &alone); alone.body != nil {
			answers = append(answers, string(alone.body))
		}
	}
	if answers == nil {
		reply.status = http.StatusAccepted
		return
	}
	reply.events = u.prefersEvents(a)
	reply.body = []byte("[" + strings.Join(answers, ",") + "]")
}

// perform answers a request that names something, or what nobody knows.
func (u *modelUpstream) perform(a *arrival, reply *reply) bool {
	switch a.method {
	case "prompts/get":
		reply.result([]byte(`{"messages":[]}`))
	case "completion/complete":
		reply.result([]byte(`{"completion":{"values":[]}}`))
	case "resources/subscribe", "resources/unsubscribe", hiddenMethod:
		reply.result([]byte(`{}`))
	default:
		return false
	}
	return true
}

// prefersEvents reports whether the upstream gives the answer with a list to a client as
// an event stream.
func (u *modelUpstream) prefersEvents(a *arrival) bool {
	return u.w.cfg.ruled && !a.feed() && u.w.draw(3, "events", a.serial) == 0
}

// arrives makes sure that nothing reaches the upstream that is hidden from whoever
// asked for it, and finds out whether that is what the client has sent.
func (w *world) arrives(a *arrival) {
	x := w.asking[a.serial]
	if x == nil {
		return
	}
	if a.probe = a.http == http.MethodPost && (x.http != a.http || x.method != a.method); a.probe {
		w.note("%s: the upstream is asked %s in its place", x, a.method)
		return
	}
	if x.verdict() == refuse {
		w.fail("%s: what is hidden by %v has reached the upstream", x, x.rules)
	}
	if !bytes.Equal(a.body, x.sent) {
		w.fail("%s: %q was sent, and %q has arrived", x, x.sent, a.body)
	}
}

// modelURIs are the spellings of URIs.
var modelURIs = []string{
	"file:///resources-%d", "file:///resources-%d", "file:////resources-%d", "FILE:///resources-%d", "file:///x/../resources-%d", "file:///%%72esources-%d",
}

// naming draws a request that names something.
func (w *world) naming(r *rand.Rand, c *client) request {
	n := r.IntN(6)
	q := request{http: http.MethodPost, params: map[string]any{}, elsewhere: r.IntN(6) == 0, notify: r.IntN(12) == 0}
	uri := fmt.Sprintf(pick(r, modelURIs...), n)
	switch pick(r, "call", "call", "prompt", "read", "subscribe", "complete", "complete", "listen", "other") {
	case "call":
		q.method, q.params["name"] = "tools/call", modelName(revision.Tools, n)
	case "prompt":
		q.method, q.params["name"] = "prompts/get", modelName(revision.Prompts, n)
	case "read": // no copy is kept of it, which would not be of the same age as that of the one that is read else
		q.method, q.kind, q.list, q.unknown, q.params["uri"] = "resources/read", revision.Reads, true, true, uri
		q.notify = false
	case "subscribe":
		q.method, q.params["uri"] = pick(r, "resources/subscribe", "resources/unsubscribe"), uri
	case "complete":
		q.method, q.params["argument"] = "completion/complete", map[string]any{"name": "a", "value": "b"}
		q.params["ref"] = map[string]any{"type": "ref/prompt", "name": modelName(revision.Prompts, n)}
		if r.IntN(2) == 0 {
			q.params["ref"] = map[string]any{"type": "ref/resource", "uri": modelName(revision.ResourceTemplates, n)}
		}
	case "listen":
		if !c.modern() {
			return w.naming(r, c)
		}
		q.method, q.stream, q.notify = "subscriptions/listen", true, false
		q.params["notifications"] = map[string]any{"resourceSubscriptions": []string{"file:///r", uri}}
	case "other":
		q.method = hiddenMethod
	}
	return q
}

// batch draws messages that name something, and others.
func (w *world) batch(r *rand.Rand, c *client) (messages []request) {
	for range 1 + r.IntN(3) {
		one := w.naming(r, c)
		if r.IntN(3) == 0 {
			one = request{method: anyKind(r).Method(), params: map[string]any{"uri": "file:///r"}}
		}
		messages = append(messages, one)
	}
	return messages
}

// lie draws a name for the header of a request that names something else.
func lie(r *rand.Rand, names []mention) (another string) {
	for len(names) > 0 && (another == "" || slices.ContainsFunc(names, func(n mention) bool { return n.name == another })) {
		another = modelName(names[0].kind, r.IntN(6))
	}
	return another
}

// stepName has a client send what names something, or several of those at once.
func (w *world) stepName(r *rand.Rand) {
	c := w.anyone(r)
	q := w.naming(r, c)
	switch {
	case !c.modern() && r.IntN(4) == 0:
		q = request{http: http.MethodPost, elsewhere: q.elsewhere, batch: w.batch(r, c)}
	case r.IntN(8) == 0:
		q.lie = lie(r, namesOf(q))
	case r.IntN(8) == 0:
		q.long = pick(r, modelMaxRequest, modelMaxCall) + r.IntN(2)
	}
	if r.IntN(12) == 0 {
		q.hop = "Authorization"
	}
	w.send(c, q)
}

// stepShown has a client list tools until it is given a copy, call one that it is shown,
// and list them again after a change.
func (w *world) stepShown(r *rand.Rand) {
	c := w.anyone(r)
	list := func() (x *call) {
		for range 2 {
			x = w.send(c, request{
				http: http.MethodPost, method: revision.Tools.Method(), kind: revision.Tools, list: true, params: map[string]any{},
			})
			w.settle()
		}
		return x
	}
	x := list()
	w.mu.Lock()
	n, listed := x.shownStill(r)
	w.mu.Unlock()
	if listed {
		name := map[string]any{"name": modelName(revision.Tools, n)}
		w.send(c, request{http: http.MethodPost, method: "tools/call", params: name, listed: true})
		w.settle()
	}
	if r.IntN(2) == 0 {
		w.change(r, revision.Tools)
		w.settle()
		list()
	}
}

// shownStill returns the number of a tool that is in the answer, which came from the
// cache, and that the upstream has not taken from the list since. It works, as it may be
// asked for the list.
func (x *call) shownStill(r *rand.Rand) (n int, ok bool) {
	if len(x.shown) == 0 || x.w.troubled() || len(x.w.up.denied) > 0 || x.w.up.sessions[x.session] == nil && x.session != "" {
		return 0, false
	}
	now := x.w.up.counts[view{revision.Tools, x.ctx}]
	if s := x.w.up.sessions[x.session]; s != nil {
		now += s.extra[revision.Tools]
	}
	n = pick(r, x.shown...)
	return n, n < now
}

// stepResume has a client of a session ask for the rest of a stream: that of an
// answer which has a list.
func (w *world) stepResume(r *rand.Rand) {
	c := w.anyoneWho(r, func(c *client) bool { return !c.modern() })
	if c != nil {
		k := pick(r, modelKinds[:4]...)
		w.send(c, request{http: http.MethodGet, stream: true, resumes: k.Method(), elsewhere: r.IntN(8) == 0})
	}
}

// replay is the answer with a list that a stream has to repeat to who resumes it.
func (u *modelUpstream) replay(a *arrival) []byte {
	k, ok := revision.KindOf(a.resumed)
	if !ok {
		return nil
	}
	list := *a
	list.kind, list.list = k, true
	p, ok := u.list(&list)
	if !ok {
		return nil
	}
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":"replayed","result":%s}`, p.result)
	if u.w.draw(3, "batch", a.serial) == 0 {
		message = "[" + message + "]"
	}
	return fmt.Appendf(nil, "id: 7\ndata: %s\n\n", message)
}
