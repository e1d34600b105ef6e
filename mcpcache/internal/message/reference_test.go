package message

import (
	"bytes"
	"encoding/json"
	"io"
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
// first, one that takes the last, and one that ignores case.
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
			if !strings.EqualFold(m.name, key) {
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
