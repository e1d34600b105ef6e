package command

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode"
)

func TestEscapedJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"b"}`:              `{"a":"b"}`,
		"{\n  \"a\": 1\n}\n":     "{\n  \"a\": 1\n}\n",
		"{\t\"a\":\r1}":          "{ \"a\": 1}",
		`"ä 語 😀"`:                `"ä 語 😀"`,
		"\"a\u009b31mb\"":        `"a\u009b31mb"`,        // C1: CSI
		"\"\u0080\u009f\"":       `"\u0080\u009f"`,       // C1, the first and the last
		"\"\x7f\"":               `"\u007f"`,             // DEL
		"\"\u202e\u2066\u061c\"": `"\u202e\u2066\u061c"`, // direction
		"\"\u200b\ufeff\u00ad\"": `"\u200b\ufeff\u00ad"`, // cannot be seen
		"\"\u2028\u00a0\"":       `"\u2028\u00a0"`,       // spaces of other kinds
		"\"\U000e0041\"":         `"\udb40\udc41"`,       // tags, which models read
		"\"\xff\xc2\"":           `"\ufffd\ufffd"`,       // no UTF-8
		"\"\ufffd\"":             "\"\ufffd\"",           // the sign itself is printed
		"\"\xc2\u202e\"":         `"\ufffd\u202e"`,       // a lone byte before one
		`"\u202e"`:               `"\u202e"`,             // escaped already
	} {
		got := escapeJSON([]byte(text))
		if string(got) != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		var before, after any
		if json.Unmarshal([]byte(text), &before) != nil || json.Unmarshal(got, &after) != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%q: means %q, then %q", text, before, after)
		}
	}
}

func FuzzEscapeJSON(f *testing.F) {
	f.Add("\"\u009b\U000e0041\xff\"")
	f.Fuzz(func(t *testing.T, text string) {
		got := escapeJSON([]byte(text))
		for _, r := range string(got) {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q became %q", text, got)
			}
		}
		if json.Valid([]byte(text)) && !json.Valid(got) {
			t.Fatalf("%q became %q, which is no JSON", text, got)
		}
	})
}
