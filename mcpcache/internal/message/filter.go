package message

import (
	"bytes"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-mcp/mcp-cache/mcpcache/internal/revision"
)

// Filter says what of the lists in messages a caller is shown.
type Filter struct {
	// Keep reports whether an item is shown, as written.
	Keep func(k revision.Kind, item []byte) bool
	// Tells reports whether the caller may be told that the resource of a URI has
	// changed; nil: of any.
	Tells func(uri string) bool
	// Private reports whether results of that kind are not to be shared: their cacheScope
	// becomes "private". nil: of none.
	Private func(k revision.Kind) bool
	// AddScope has such results say so also where they say nothing.
	AddScope bool
}

// The members of results that hold the items of lists, or what was read, and the kinds of
// those.
var (
	resultKeys  = keys("tools", "prompts", "resources", "resourceTemplates", "contents")
	resultKinds = [...]revision.Kind{revision.Tools, revision.Prompts, revision.Resources, revision.ResourceTemplates, revision.Reads}
)

// updated is the method of the notice that a resource has changed.
const updated = "notifications/resources/updated"

// Apply returns a message of a server, or a batch, with the items that are shown
// alone, each byte for byte. Whatever result has lists is filtered, whatever was
// asked for: answers may be repeated on other streams. What is not changed is the same
// slice; nil is returned of a notice that the caller is not to have. It is an error if
// parsers may read the message differently. With [ErrNoMessage] what is left comes all
// the same.
func (f Filter) Apply(data []byte) ([]byte, error) { return Each(data, f.message) }

// Each returns what change leaves of a message, or of each message of a batch. Nil is what
// is left of one that is left out. What is not changed is the same slice. With
// [ErrNoMessage] what is left comes all the same.
func Each(data []byte, change func(message []byte) ([]byte, error)) ([]byte, error) {
	if !IsBatch(data) {
		return change(data)
	}
	var out []byte
	var odd error
	changed := false
	err := eachElement(data, func(value []byte) error {
		left, err := change(value)
		if errors.Is(err, ErrNoMessage) {
			odd, err = err, nil
		}
		changed = changed || !same(left, value)
		if left != nil {
			out = append(appendComma(out, '['), left...)
		}
		return err
	})
	switch {
	case err != nil:
		return data, err
	case !changed:
		return data, odd
	case out == nil:
		return nil, odd
	}
	return append(out, ']'), odd
}

// IsBatch reports whether a text begins as an array does: of JSON-RPC messages, a batch.
func IsBatch(data []byte) bool {
	s := scan(data)
	defer s.release()
	return s.kind() == jsontext.KindBeginArray
}

func (f Filter) message(data []byte) ([]byte, error) {
	var params []byte
	update, known := false, false
	left, err := rewrite(data, topKeys, func(key int, value []byte) ([]byte, error) {
		known = known || key == topResult || key == topMethod || key == topError
		switch {
		case key == topMethod:
			update = isString(value) && BeforeNUL(string(unquote(value))) == updated
		case key == topParams:
			params = value
		case key == topResult && isObject(value):
			return f.result(value)
		}
		return value, nil
	})
	switch {
	case err != nil:
		return data, err
	case !known:
		return data, ErrNoMessage
	case !update || f.Tells == nil:
		return left, nil
	}
	uri, ok, err := uriIn(params)
	if err == nil && (!ok || !f.Tells(uri)) {
		return nil, nil
	}
	return left, err
}

// uriIn returns the URI in params, if there is one. It is an error if parsers may read
// them differently.
func uriIn(params []byte) (uri string, ok bool, err error) {
	if params == nil {
		return "", false, nil
	}
	var said [numNaming][]byte
	if err := membersOf(params, &said); err != nil {
		return "", false, err
	}
	raw := said[namingURI]
	if raw == nil || !isString(raw) {
		return "", false, nil
	}
	return string(unquote(raw)), true, nil
}

// result returns what is left of a result.
func (f Filter) result(object []byte) ([]byte, error) {
	shared := true
	left, err := rewrite(object, resultKeys, func(key int, value []byte) ([]byte, error) {
		shared = shared && (key == unknown || f.Private == nil || !f.Private(resultKinds[key]))
		return f.member(key, value)
	})
	if err != nil || shared {
		return left, err
	}
	_, body, err := Private(nil, slices.Concat(left[len("{"):], []byte("}")), f.AddScope)
	if err != nil {
		return left, err
	}
	return slices.Concat([]byte("{"), body[:len(body)-len("}")]), nil
}

// member returns what is left of a member of a result: of a list the items that are
// shown. What is no item is not.
func (f Filter) member(key int, value []byte) ([]byte, error) {
	if key == unknown || resultKinds[key] == revision.Reads {
		return value, nil
	}
	k := resultKinds[key]
	if !bytes.HasPrefix(value, []byte("[")) {
		return value, invalid(k.ItemsKey() + " is not an array")
	}
	id := keys(k.IDKey())
	var out []byte
	changed := false
	err := eachElement(value, func(item []byte) error {
		if _, err := nameOffset(item, id); err != nil || !f.Keep(k, item) {
			changed = true
			return nil
		}
		out = append(appendComma(out, '['), item...)
		return nil
	})
	switch {
	case err != nil || !changed:
		return value, err
	case out == nil:
		return []byte("[]"), nil
	}
	return append(out, ']'), nil
}

// rewrite returns an object with what change makes of its values, nil being a member that is
// left out, and the object itself if nothing is changed.
func rewrite(object []byte, known keyset, change func(key int, value []byte) ([]byte, error)) ([]byte, error) {
	var members []member
	changed := false
	err := eachMember(object, known, func(key int, name, value []byte) error {
		written, err := change(key, value)
		changed = changed || !same(written, value)
		members = append(members, member{key, name, written})
		return err
	})
	if err != nil || !changed {
		return object, err
	}
	out := make([]byte, 0, len(object))
	for _, m := range members {
		if m.value != nil {
			out = append(append(append(appendComma(out, '{'), m.name...), ':'), m.value...)
		}
	}
	if len(out) == 0 {
		out = append(out, '{')
	}
	return append(out, '}'), nil
}

// same reports whether two slices are the same bytes in the same place.
func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// appendComma begins an object or array, or goes on in it.
func appendComma(dst []byte, open byte) []byte {
	if len(dst) == 0 {
		return append(dst, open)
	}
	return append(dst, ',')
}
