package message

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// refMember is a member of an object as encoding/json sees it.
type refMember struct {
	name string
	raw  string
}

// refMembers returns all members of an object, repeated ones too.
func refMembers(t *testing.T, object []byte) []refMember {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(object))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		t.Fatalf("accepted what is not an object: %q", object)
	}
	var members []refMember
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			t.Fatalf("accepted %q: %v", object, err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			t.Fatalf("accepted %q: %v", object, err)
		}
		members = append(members, refMember{tok.(string), string(raw)})
	}
	if _, err := dec.Token(); err != nil {
		t.Fatalf("accepted %q: %v", object, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Fatalf("accepted trailing data: %q", object)
	}
	return members
}

// refObject returns the known members of an object and whether it has others.
// It fails the test unless every parser sees the same ones: one that takes the
// first, one that takes the last, one that ignores case, and one to which a NUL ends
// a name.
func refObject(t *testing.T, object []byte, known ...string) (view map[string]string, extra bool) {
	t.Helper()
	var last map[string]json.RawMessage
	if err := json.Unmarshal(object, &last); err != nil {
		t.Fatalf("accepted %q: %v", object, err)
	}
	view = map[string]string{}
	for _, m := range refMembers(t, object) {
		isKnown := false
		for _, key := range known {
			if !strings.EqualFold(BeforeNUL(m.name), key) {
				continue
			}
			isKnown = true
			if _, twice := view[key]; twice || m.name != key {
				t.Fatalf("accepted two readings of %q: %q", key, object)
			}
			if m.raw != string(last[key]) {
				t.Fatalf("accepted %q first and %q last", m.raw, last[key])
			}
			view[key] = m.raw
		}
		extra = extra || !isKnown
	}
	return view, extra
}

// refString returns the text of a raw JSON string.
func refString(t *testing.T, raw string) string {
	t.Helper()
	var text *string
	if err := json.Unmarshal([]byte(raw), &text); err != nil || text == nil {
		t.Fatalf("accepted %q as a string", raw)
	}
	return *text
}

// refUnsafe reports whether a raw value is an integer beyond ±(2^53-1). It fails
// the test if the value is neither an integer nor a string.
func refUnsafe(t *testing.T, raw string) bool {
	t.Helper()
	if raw[0] == '"' {
		refString(t, raw)
		return false
	}
	n, ok := new(big.Int).SetString(raw, 10)
	if !ok {
		t.Fatalf("accepted %q as an integer", raw)
	}
	return n.CmpAbs(big.NewInt(1<<53-1)) > 0
}

// refClientInfo fails the test unless a strict parser takes an Implementation.
func refClientInfo(t *testing.T, raw []byte) {
	t.Helper()
	info, _ := refObject(t, raw, "name", "version", "title", "description", "websiteUrl", "icons")
	refStrings(t, info, []string{"name", "version"}, []string{"title", "description", "websiteUrl"})
	icons, ok := info["icons"]
	if !ok {
		return
	}
	var elements []json.RawMessage
	if err := json.Unmarshal([]byte(icons), &elements); err != nil || elements == nil {
		t.Fatalf("accepted the icons %s", icons)
	}
	for _, element := range elements {
		icon, _ := refObject(t, element, "src", "mimeType", "sizes", "theme")
		refStrings(t, icon, []string{"src"}, []string{"mimeType"})
		var sizes []*string
		if list, ok := icon["sizes"]; ok && (json.Unmarshal([]byte(list), &sizes) != nil || sizes == nil || slices.Contains(sizes, nil)) {
			t.Fatalf("accepted the sizes %s", list)
		}
		if theme, ok := icon["theme"]; ok && theme != `"light"` && theme != `"dark"` {
			t.Fatalf("accepted the theme %s", theme)
		}
	}
}

// refStrings fails the test unless members are strings, and the needed ones there.
func refStrings(t *testing.T, members map[string]string, needed, optional []string) {
	t.Helper()
	for _, name := range needed {
		if _, ok := members[name]; !ok {
			t.Fatalf("accepted what has no %s", name)
		}
	}
	for _, name := range slices.Concat(needed, optional) {
		if raw, ok := members[name]; ok {
			refString(t, raw)
		}
	}
}

// refRequest is how encoding/json reads a request: it ignores case.
type refRequest struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params struct {
		Cursor json.RawMessage            `json:"cursor"`
		URI    json.RawMessage            `json:"uri"`
		Name   json.RawMessage            `json:"name"`
		Meta   map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
}
