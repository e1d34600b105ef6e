package message

import (
	"errors"
	"strings"
	"testing"
)

func TestWithPrefix(t *testing.T) {
	for item, want := range map[string]string{
		`{"name":"a"}`: `{"name":"x__a"}`,
		`{"big":12345678901234567890.10, "inner":{"name":"n"},"name" : "\u0061\"","zz":[{"name":"m"}]}`: `{"big":12345678901234567890.10, "inner":{"name":"n"},"name" : "x__\u0061\"","zz":[{"name":"m"}]}`,
		`{"n\u0061me":"a"}`: `{"n\u0061me":"x__a"}`,
	} {
		if got, err := WithPrefix([]byte(item), "x__"); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", item, got, err, want)
		}
	}
	for item, want := range map[string]error{
		`{}`:                      ErrInvalid,
		`{"name":1}`:              ErrInvalid,
		`{"name":"a","name":"b"}`: ErrAmbiguous,
		`{"name":"a","Name":"b"}`: ErrAmbiguous,
		`[]`:                      ErrInvalid,
	} {
		if got, err := WithPrefix([]byte(item), "x__"); !errors.Is(err, want) {
			t.Errorf("%s: got %s, %v; want %v", item, got, err, want)
		}
	}
}

func TestWithString(t *testing.T) {
	call := `{"params":{"arguments":{"name":"inner"},"name":"x__a"},"name":"outer"} `
	got, err := WithString([]byte(call), "a\"\n", "params", "name")
	if want := `{"params":{"arguments":{"name":"inner"},"name":"a\"\n"},"name":"outer"} `; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	for _, bad := range []string{`{}`, `{"params":{}}`, `{"params":{"name":1}}`, `{"params":{"name":"a"}}{}`, `{"params":{"name":"a","name":"b"}}`} {
		if got, err := WithString([]byte(bad), "a", "params", "name"); err == nil {
			t.Errorf("%s: got %s", bad, got)
		}
	}
}

func TestStringAt(t *testing.T) {
	for object, want := range map[string]string{
		`{"a":{"b":"c\u0064"}}`: "cd", `{"a":{"b":1}}`: "", `{"a":[]}`: "", `{}`: "", `{"b":"x"}`: "", `nonsense`: "",
	} {
		if got := StringAt([]byte(object), "a", "b"); got != want {
			t.Errorf("%s: got %q, want %q", object, got, want)
		}
	}
}

func FuzzWithString(f *testing.F) {
	f.Add([]byte(`{"params":{"name":"a","arguments":{"name":"b"}}}`), "c")
	f.Fuzz(func(t *testing.T, object []byte, text string) {
		changed, err := WithString(object, text, "params", "name")
		if err != nil {
			return
		}
		// What was there comes back, byte for byte but for how the string is written.
		before := StringAt(object, "params", "name")
		again, err := WithString(changed, before, "params", "name")
		if err != nil || StringAt(again, "params", "name") != before {
			t.Fatalf("%q became %q and %q: %v", object, changed, again, err)
		}
	})
}

func TestWithValue(t *testing.T) {
	for _, tt := range []struct {
		object string
		path   []string
		want   string
	}{
		{`{"id": 7,"params":{}}`, []string{"id"}, `{"id": "x","params":{}}`},
		{`{"a":1}`, []string{"id"}, `{"id":"x","a":1}`},
		{` { } `, []string{"id"}, ` {"id":"x" } `},
		{`{"params": { "a":[1.0] }}`, []string{"params", "b"}, `{"params": {"b":"x", "a":[1.0] }}`},
		{`{"params":{"b":{"c":1}}}`, []string{"params", "b"}, `{"params":{"b":"x"}}`},
	} {
		got, err := WithValue([]byte(tt.object), []byte(`"x"`), tt.path...)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %q, %v; want %q", tt.object, got, err, tt.want)
		}
	}
	for _, bad := range []string{`{}`, `{"params":[]}`, `{"params":1}`, `[]`, `{"params":{},"params":{}}`} {
		if got, err := WithValue([]byte(bad), []byte(`1`), "params", "a"); err == nil {
			t.Errorf("%s: got %s", bad, got)
		}
	}
}

func TestWithout(t *testing.T) {
	got, err := Without([]byte(`{"a": 1.0, "b":{"a":2},"\u0063":3, "d" : "x"}`), "a", "c")
	if want := `{"b":{"a":2},"d":"x"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if got, err := Without([]byte(`{"a":1,"a":2}`), "a"); err == nil {
		t.Errorf("got %s", got)
	}
}

func TestAround(t *testing.T) {
	const request = `{"id": 1 ,"params":{"_meta":{"progressToken":"t"}}}`
	for path, want := range map[string]string{
		"id":                          `{"id": | ,"params":{"_meta":{"progressToken":"t"}}}`,
		"params/_meta/progressToken":  `{"id": 1 ,"params":{"_meta":{"progressToken":|}}}`,
		"params/_meta/another":        "",
		"params/_meta/progressToken/": "",
	} {
		before, after, err := Around([]byte(request), strings.Split(path, "/")...)
		if got := string(before) + "|" + string(after); err == nil && got != want || (err != nil) != (want == "") {
			t.Errorf("%s: got %s, %v, want %q", path, got, err, want)
		}
	}
}
