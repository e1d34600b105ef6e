package message

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseResponse(t *testing.T) {
	for name, tt := range map[string]struct {
		data string
		want Response
	}{
		"result": {
			` {"jsonrpc":"2.0","id":7,"result":{ "tools":[]},"x":1} `,
			Response{ID: []byte("7"), Result: []byte(`{ "tools":[]}`)},
		},
		"error": {
			`{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"no \"x\"","data":[1]}}`,
			Response{ID: []byte(`"a"`), Error: &Error{Code: -32601, Message: `no "x"`}},
		},
		"error without id": {
			`{"jsonrpc":"2.0","error":{"code":-32700,"message":""}}`,
			Response{Error: &Error{Code: -32700}},
		},
		"error with id null": {
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m","more":1}}`,
			Response{Error: &Error{Code: -32700, Message: "m"}},
		},
		"unsupported version": {
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":["2025-11-25","2026-07-2\u0038"],"requested":"x"}}}`,
			Response{ID: []byte("1"), Error: &Error{Code: -32022, Message: "m", Supported: []string{"2025-11-25", "2026-07-28"}}},
		},
		"supported is something else": {
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":["a",1]}}}`,
			Response{ID: []byte("1"), Error: &Error{Code: -32022, Message: "m"}},
		},
		"null is absent": {
			`{"jsonrpc":"2.0","method":null,"params":null,"id":"a","error":null,"result":{"a":null}}`,
			Response{ID: []byte(`"a"`), Result: []byte(`{"a":null}`)},
		},
		"no result": {
			`{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}`,
			Response{ID: []byte("1"), Error: &Error{Code: 1, Message: "m"}},
		},
		"a fraction": {`{"jsonrpc":"2.0","id":-3.0,"result":{}}`, Response{ID: []byte("-3"), Result: []byte("{}")}},
		"a power":    {`{"jsonrpc":"2.0","id":3e2,"result":{}}`, Response{ID: []byte("300"), Result: []byte("{}")}},
		"the version twice": {
			`{"jsonrpc":"2.0","id":1,"result":{},"jsonrpc":"2.0"}`,
			Response{ID: []byte("1"), Result: []byte("{}")},
		},
		"supported twice": {
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":["a"],"supported":["b"]}}}`,
			Response{ID: []byte("1"), Error: &Error{Code: -32022, Message: "m"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseResponse([]byte(tt.data))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestParseResponseRefuses(t *testing.T) {
	for data, want := range map[string]error{
		``:                                                                                   ErrInvalid,
		`[{"jsonrpc":"2.0","id":1,"result":{}}]`:                                             ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"result":{}} x`:                                             ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"result":{}`:                                                ErrInvalid,
		`{"id":1,"result":{}}`:                                                               ErrInvalid,
		`{"jsonrpc":"1.0","id":1,"result":{}}`:                                               ErrInvalid,
		`{"jsonrpc":"2.0","result":{}}`:                                                      ErrInvalid,
		`{"jsonrpc":"2.0","id":null,"result":{}}`:                                            ErrInvalid,
		`{"jsonrpc":"2.0","id":true,"result":{}}`:                                            ErrInvalid,
		`{"jsonrpc":"2.0","id":1}`:                                                           ErrInvalid,
		`{"jsonrpc":"2.0","id":1.5,"result":{}}`:                                             ErrInvalid,
		`{"jsonrpc":"2.0","id":1e99,"result":{}}`:                                            ErrInvalid,
		`{"jsonrpc":null,"id":1,"result":{}}`:                                                ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"result":[]}`:                                               ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"result":null}`:                                             ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`:               ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                                           ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`:                               ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"error":null}`:                                              ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}`:                                   ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`:                                        ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"m"}}`:                        ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}`:                        ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"error":{"code":99999999999999999999,"message":"m"}}`:       ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":2}}`:                            ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":1,"message":"m"}}`:                 ErrAmbiguous,
		`{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`:                                   ErrAmbiguous,
		`{"jsonrpc":"2.0","id":1,"result":null,"result":{}}`:                                 ErrAmbiguous,
		`{"jsonrpc":"2.0","jsonrpc":"1.0","id":1,"result":{}}`:                               ErrInvalid,
		`{"jsonrpc":"2.0","jsonRPC":"2.0","id":1,"result":{}}`:                               ErrAmbiguous,
		`{"jsonrpc":"2.0","id":1,"result":null,"error":null}`:                                ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"result":{},"RESULT":{}}`:                                   ErrAmbiguous,
		`{"jsonrpc":"2.0","id":1,"\u0049d":2,"result":{}}`:                                   ErrAmbiguous,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", MaxID-1) + `","result":{}}`:          ErrInvalid,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\xff\"}}":                         ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"result":{"a":` + strings.Repeat(`[`, 20000) + `}`:          ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"` + "\x01" + `"},"x":"` + `"}`: ErrInvalid,
	} {
		got, err := ParseResponse([]byte(data))
		if !errors.Is(err, want) {
			t.Errorf("%.80s: got error %v, want %v", data, err, want)
		}
		if !reflect.DeepEqual(got, Response{}) {
			t.Errorf("%.80s: response is not empty", data)
		}
	}
}

func TestBeginsAsResponse(t *testing.T) {
	for beginning, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"xxx`: true, `{"result":{`: true, ` {"id":1,"error":{`: true, `{"_x":{"method":"a"},"result":{}}`: true, `{"error":null,"result":{`: true,
		`{"result":null,"method":"a"`: false, `{"result":null,"error":null,"id":1`: false, `{"result":`: false, `{"result":1}`: false,
		`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"x`: false, `{"id":1,"params":{"result":1`: false, `{"method":"a","result":1}`: false,
		`{"id":1,"Result":{`: false, `{"result\u0000":{`: false, `{"jsonrpc":"2.0","id":1,"resu`: false, `{"id":1`: false, `{`: false, ``: false, `[{"result":1`: false, `nonsense`: false, `{}`: false,
	} {
		if got := BeginsAsResponse([]byte(beginning)); got != want {
			t.Errorf("%s: %v", beginning, got)
		}
	}
}

func TestErrorText(t *testing.T) {
	short := &Error{Code: -32601, Message: "no\nsuch"}
	if got, want := short.Error(), `upstream error -32601: "no\nsuch"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, message := range []string{strings.Repeat("x", 200) + "y", strings.Repeat("x", 199) + "é"} {
		text := (&Error{Message: message}).Error()
		if strings.ContainsAny(text, "yé") {
			t.Errorf("more than 200 bytes in %s", text)
		}
		if strings.Contains(text, `\x`) { // how half a rune is quoted
			t.Errorf("a rune is cut in %s", text)
		}
		if strings.Count(text, "x") < 199 {
			t.Errorf("less than 199 bytes in %s", text)
		}
	}
}
