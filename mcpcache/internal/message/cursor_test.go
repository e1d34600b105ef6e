package message

import "testing"

func TestWithoutCursor(t *testing.T) {
	for request, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"c"}}`:        `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`,
		` { "params" : { "_meta":{"a":[1, 2]}, "cursor" : "}\"" , "x":1.0 } ,"id":"i"}`: `{"params":{"_meta":{"a":[1, 2]},"x":1.0},"id":"i"}`,
		`{"p\u0061rams":{"curs\u006fr":"c","y":null},"cursor":"not this one"}`:          `{"p\u0061rams":{"y":null},"cursor":"not this one"}`,
		`{"id":1}`: `{"id":1}`,
	} {
		if got, err := WithoutCursor([]byte(request)); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", request, got, err, want)
		}
	}
	for _, request := range []string{`[]`, `{"params":[]}`, `{"params":{"cursor":"a","cursor":"b"}}`, `{"params":{"cursor":`} {
		if got, err := WithoutCursor([]byte(request)); err == nil {
			t.Errorf("%s: got %s", request, got)
		}
	}
}
