package message

import "testing"

func TestAnnotations(t *testing.T) {
	careless := Annotations{Destructive: true, OpenWorld: true}
	for tool, want := range map[string]Annotations{
		`{"name":"a"}`:                          careless,
		`{"annotations":{}}`:                    careless,
		`{"annotations":null}`:                  careless,
		`{"annotations":{"title":"x"}}`:         careless,
		`{"annotations":{"readOnlyHint":true}}`: {ReadOnly: true, Idempotent: true, OpenWorld: true},
		`{"annotations":{"readOnlyHint":true,"destructiveHint":true}}`:                     {ReadOnly: true, Idempotent: true, OpenWorld: true},
		`{"annotations":{"destructiveHint":false,"idempotentHint":true}}`:                  {Idempotent: true, OpenWorld: true},
		`{"annotations":{"openWorldHint":false}}`:                                          {Destructive: true},
		`{"annotations":{"readOnlyHint":"true","openWorldHint":0}}`:                        careless,
		`{"annotations":{"ReadOnlyHint":true}}`:                                            careless,
		`{"annotations":{"readOnlyHint":true,"readOnlyHint":true}}`:                        careless,
		`{"annotations":{"readOnlyHint":true},"Annotations":{}}`:                           careless,
		`{"annotations":{"readOnlyHint":true},"annotations":{"destructiveHint":false}}`:    careless,
		`{"annotations":{"readOnlyHint":true,"openWorldHint":false,"openworldhint":true}}`: careless,
	} {
		if got := AnnotationsOf([]byte(tool)); got != want {
			t.Errorf("%s: %+v, want %+v", tool, got, want)
		}
	}
}
