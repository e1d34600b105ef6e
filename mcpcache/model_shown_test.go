package mcpcache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// These checks are the promises of rules.

// anyName is the name of an item, in whatever form.
var anyName = regexp.MustCompile(`\b(tools|prompts|resources|resource_templates)-(\d+)`)

// checkHidden makes sure that no byte of an answer tells of an item that is hidden,
// however the answer came about. A refusal repeats what the client has named.
func (w *world) checkHidden(x *call) {
	for _, found := range anyName.FindAllSubmatch(x.body.Bytes(), -1) {
		k, ok := revision.ParseKind(string(found[1]))
		i, err := strconv.Atoi(string(found[2]))
		if !ok || err != nil {
			panic(string(found[0]))
		}
		ours := originOf(strings.Join(x.wrote["Cache-Status"], ", ")) == refusedByRules
		if ours && slices.ContainsFunc(x.names, func(n mention) bool { return strings.Contains(n.name, string(found[0])) }) {
			continue
		}
		if !x.rules.shows(k, modelName(k, i)) {
			w.fail("%s: %s is hidden by %v and was shown", x, found[0], x.rules)
			return
		}
	}
}

// refusals are what those are told who name what there is not.
var refusals = map[revision.Kind]string{
	revision.Tools: "Unknown tool: ", revision.Prompts: "Unknown prompt: ",
	revision.Resources: "Resource not found", revision.ResourceTemplates: "Resource not found",
}

// refusal is the error with which a request has to be refused that names n, whether
// there is such an item or not.
func (x *call) refusal(n mention) map[string]any {
	text, code := refusals[n.kind], -32602.0
	refusal := map[string]any{"message": text + n.name}
	if n.kind == revision.Resources || n.kind == revision.ResourceTemplates {
		refusal["message"], refusal["data"] = text, map[string]any{"uri": n.name}
		if !x.c.modern() {
			code = -32002.0
		}
	}
	refusal["code"] = code
	return refusal
}

// checkRefused judges a refusal of the product's own.
func (w *world) checkRefused(x *call, s *sent) error {
	switch {
	case x.verdict() == pass:
		return fmt.Errorf("it was refused, and may be asked for with %v", x.rules)
	case s != nil && !s.probe:
		return fmt.Errorf("the upstream has answered, and it was refused")
	case s != nil && !s.err && (s.status == http.StatusUnauthorized || s.status == http.StatusForbidden): // the whole answer has come
		return fmt.Errorf("it was refused in front of the upstream's %d", s.status)
	case s == nil:
		if err := w.checkRefusedDoor(x); err != nil {
			return fmt.Errorf("it was refused, and %w", err)
		}
	}
	ids, batch := x.ids(), x.batch != nil
	if ids == nil {
		ids, batch = []string{"null"}, false
	}
	answers, err := answersIn(x.body.Bytes(), batch)
	if err != nil {
		return fmt.Errorf("reading the refusal %q: %w", x.body.Bytes(), err)
	}
	if len(answers) != len(ids) {
		return fmt.Errorf("%d messages want an answer, and the refusal is %q", len(ids), x.body.Bytes())
	}
	for i, answer := range answers {
		if id, _ := json.Marshal(answer["id"]); string(id) != ids[i] {
			return fmt.Errorf("id %s became %s", ids[i], id)
		}
		if refusal := answers[0]["error"]; !x.mayBe(refusal, s) || !reflect.DeepEqual(answer["error"], refusal) {
			return fmt.Errorf("it was refused with %q", x.body.Bytes())
		}
	}
	return x.checkRefusedHeader(answers[0]["error"].(map[string]any)["code"])
}

func answersIn(body []byte, batch bool) (answers []map[string]any, err error) {
	if batch {
		err = json.Unmarshal(body, &answers)
		return answers, err
	}
	answers = make([]map[string]any, 1)
	return answers, json.Unmarshal(body, &answers[0])
}

// ids are those of the messages of the request that want an answer, as far as anybody
// knows.
func (x *call) ids() (ids []string) {
	if x.isTooLong() {
		return nil
	}
	if x.batch == nil && !x.notify {
		return []string{x.id()}
	}
	for i, one := range x.batch {
		if !one.notify {
			ids = append(ids, x.idOf(i))
		}
	}
	return ids
}

// mayBe reports whether an error is the one with which the request has to be refused,
// for one of the items that it names. Where it depends on lists what may be named, the upstream may have
// none to give.
func (x *call) mayBe(refusal any, s *sent) bool {
	said, _ := refusal.(map[string]any)
	switch {
	case said["code"] == -32603.0:
		named := slices.ContainsFunc(x.names, func(n mention) bool { return x.rules.byList(n.kind) })
		return named && s != nil && s.probe
	case x.isTooLong():
		return said["code"] == -32600.0
	case x.isUnknown():
		return said["code"] == -32601.0
	case x.lie != "":
		return said["code"] == -32020.0
	}
	return slices.ContainsFunc(x.names, func(n mention) bool {
		return x.rules.judge(n) != pass && reflect.DeepEqual(refusal, any(x.refusal(n)))
	})
}

// checkRefusedHeader makes sure that nothing else tells one refusal from another.
func (x *call) checkRefusedHeader(code any) error {
	status := http.StatusOK
	switch {
	case code == -32603.0:
		status = http.StatusBadGateway
	case code == -32600.0:
		status = http.StatusRequestEntityTooLarge
	case code == -32601.0 && x.c.modern():
		status = http.StatusNotFound
	case code == -32020.0, code == -32602.0 && x.c.modern(), x.ids() == nil:
		status = http.StatusBadRequest
	}
	if x.status != status {
		return fmt.Errorf("it was refused with status %d, not %d", x.status, status)
	}
	if header := (http.Header{"Content-Type": {"application/json"}, "Cache-Status": x.wrote["Cache-Status"]}); !reflect.DeepEqual(x.wrote, header) {
		return fmt.Errorf("it was refused with the header %v", x.wrote)
	}
	return nil
}

