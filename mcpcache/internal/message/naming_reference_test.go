package message

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// refValue is a JSON value, read token by token.
type refValue struct {
	kind     jsontext.Kind
	text     string // of a string, unescaped, or of a number
	raw      string // as written
	names    []string
	elements []*refValue // of an object, in the order of names, or of an array
}

// refTree reads one JSON text and nothing behind it.
func refTree(text []byte) (*refValue, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	v, err := refNext(d, text)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	return v, nil
}

func refNext(d *jsontext.Decoder, text []byte) (*refValue, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	v := &refValue{kind: token.Kind()}
	if v.kind == jsontext.KindString || v.kind == jsontext.KindNumber {
		v.text = token.String()
		// A token's own bytes end where the decoder stands.
		end := int(d.InputOffset())
		v.raw = refBefore(text[:end], v.kind)
	}
	for (v.kind == jsontext.KindBeginObject || v.kind == jsontext.KindBeginArray) &&
		d.PeekKind() != jsontext.KindEndObject && d.PeekKind() != jsontext.KindEndArray {
		if v.kind == jsontext.KindBeginObject {
			name, err := refNext(d, text)
			if err != nil {
				return nil, err
			}
			v.names = append(v.names, name.text)
		}
		element, err := refNext(d, text)
		if err != nil {
			return nil, err
		}
		v.elements = append(v.elements, element)
	}
	if v.kind == jsontext.KindBeginObject || v.kind == jsontext.KindBeginArray {
		_, err = d.ReadToken()
	}
	return v, err
}

// refBefore returns the string or number that a text ends with, as written.
func refBefore(text []byte, kind jsontext.Kind) string {
	if kind == jsontext.KindNumber {
		return string(text[bytes.LastIndexAny(text, " \t\r\n:,[")+1:])
	}
	for from := bytes.LastIndexByte(text[:len(text)-1], '"'); ; from = bytes.LastIndexByte(text[:from], '"') {
		if escapes := len(text[:from]) - len(bytes.TrimRight(text[:from], `\`)); escapes%2 == 0 {
			return string(text[from:])
		}
	}
}

// certain returns an object's members by their names. It reports false if parsers may
// see others: one is there twice, or is a known one but for its case and for what is behind a
// NUL.
func (v *refValue) certain(known ...string) (members map[string]*refValue, ok bool) {
	if v.kind != jsontext.KindBeginObject || len(v.names) > maxMembers {
		return nil, false
	}
	members = make(map[string]*refValue)
	for i, name := range v.names {
		for _, k := range known {
			if name != k && strings.EqualFold(BeforeNUL(name), k) {
				return nil, false
			}
		}
		if members[name] != nil {
			return nil, false
		}
		members[name] = v.elements[i]
	}
	return members, true
}

func (v *refValue) isString() bool { return v != nil && v.kind == jsontext.KindString }

// refNaming is what [ParseNaming] has to find.
func refNaming(body []byte) (found []Naming, certain bool) {
	tree, err := refTree(body)
	if err != nil {
		return nil, false
	}
	messages := []*refValue{tree}
	if tree.kind == jsontext.KindBeginArray {
		messages = tree.elements
	}
	for _, m := range messages {
		n, ok := refMessage(m)
		if !ok {
			return nil, false
		}
		found = append(found, n)
	}
	return found, true
}

func refMessage(message *refValue) (n Naming, certain bool) {
	top, ok := message.certain("jsonrpc", "id", "method", "params", "result", "error")
	if !ok {
		return n, false
	}
	if id := top["id"]; id != nil {
		integer := id.kind == jsontext.KindNumber && !strings.ContainsAny(id.raw, ".eE")
		if len(id.raw) > MaxID || !integer && !id.isString() {
			return n, false
		}
		n.ID = []byte(id.raw)
	}
	if top["method"] == nil {
		return n, true
	}
	if !top["method"].isString() {
		return n, false
	}
	n.Method = top["method"].text
	members := make(map[string]*refValue)
	if params := top["params"]; params != nil {
		if members, ok = refNamed(params); !ok {
			return n, false
		}
	}
	if task := members["taskId"]; task.isString() && strings.HasPrefix(n.Method, "tasks/") {
		n.Task = task.text
	}
	n.Items, ok = refItems(n.Method, members)
	return n, ok
}

// refNamed returns the members of an object in which an item may be named.
func refNamed(v *refValue) (map[string]*refValue, bool) {
	return v.certain("name", "uri", "ref", "notifications", "type", "resourceSubscriptions", "taskId")
}

// refUnseen is what servers may drop from the name of a method.
var refUnseen = regexp.MustCompile(`[\s\v\x{85}\p{Z}\p{C}\p{Cn}]`)

func refItems(method string, params map[string]*refValue) ([]Named, bool) {
	one := func(k revision.Kind, v *refValue) ([]Named, bool) {
		if !v.isString() || strings.Contains(v.text, "\x00") {
			return nil, false
		}
		return []Named{{k, v.text}}, true
	}
	switch method {
	case "tools/call":
		return one(revision.Tools, params["name"])
	case "prompts/get":
		return one(revision.Prompts, params["name"])
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return one(revision.Resources, params["uri"])
	case "completion/complete":
		if params["ref"] == nil {
			return nil, false
		}
		ref, ok := refNamed(params["ref"])
		switch {
		case !ok || !ref["type"].isString() || ref["name"] != nil && ref["uri"] != nil:
			return nil, false
		case ref["type"].text == "ref/prompt":
			return one(revision.Prompts, ref["name"])
		case ref["type"].text == "ref/resource":
			return one(revision.ResourceTemplates, ref["uri"])
		}
		return nil, false
	case "subscriptions/listen":
		return refSubscribed(params["notifications"])
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return nil, true
	}
	below, _, slash := strings.Cut(refUnseen.ReplaceAllString(method, ""), "/")
	for _, word := range [...]string{"tools", "prompts", "resources", "completion", "subscriptions"} {
		if slash && strings.EqualFold(below, word) {
			return nil, false
		}
	}
	return nil, true
}

func refSubscribed(notifications *refValue) (items []Named, ok bool) {
	if notifications == nil {
		return nil, true
	}
	members, ok := refNamed(notifications)
	if !ok || members["resourceSubscriptions"] == nil {
		return nil, ok
	}
	if members["resourceSubscriptions"].kind != jsontext.KindBeginArray {
		return nil, false
	}
	for _, uri := range members["resourceSubscriptions"].elements {
		if !uri.isString() || strings.Contains(uri.text, "\x00") {
			return nil, false
		}
		items = append(items, Named{revision.Resources, uri.text})
	}
	return items, true
}
