package message

import (
	"errors"
	"testing"
)

func TestParseEnvelope(t *testing.T) {
	for text, want := range map[string]Envelope{
		`{"jsonrpc":"2.0","id":"a","method":"x\u002fy","params":{"id":1}}`:          {ID: []byte(`"a"`), Method: "x/y"},
		`{"method":"x","jsonrpc":"2.0","more":{"method":1}}`:                        {Method: "x"},
		` {"jsonrpc":"2.0","id":7,"result":{"method":"no"}} `:                       {ID: []byte(`7`), Response: true},
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`:         {Response: true},
		`{"jsonrpc":"2.0","id":8,"result":{"cut":"\ud83d"},"error":null}`:           {ID: []byte(`8`), Response: true},
		`{"jsonrpc":"2.0","jsonrpc":"2.0","id":3.0,"method":null,"result":{}}`:      {ID: []byte(`3.0`), Response: true},
		`{"jsonrpc":"2.0","id":3e0,"params":null,"error":{"code":1,"message":"m"}}`: {ID: []byte(`3e0`), Response: true},
		`{"jsonrpc":"2.0","id":8,"result":null}`:                                    {ID: []byte(`8`), Response: true},
		`{"jsonrpc":"2.0","id":1.0,"method":"x","error":null}`:                      {ID: []byte(`1.0`), Method: "x"},
	} {
		got, err := ParseEnvelope([]byte(text))
		if err != nil || string(got.ID) != string(want.ID) || got.Method != want.Method || got.Response != want.Response {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	text := []byte(`{"jsonrpc":"2.0","result":{"id":1,"cut":"\ud83d"}, "id" : 12 }`)
	e, err := ParseEnvelope(text)
	if got := string(e.WithID(text, []byte(`"a"`))); err != nil || got != `{"jsonrpc":"2.0","result":{"id":1,"cut":"\ud83d"}, "id" : "a" }` {
		t.Errorf("got %s, %v", got, err)
	}
	for text, want := range map[string]error{
		`[{"jsonrpc":"2.0","method":"x"}]`:                  ErrBatch,
		`{"jsonrpc":"2.0","method":"x","Method":"y"}`:       ErrAmbiguous,
		`{"jsonrpc":"2.0","id":1,"id":2,"result":{}}`:       ErrAmbiguous,
		`{"jsonrpc":"1.0","method":"x"}`:                    ErrInvalid,
		`{"jsonrpc":"2.0","jsonrpc":"1.0","method":"x"}`:    ErrInvalid,
		`{"jsonrpc":null,"id":1,"result":{}}`:               ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"method":null}`:            ErrInvalid,
		`{"method":"x"}`:                                    ErrInvalid,
		`{"jsonrpc":"2.0","id":1.5,"method":"x"}`:           ErrInvalid,
		`{"jsonrpc":"2.0","method":7}`:                      ErrInvalid,
		`{"jsonrpc":"2.0","id":1}`:                          ErrInvalid,
		`{"jsonrpc":"2.0","id":1,"method":"x","result":{}}`: ErrInvalid,
		`{"jsonrpc":"2.0","method":"x"} more`:               ErrInvalid,
		`Listening on standard input`:                       ErrInvalid,
		`"text"`:                                            ErrInvalid,
		``:                                                  ErrInvalid,
	} {
		if _, err := ParseEnvelope([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}