// kinds are those of what the request names; tools, if nothing that is known.
func (x *call) kinds() []revision.Kind {
	var kinds []revision.Kind
	for _, n := range x.names {
		kinds = append(kinds, n.kind)
	}
	if kinds == nil || x.isTooLong() {
		return []revision.Kind{revision.Tools}
	}
	return kinds
}

// checkRefusedDoor is promise 4 for a refusal without a question to the upstream: it
// has to have let the caller in.
func (w *world) checkRefusedDoor(x *call) error {
	for _, k := range x.kinds() {
		asked := &call{request: request{kind: k}, w: w, at: x.at, c: x.c, ctx: x.ctx, session: x.session, before: x.before}
		asked.before.refusedKind = x.refused[k]
		if err := w.checkDoor(asked, fromCache, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// checkFiltered makes sure that the upstream's answer came through as it was, but for
// what is hidden.
func (x *call) checkFiltered(s *sent) error {
	if strings.HasPrefix(x.wrote.Get("Content-Type"), "text/event-stream") {
		return x.checkFilteredStream(s)
	}
	became := fmt.Errorf("%d %q became %d %q", s.status, s.body, x.status, x.body.Bytes())
	want, changed, err := x.rules.left(s.body)
	got, _, _ := modelRules(nil).left(x.body.Bytes())
	switch {
	case err != nil && x.status == http.StatusBadGateway: // it cannot be read
		if !bytes.Contains(x.body.Bytes(), []byte(`"code":-32603`)) {
			return became
		}
	case x.status != s.status, !changed && !bytes.Equal(x.body.Bytes(), s.body), changed && !reflect.DeepEqual(got, want):
		return became
	}
	return nil
}

// checkFilteredStream is checkFiltered, event by event.
func (x *call) checkFilteredStream(s *sent) error {
	sent, got := bytes.SplitAfter(s.body, []byte("\n\n")), bytes.SplitAfter(x.body.Bytes(), []byte("\n\n"))
	sent = slices.DeleteFunc(sent[:len(sent)-1], x.keptFrom)
	if len(got)-1 != len(sent) {
		return fmt.Errorf("there are %d events, and not %d", len(got)-1, len(sent))
	}
	for i, event := range sent {
		want, changed, err := x.rules.left(dataOf(event))
		have, _, _ := modelRules(nil).left(dataOf(got[i]))
		if (err != nil || !changed) && !bytes.Equal(got[i], event) || changed && !reflect.DeepEqual(have, want) {
			return fmt.Errorf("the event %q became %q", event, got[i])
		}
	}
	return nil
}

// keptFrom reports whether an event tells of a change of a resource that is hidden.
func (x *call) keptFrom(event []byte) bool {
	var n struct {
		Method string
		Params struct{ URI string }
	}
	return json.Unmarshal(dataOf(event), &n) == nil && n.Method == "notifications/resources/updated" &&
		!x.rules.shows(revision.Resources, n.Params.URI)
}

// dataOf returns the data of an event, which is one line.
func dataOf(event []byte) []byte {
	for line := range bytes.SplitSeq(event, []byte("\n")) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			return data
		}
	}
	return nil
}

// left returns what is left of a message, or a batch, without what is hidden: all else
// is there as it was written.
func (m modelRules) left(message []byte) (left any, changed bool, err error) {
	var batch []json.RawMessage
	if json.Unmarshal(message, &batch) == nil {
		all := make([]any, len(batch))
		for i, one := range batch {
			of, taken, err := m.left(one)
			if err != nil {
				return nil, false, err
			}
			all[i], changed = of, changed || taken
		}
		return all, changed, nil
	}
	var members, result map[string]json.RawMessage
	if err := json.Unmarshal(message, &members); err != nil {
		return nil, false, err
	}
	if json.Unmarshal(members["result"], &result) != nil {
		return members, false, nil
	}
	lists := make(map[revision.Kind][]json.RawMessage)
	for _, k := range modelKinds[:4] {
		var items []json.RawMessage
		if json.Unmarshal(result[k.ItemsKey()], &items) != nil {
			continue
		}
		of := len(items)
		lists[k] = slices.DeleteFunc(items, func(raw json.RawMessage) bool { return !m.shows(k, nameIn(k, raw)) })
		changed = changed || len(lists[k]) < of
		delete(result, k.ItemsKey())
	}
	delete(members, "result")
	return []any{members, result, lists}, changed, nil
}

// nameIn returns the name of an item, as written.
func nameIn(k revision.Kind, raw json.RawMessage) string {
	var item map[string]any
	if json.Unmarshal(raw, &item) != nil {
		return ""
	}
	name, _ := item[k.IDKey()].(string)
	return name
}

// checkShown makes sure that an answer from the cache has all that is shown, and nothing
// that is not.
func (x *call) checkShown(r *result, first, end int) error {
	var want []int
	for i := first; i < end; i++ {
		if x.kind.ItemsKey() != "" && x.rules.shows(x.kind, modelName(x.kind, i)) {
			want = append(want, i)
		}
	}
	if !slices.Equal(r.numbers, want) {
		return fmt.Errorf("the list has items %v, and not %v, with %v", r.numbers, want, x.rules)
	}
	return nil
}
